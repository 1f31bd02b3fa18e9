package conformance

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// peerEvent is an event of Dynamo's index as JSON, with the worker it is about.
type peerEvent struct {
	WorkerID uint64 `json:"worker_id"`
	Event    struct {
		Rank int       `json:"dp_rank"`
		Data eventData `json:"data"`
	} `json:"event"`
}

// eventData is one of stored, removed and the word "cleared".
type eventData struct {
	Stored *struct {
		Parent *name `json:"parent_hash"`
		Blocks []struct {
			Hash   name   `json:"block_hash"`
			Tokens uint64 `json:"tokens_hash"`
		} `json:"blocks"`
	} `json:"stored"`
	Removed *struct {
		Hashes []name `json:"block_hashes"`
	} `json:"removed"`
	cleared bool
}

// UnmarshalJSON reads the object, or the word.
func (d *eventData) UnmarshalJSON(data []byte) error {
	if string(data) == `"cleared"` {
		d.cleared = true
		return nil
	}
	type plain eventData
	return (line{data: data}).decode((*plain)(d))
}

// peerTrace makes an index trace of a history of events as JSON: blocks are
// told by the hash of their tokens, and the head says which tokens those are.
// Answers are ours where they stand, else the peer's.
func peerTrace(lines []line) (*trace, error) {
	var h struct {
		ID         string              `json:"id"`
		IndexBlock int                 `json:"index_block"`
		Blocks     map[uint64][]uint32 `json:"blocks"`
	}
	if err := lines[0].decode(&h); err != nil {
		return nil, err
	}
	if h.IndexBlock < 1 {
		return nil, fmt.Errorf("line %d, %s: index_block %d: want the tokens of an index block", lines[0].number, h.ID, h.IndexBlock)
	}
	t := &trace{ID: h.ID, Block: h.IndexBlock, Policy: "copies"}
	for _, l := range lines[1:] {
		s, err := peerStep(l, h.Blocks)
		if err != nil {
			return nil, err
		}
		s.line, s.model = l.number, defaultModel
		t.steps = append(t.steps, s)
	}
	return t, nil
}

func peerStep(l line, blocks map[uint64][]uint32) (step, error) {
	var x struct {
		peerEvent
		Kind   string         `json:"kind"`
		Tokens []uint32       `json:"tokens"`
		Expect map[string]int `json:"expect"`
		Ours   map[string]int `json:"ours"`
	}
	if err := l.decode(&x); err != nil {
		return step{}, err
	}
	s := step{op: x.Kind, source: strconv.FormatUint(x.WorkerID, 10), rank: x.Event.Rank}
	if s.rank < 0 || s.rank >= maxRanks {
		return s, fmt.Errorf("line %d: dp_rank %d: want 0 to %d", l.number, s.rank, maxRanks-1)
	}
	d := &x.Event.Data
	switch {
	case x.Kind == "drop":
	case x.Kind == "query":
		s.source = ""
		s.query = prompt{model: defaultModel, tokens: x.Tokens}
		right := x.Expect
		if x.Ours != nil {
			right = x.Ours
		}
		s.expect = map[string][2]int{}
		for holder, n := range right {
			s.expect[holder] = [2]int{n, n}
		}
	case x.Kind != "event":
		return s, fmt.Errorf("line %d: unknown kind of line %q", l.number, x.Kind)
	case d.cleared:
		s.op = "clear"
	case d.Removed != nil:
		s.op = "remove"
		s.event.hashes = d.Removed.Hashes
	case d.Stored != nil:
		s.op = "store"
		s.event.parent = d.Stored.Parent
		for _, b := range d.Stored.Blocks {
			tokens := blocks[b.Tokens]
			if len(tokens) == 0 {
				return s, fmt.Errorf("line %d: tokens_hash %d is not among the head's blocks", l.number, b.Tokens)
			}
			s.event.hashes = append(s.event.hashes, b.Hash)
			s.event.tokens = append(s.event.tokens, tokens...)
			s.event.blockSize = len(tokens)
		}
	default:
		return s, fmt.Errorf("line %d: an event that is none of stored, removed, cleared", l.number)
	}
	s.event.op, s.event.medium = s.op, "GPU"
	return s, nil
}

// playPeer plays a history of events as JSON: sent in a dialect of the wire,
// judged by the answers of the file.
func playPeer(ctx context.Context, f *File, lines []line, o Options) (err error) {
	t, err := peerTrace(lines)
	if err != nil {
		return err
	}
	r, err := newRig(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	p, err := newPlaying(f, r, t, vllmMap, "")
	if err != nil {
		return err
	}
	p.phase, p.alone = vllmMap.String(), true
	return p.round(ctx)
}

// isPeer reports whether a capture is a history of events as JSON.
func isPeer(lines []line) bool {
	return len(lines) > 1 && strings.Contains(string(lines[1].data[:min(len(lines[1].data), maxProblem)]), `"worker_id"`)
}
