package hint

import "github.com/cairn-kv/cairn/internal/jsontext"

// Constants of the message as it stands on the wire.
const (
	ProtocolVersion = "0.1"
	FetchType       = "kv.fetch"
	FetchVersion    = "1.0"
	FetchID         = "a1" // id of the one action we emit
)

// AppendFetch appends the hint's JSON to dst: one kv.fetch action that names
// the source's control endpoint and its whole root prefix, root first. The
// names are the engine's own, written as exact integers. It allocates only if
// dst is too small, and keeps none of its arguments.
func AppendFetch(dst []byte, messageID, endpoint string, names []uint64) []byte {
	return AppendFetchAs(dst, messageID, endpoint, names, Numbers)
}

// AppendFetchAs is AppendFetch with the names written in another form.
func AppendFetchAs(dst []byte, messageID, endpoint string, names []uint64, form Form) []byte {
	dst = append(dst, `{"protocol_version":"`+ProtocolVersion+`","message_id":`...)
	dst = jsontext.AppendString(dst, messageID)
	dst = append(dst, `,"actions":[`...)
	dst = appendFetchAction(dst, FetchID, FetchVersion, endpoint, names, form)
	return append(dst, `]}`...)
}

func appendFetchAction(dst []byte, id, version, endpoint string, names []uint64, form Form) []byte {
	dst = append(dst, `{"action_id":`...)
	dst = jsontext.AppendString(dst, id)
	dst = append(dst, `,"action_type":"`+FetchType+`","action_version":`...)
	dst = jsontext.AppendString(dst, version)
	dst = append(dst, `,"payload":{"`+keyEndpoint+`":`...)
	dst = jsontext.AppendString(dst, endpoint)
	dst = append(dst, `,"`+keyNames+`":`...)
	return append(AppendNames(dst, names, form), `}}`...)
}

// Message is a parsed hint.
type Message struct {
	ProtocolVersion string
	MessageID       string
	Actions         []Action
}

// Action is one entry of a message. Only kv.fetch is understood; any other
// action is opaque: kept as it came, written back unchanged, never used.
type Action struct {
	ID, Type, Version string
	// Fetch is set for kv.fetch, and nil for every other type.
	Fetch *Fetch
	// Raw is the action as it came, for types that are not understood.
	Raw []byte
}

// Fetch is the payload of kv.fetch.
type Fetch struct {
	Endpoint string   // tcp://host:port
	Names    []uint64 // the engine's block names, root first, no duplicates
}

// FirstFetch returns the action a consumer acts on: the first kv.fetch.
func (m *Message) FirstFetch() *Fetch {
	for i := range m.Actions {
		if f := m.Actions[i].Fetch; f != nil {
			return f
		}
	}
	return nil
}

// Append appends the message's JSON to dst, opaque actions as they came.
func (m *Message) Append(dst []byte) []byte {
	dst = append(dst, `{"protocol_version":`...)
	dst = jsontext.AppendString(dst, m.ProtocolVersion)
	dst = append(dst, `,"message_id":`...)
	dst = jsontext.AppendString(dst, m.MessageID)
	dst = append(dst, `,"actions":[`...)
	for i := range m.Actions {
		if i > 0 {
			dst = append(dst, ',')
		}
		if a := &m.Actions[i]; a.Fetch != nil {
			dst = appendFetchAction(dst, a.ID, a.Version, a.Fetch.Endpoint, a.Fetch.Names, Numbers)
		} else {
			dst = append(dst, a.Raw...)
		}
	}
	return append(dst, `]}`...)
}
