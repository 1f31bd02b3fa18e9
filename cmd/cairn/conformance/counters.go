package conformance

import "github.com/cairn-kv/cairn/engine"

// Names of the engine's counters that scripts and traces speak of.
var counterNames = map[string]string{
	"gaps":        "gaps",
	"missing":     "missing_batches",
	"restarts":    "restarts",
	"dropped":     "messages_dropped",
	"connections": "connects",
}

// streamCount sums a stream's counter over its reasons, by the word of a script.
func streamCount(st *engine.StreamStatus, word string) uint64 {
	return sumCounter(st, counterNames[word])
}

// rejectedEvents sums the events that were refused alone.
func rejectedEvents(streams []engine.StreamStatus) uint64 {
	n := uint64(0)
	for i := range streams {
		n += sumCounter(&streams[i], "events_rejected")
	}
	return n
}

func sumCounter(st *engine.StreamStatus, name string) uint64 {
	n := uint64(0)
	if st == nil {
		return 0
	}
	for _, c := range st.Counters {
		if c.Name == name {
			n += c.Value
		}
	}
	return n
}
