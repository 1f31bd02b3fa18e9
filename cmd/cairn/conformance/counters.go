package conformance

import (
	"strings"

	"github.com/cairn-kv/cairn/engine"
)

// Names of the engine's counters that scripts and traces speak of.
var counterNames = map[string]string{
	"gaps":        "gaps",
	"missing":     "missing_batches",
	"restarts":    "restarts",
	"dropped":     "messages_dropped",
	"connections": "connects",
	"received":    "messages",
	"applied":     "batches",
	"losses":      "losses",
	"failed":      "repairs_failed",
	"malformed":   "replay_replies_dropped/malformed",
}

// streamCount sums a stream's counter over its reasons, or takes the one behind
// the slash, by the word of a script.
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
	name, reason, divided := strings.Cut(name, "/")
	if st == nil {
		return 0
	}
	for _, c := range st.Counters {
		if c.Name == name && (!divided || c.Reason == reason) {
			n += c.Value
		}
	}
	return n
}
