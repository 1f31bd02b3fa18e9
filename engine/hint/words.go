package hint

// Domain is the residency domain of a candidate.
type Domain uint8

const (
	// Worker is the framework's own cache: device blocks and host copies.
	Worker Domain = iota
	// CacheOwner is the pool of the in-engine cache library, which outlives
	// the worker's copies and is evicted independently of them.
	CacheOwner
)

// String returns the name used on every surface: worker or cache_owner.
func (d Domain) String() string {
	if d == CacheOwner {
		return "cache_owner"
	}
	return "worker"
}

// Role is the worker type that a hint-capable source declares. Hints are only
// exchanged between equal roles.
type Role uint8

const (
	NotCapable Role = iota // declares no type: neither target nor source
	Aggregated
	Prefill
	Decode
)

// Roles are the accepted spellings, for error texts.
const Roles = "aggregated (or agg), prefill, decode"

// ParseRole reads a declared worker type. The empty string is NotCapable; ok
// is false for a word that is none of Roles.
func ParseRole(s string) (r Role, ok bool) {
	switch s {
	case "":
		return NotCapable, true
	case "aggregated", "agg":
		return Aggregated, true
	case "prefill":
		return Prefill, true
	case "decode":
		return Decode, true
	}
	return NotCapable, false
}

// String returns the canonical spelling, "" for NotCapable.
func (r Role) String() string {
	return [...]string{"", "aggregated", "prefill", "decode"}[r&3]
}

// Place names a (source, dp rank).
type Place struct {
	Source string
	Rank   int
}
