package engine

import "time"

// State says what a holder's word is worth now. The set is part of the API:
// later releases add no state.
type State uint8

const (
	// Connecting: nothing was applied yet. No depths, no hints.
	Connecting State = iota
	// Exact: nothing was lost since the beginning, or since the source was last
	// made whole.
	Exact
	// Repairing: something is missing and is being asked for. No depths, no
	// hints.
	Repairing
	// Degraded: something was lost for good. All learnt before it is gone; what
	// came after is true but not all. Hints only if Options.AllowDegradedHints.
	Degraded
	// Disconnected: the link is down. The truth of then, for
	// Options.StaleAfter; no depths after that. No hints.
	Disconnected
	// Fenced: out until the worker restarts or is attached anew.
	Fenced
	// NumStates is the number of states.
	NumStates
)

var stateNames = [NumStates]string{"connecting", "exact", "repairing", "degraded", "disconnected", "fenced"}

// String returns the state as it stands in answers and metrics.
func (s State) String() string {
	if s < NumStates {
		return stateNames[s]
	}
	return "unknown"
}

// Freshness is how far a holder's answer can be believed.
type Freshness struct {
	State State
	// Cause says why State is not Exact: gap, late_join, undecodable, geometry,
	// restart, no_pool, ownership, new_rank, disconnected, unsound_release; of owners that attach
	// and their workers also regression, stranger, exhausted, frames, too_big, rank,
	// owner_tier, owner_geometry, fenced, quarantined, cache_owner_failed,
	// detached, cleared. "" if it is, or nothing has happened.
	Cause string
	// Advisory: the holder has what was kept over a loss or a detachment, and
	// some of it may be gone. Nothing exact is claimed of it.
	Advisory bool
	// Thinned: the index gave up blocks of the holder for its byte budget, or
	// had no room for some. What is said is true; depths may be too low.
	Thinned bool
	// Hidden: depths are withheld though the state alone would show them
	// (disconnected for longer than Options.StaleAfter).
	Hidden bool
	// Silent: connected, but not even a heartbeat for Options.SilentAfter.
	Silent bool
	// Seq is the last sequence received, 0 before the first.
	Seq uint64
	// Applied is the sequence that was wholly visible before the walk, and the
	// last one of which anything was visible when it ended: the depths equal the
	// truth somewhere between the two. The second is the same as the first, or
	// higher by the batches that became visible during the walk and the one that
	// was about to. With several TP shards it is the lowest before and the
	// highest after; the exact intervals are in Streams.
	Applied [2]uint64
	// Lag is how old the last batch was when it was received, by the publisher's
	// clock, and how long it has been waiting to become visible.
	Lag time.Duration
	// Age is the time since the last message; 0 if none came yet.
	Age time.Duration
	// Epoch counts the connections made, 0 before the first. With several TP
	// shards it is the highest.
	Epoch uint32
	// Streams has one entry per TP shard, in shard order. It is valid as long
	// as the answer it stands in.
	Streams []StreamPosition
}

// StreamPosition is the interval of one stream (one TP shard of a dp rank).
type StreamPosition struct {
	// Seq is the last sequence received.
	Seq uint64
	// Applied is as in Freshness, for this stream alone.
	Applied [2]uint64
	// Incarnation counts the publisher's restarts, as of before the walk and
	// after. Where they differ, the two Applied belong to two histories.
	Incarnation [2]uint32
	// Any tells whether the two Applied are sequences at all (0 is one): whether
	// a batch was visible before the walk, and any of one when it ended.
	Any [2]bool
}

// answers reports whether a state lets depths be shown.
func (s State) answers() bool { return s == Exact || s == Degraded || s == Disconnected }

// worse orders states from the most to the least trusted, to join the streams
// of one holder: a holder is as good as its worst stream.
var worse = [NumStates]uint8{Exact: 0, Degraded: 1, Disconnected: 2, Connecting: 3, Repairing: 4, Fenced: 5}

func worst(a, b State) State {
	if worse[b] > worse[a] {
		return b
	}
	return a
}
