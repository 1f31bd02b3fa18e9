package ingest

import (
	"time"

	"github.com/cairn-kv/cairn/tree/shard"
)

// State says what a stream's word is worth in one domain.
type State uint8

// The states, numbered as in the engine's API.
const (
	Connecting   State = iota // nothing applied yet
	Exact                     // no loss since the beginning, or since made whole
	Repairing                 // something is missing and being asked for: hidden
	Degraded                  // something was lost for good, and all before it is gone
	Disconnected              // the link is down: the truth of then
	Fenced                    // out until the worker restarts or is attached anew
	NumStates
)

var stateNames = [NumStates]string{"connecting", "exact", "repairing", "degraded", "disconnected", "fenced"}

// String returns the state's word.
func (s State) String() string {
	if s < NumStates {
		return stateNames[s]
	}
	return "unknown"
}

// Cause says why a state is not exact. Empty: it is, or nothing has happened.
type Cause string

// The causes.
const (
	CauseGap         Cause = "gap"          // sequences are missing
	CauseLateJoin    Cause = "late_join"    // the first sequence seen is not the first there was
	CauseUndecodable Cause = "undecodable"  // a batch could not be decoded
	CauseGeometry    Cause = "geometry"     // a block size that the unit does not divide
	CauseRestart     Cause = "restart"      // a durable pool was not told about while its engine restarted
	CauseNoPool      Cause = "no_pool"      // kvcr on a source without owned residency
	CauseOwnership   Cause = "ownership"    // an owner that nobody knows
	CauseNewRank     Cause = "new_rank"     // a rank that was not seen before the loss
	CauseLink        Cause = "disconnected" // the link is down

	// Of attached streams.
	CauseRegression    Cause = "regression"     // a sequence below the last one
	CauseExhausted     Cause = "exhausted"      // no sequence is left
	CauseStranger      Cause = "stranger"       // another process answers in the publisher's place
	CauseFrames        Cause = "frames"         // a message of other frames than a batch has
	CauseTooBig        Cause = "too_big"        // a message or event over its limit
	CauseRank          Cause = "rank"           // a batch of another rank than the slot's
	CauseOwnerTier     Cause = "owner_tier"     // the cache owner's, on a tier it cannot have
	CauseOwnerGeometry Cause = "owner_geometry" // the cache owner's, of another block size than the slot's
)

// standing is what a stream's word in one domain is worth, by the position
// that an answer's walk began at:
//
//	──────────────┬───────────────┬─────────────▶
//	     short    │    before     │    state
//	            begin           from
//
// Immutable; replaced as a whole.
type standing struct {
	state State
	cause Cause
	since time.Time
	// begin is the first batch of the history that state is about. An answer
	// short of it may have seen what is left of the one before.
	begin shard.Position
	short State
	// from is the batch that led to state, if that is better than before.
	from   shard.Position
	before State
	// advisory: what a loss would have emptied was kept, and may be gone; so was
	// it before from (advised), and short of begin (retained).
	advisory, advised, retained bool
}

// advises is advisory for an answer whose walk began at p.
func (s *standing) advises(p shard.Position) bool {
	switch {
	case !reached(p, s.begin):
		return s.retained
	case !reached(p, s.from):
		return s.advised
	}
	return s.advisory
}

// at is the state for an answer whose walk began at p.
func (s *standing) at(p shard.Position) (State, Cause) {
	switch {
	case !reached(p, s.begin):
		if s.short == s.state {
			return s.state, s.cause
		}
		return s.short, ""
	case !reached(p, s.from):
		return s.before, ""
	}
	return s.state, s.cause
}

// reached reports whether p is at from or behind it.
func reached(p, from shard.Position) bool {
	if p.Incarnation != from.Incarnation {
		return p.Incarnation > from.Incarnation
	}
	return !from.Any || p.Any && p.Seq >= from.Seq
}

// Status describes one domain of a stream.
type Status struct {
	State State
	Cause Cause // why State is not Exact
	// Advisory: the domain holds what was kept over a loss or a detachment, and
	// may be gone by now. Nothing exact is claimed of it.
	Advisory bool
	Since    time.Time // of the last change that was not about the link; zero if none

	Connected bool
	Down      time.Time // when the link went down; zero unless Disconnected
	Epoch     uint32    // connections made so far
	LastError string    // why the last connection, or attempt, ended; "" while connected

	Seq      uint64    // last sequence received
	Received bool      // there was one
	Message  time.Time // when the last message came; zero if none did
	Heard    time.Time // the same for messages and heartbeats
	// Lag is how old the last batch was when it was received, by the
	// publisher's clock; 0 if the batch states no time in seconds.
	Lag time.Duration
}

// Status returns what the stream's word in domain d is worth for an answer
// whose walk began when the port had applied through from. Any goroutine may
// call it, after the walk; pass Port.Applied() to ask about now. The walk has
// seen nothing beyond Port.Begun() behind it.
func (s *Stream) Status(d Domain, from shard.Position) Status {
	// In this order: a link is called up again behind the standing that its new
	// process begins with. Who looked at the standing first could take the word
	// of the process before for one of a link that is up.
	down := s.down.Load()
	st := s.standings[d].Load()
	out := Status{
		Since:     st.since,
		Connected: s.connected.Load(),
		Epoch:     s.epoch.Load(),
		Received:  s.received.Load(),
		Message:   instant(s.message.Load()),
		Heard:     instant(s.heard.Load()),
		Lag:       time.Duration(s.lag.Load()),
	}
	out.State, out.Cause = st.at(from)
	out.Advisory = st.advises(from)
	if out.Received {
		out.Seq = s.lastSeq.Load()
	}
	if down != 0 && (out.State == Exact || out.State == Degraded) {
		out.State, out.Cause, out.Down = Disconnected, CauseLink, instant(down)
	}
	if e := s.lastError.Load(); e != nil {
		out.LastError = *e
	}
	return out
}

func instant(unixNano int64) time.Time {
	if unixNano == 0 {
		return time.Time{}
	}
	return time.Unix(0, unixNano)
}
