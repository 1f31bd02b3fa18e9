package identity

// Protocol is an ingress protocol: what a stream's word covers, and how long
// the inventory of its cache owner lives.
type Protocol uint8

// The protocols.
const (
	Framework     Protocol = iota // the framework's own cache, no owner
	VLLMResidency                 // a durable owner: its pool outlives the engine
	HiCache                       // an engine-local owner: its pool dies with the engine
)

var protocols = [...]Spelling{
	Framework:     FrameworkProtocol,
	VLLMResidency: VLLMResidencyProtocol,
	HiCache:       HiCacheProtocol,
}

// ParseProtocol reads any known spelling of a protocol. The empty text is none.
func ParseProtocol(s string) (p Protocol, ok bool) {
	for p, spelling := range protocols {
		if spelling.Is(s) {
			return Protocol(p), true
		}
	}
	return Framework, false
}

// String is the spelling we write.
func (p Protocol) String() string {
	if int(p) < len(protocols) {
		return protocols[p].Text()
	}
	return "unknown protocol"
}

// Owned reports whether the protocol carries the residency of a cache owner.
func (p Protocol) Owned() bool { return p == VLLMResidency || p == HiCache }

// EngineLocal reports whether the owner's inventory dies with its engine.
func (p Protocol) EngineLocal() bool { return p == HiCache }

// OwnedProtocols lists every accepted spelling of a protocol with owned
// residency, those we write first.
func OwnedProtocols() []string {
	all := []string{VLLMResidencyProtocol.Text(), HiCacheProtocol.Text()}
	for _, s := range []Spelling{VLLMResidencyProtocol, HiCacheProtocol} {
		all = append(all, s.All()[1:]...)
	}
	return all
}
