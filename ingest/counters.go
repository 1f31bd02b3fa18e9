package ingest

import (
	"iter"
	"sync/atomic"

	"github.com/cairn-kv/cairn/ingest/wire"
)

// count names a counter of a stream.
type count uint8

const (
	countMessages count = iota
	countBytes
	countBatches
	countEvents
	countStored
	countPlaced
	countRemoved
	countClears

	countConnects
	countDisconnects
	countDialErrors
	countRestarts
	countGaps
	countMissing
	countLosses
	countFences

	countUnrecovered
	countHeld
	countReplayed
	countSnapshots
	countProbes
	countTails
	repairsBegun
	repairsWhole
	repairsPartial
	failNoReplay
	failSilence
	failTimeout
	failHold
	failTopic
	failCooldown
	failSnapshot
	failStranger
	failRegression
	failHistory

	dropFrameCount
	dropSequenceSize
	dropTopic
	dropEndMarker
	dropDuplicate
	dropFenced
	dropReplayed
	dropRank

	skipUnknownOwnership
	skipLocality
	skipScopedClear
	skipKind
	skipGroup
	skipUnlearnedGroup
	skipRank
	skipWorker
	skipBlockSize
	skipOpaque
	skipRecordSize
	skipRefused

	noteUnknownMedium
	notePieces

	numCounts
)

var countNames = [numCounts]Label{
	countMessages: {"messages", ""},
	countBytes:    {"bytes", ""},
	countBatches:  {"batches", ""},
	countEvents:   {"events", ""},
	countStored:   {"blocks", "stored"},
	countPlaced:   {"blocks", "placed"},
	countRemoved:  {"blocks", "removed"},
	countClears:   {"clears", ""},

	countConnects:    {"connects", ""},
	countDisconnects: {"disconnects", ""},
	countDialErrors:  {"dial_errors", ""},
	countRestarts:    {"restarts", ""},
	countGaps:        {"gaps", ""},
	countMissing:     {"missing_batches", ""},
	countLosses:      {"losses", ""},
	countFences:      {"fences", ""},

	countUnrecovered: {"unrecovered_batches", ""},
	countHeld:        {"held_messages", ""},
	countReplayed:    {"replayed_batches", ""},
	countSnapshots:   {"snapshots", ""},
	countProbes:      {"tail_probes", ""},
	countTails:       {"tails_lost", ""},
	repairsBegun:     {"repairs", "begun"},
	repairsWhole:     {"repairs", "whole"},
	repairsPartial:   {"repairs", "partial"},
	failNoReplay:     {"repairs_failed", "no_replay"},
	failSilence:      {"repairs_failed", "silence"},
	failTimeout:      {"repairs_failed", "timeout"},
	failHold:         {"repairs_failed", "hold_overflow"},
	failTopic:        {"repairs_failed", "topic"},
	failCooldown:     {"repairs_failed", "cooldown"},
	failSnapshot:     {"repairs_failed", "snapshot"},
	failStranger:     {"repairs_failed", "stranger"},
	failRegression:   {"repairs_failed", "regression"},
	failHistory:      {"repairs_failed", "history"},

	dropFrameCount:   {"messages_dropped", "frame_count"},
	dropSequenceSize: {"messages_dropped", "sequence_size"},
	dropTopic:        {"messages_dropped", "topic"},
	dropEndMarker:    {"messages_dropped", "end_marker"},
	dropDuplicate:    {"messages_dropped", "duplicate"},
	dropFenced:       {"messages_dropped", "fenced"},
	dropReplayed:     {"messages_dropped", "replayed"},
	dropRank:         {"messages_dropped", "rank"},

	skipUnknownOwnership: {"events_skipped", "unknown_ownership"},
	skipLocality:         {"events_skipped", "non_local_locality"},
	skipScopedClear:      {"events_skipped", "ambiguous_scoped_clear"},
	skipKind:             {"events_skipped", "non_main_attention_kind"},
	skipGroup:            {"events_skipped", "non_main_attention_group"},
	skipUnlearnedGroup:   {"events_skipped", "unlearned_group"},
	skipRank:             {"events_skipped", "rank"},
	skipWorker:           {"events_skipped", "other_worker"},
	skipBlockSize:        {"events_skipped", "unknown_block_size"},
	skipOpaque:           {"events_skipped", "opaque_tokens"},
	skipRecordSize:       {"events_skipped", "record_size"},
	skipRefused:          {"events_skipped", "refused_by_owner"},

	noteUnknownMedium: {"events_noted", "unknown_medium"},
	notePieces:        {"batches_in_pieces", ""},
}

// Label names a counter; Reason divides a name, "" if it is not divided.
type Label struct{ Name, Reason string }

// counters are written by the stream's goroutine and read by any.
type counters struct {
	counts [numCounts]atomic.Uint64
	wire   [wire.NumReasons]atomic.Uint64
}

func (c *counters) add(n count, by uint64) { c.counts[n].Add(by) }

// Counters yields every counter with its value now, in a fixed order. Beside
// those of the stream, each of wire's reasons appears as a skipped or rejected
// event or as an undecodable batch. Any goroutine may call it.
func (s *Stream) Counters() iter.Seq2[Label, uint64] {
	return func(yield func(Label, uint64) bool) {
		for i := range numCounts {
			if !yield(countNames[i], s.counters.counts[i].Load()) {
				return
			}
		}
		t := &s.tallied
		for _, c := range [...]struct {
			Label
			n uint64
		}{
			{Label{"replay_requests", ""}, t.Requests.Load()},
			{Label{"replay_holes", ""}, t.Again.Load()},
			{Label{"replay_replies_dropped", "malformed"}, t.Malformed.Load()},
			{Label{"replay_replies_dropped", "late"}, t.Late.Load()},
		} {
			if !yield(c.Label, c.n) {
				return
			}
		}
		for r := wire.ReasonNone + 1; r < wire.NumReasons; r++ {
			if !yield(Label{wireName(r), r.String()}, s.counters.wire[r].Load()) {
				return
			}
		}
	}
}

func wireName(r wire.Reason) string {
	switch {
	case r.Harmless():
		return "events_skipped"
	case r < wire.ReasonTruncated:
		return "events_rejected"
	}
	return "batches_undecodable"
}

// tally collects what a batch will have counted once it is committed: a batch
// that is rolled back and decoded again counts once.
type tally struct {
	events, stored, placed, removed, clears uint64

	odd     bool // something is in the arrays
	counts  [numCounts]uint32
	reasons [wire.NumReasons]uint32
}

func (t *tally) count(c count) {
	t.counts[c]++
	t.odd = true
}

func (t *tally) reason(r wire.Reason) {
	t.reasons[r]++
	t.odd = true
}

func (t *tally) reset() {
	t.events, t.stored, t.placed, t.removed, t.clears = 0, 0, 0, 0, 0
	if t.odd {
		*t = tally{}
	}
}

// settle adds a batch's tally to the counters.
func (c *counters) settle(t *tally) {
	add := func(n count, by uint64) {
		if by != 0 {
			c.counts[n].Add(by)
		}
	}
	add(countBatches, 1)
	add(countEvents, t.events)
	add(countStored, t.stored)
	add(countPlaced, t.placed)
	add(countRemoved, t.removed)
	add(countClears, t.clears)
	if t.odd {
		for i, n := range t.counts {
			add(count(i), uint64(n))
		}
		for r, n := range t.reasons {
			if n != 0 {
				c.wire[r].Add(uint64(n))
			}
		}
	}
	t.reset()
}
