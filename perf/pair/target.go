package pair

import (
	"context"
	"errors"
	"sync"
	"time"
)

// patience bounds one fetch: a peer that does not answer is dead.
const patience = 5 * time.Second

// Report is what a target did with the requests it was given.
type Report struct {
	Hints    int // requests with a hint that could be read
	None     int // requests without
	Unread   int // hints that the consumer refuses
	Warnings int // of another protocol version; once in a target's life
	Fetches  int // that it made, over all shards
	Failed   int // fetches that failed or were refused a block
	Blocks   int // restored, held by every shard
	Tokens   int
	Bytes    int // that came, over all shards
}

// Target is the target's half of a pair: the library of a worker with so many
// TP shards.
type Target struct {
	network *Network
	shards  int

	mu     sync.Mutex
	report Report
}

// Target makes the target's half.
func (n *Network) Target(shards int) *Target { return &Target{network: n, shards: shards} }

// Report returns what was done so far.
func (t *Target) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.report
}

// Fetch does what a request asks for: prompt are the names of the prompt's
// blocks, tokens its length, own how many leading blocks the target holds. It
// returns how many blocks were restored behind these.
func (t *Target) Fetch(ctx context.Context, request []byte, prompt []uint64, tokens, own int) int {
	var r Report
	n := t.fetch(ctx, &r, request, prompt, tokens, own)
	t.mu.Lock()
	defer t.mu.Unlock()
	a := &t.report
	a.Hints, a.None, a.Unread = a.Hints+r.Hints, a.None+r.None, a.Unread+r.Unread
	a.Warnings = max(a.Warnings, r.Warnings)
	a.Fetches, a.Failed, a.Bytes = a.Fetches+r.Fetches, a.Failed+r.Failed, a.Bytes+r.Bytes
	a.Blocks, a.Tokens = a.Blocks+n, a.Tokens+n*t.network.geometry.BlockTokens
	return n
}

func (t *Target) fetch(ctx context.Context, r *Report, request []byte, prompt []uint64, tokens, own int) int {
	h, err := Read(request)
	switch {
	case errors.Is(err, ErrNone):
		r.None++
		return 0
	case err != nil:
		r.Unread++
		return 0
	}
	r.Hints++
	if h.Version != Version {
		r.Warnings++
	}
	g := t.network.geometry
	var want []uint64
	for i := own; i < min(len(prompt), g.Restorable(tokens)) && h.Names[prompt[i]]; i++ {
		want = append(want, prompt[i])
	}
	if len(want) == 0 {
		return 0
	}
	restored := len(want)
	for shard := range t.shards {
		r.Fetches++
		got, err := t.shard(ctx, shard, h.Endpoint, want)
		if err != nil || got < len(want) {
			r.Failed++
		}
		r.Bytes += got * g.BlockBytes(t.shards)
		restored = min(restored, got)
	}
	return restored
}

// shard fetches for one TP shard from the peer of its index and returns how many
// leading blocks came.
func (t *Target) shard(ctx context.Context, shard int, endpoint string, want []uint64) (int, error) {
	at, err := shift(endpoint, shard)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := t.network.dial(ctx, at)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	answer, err := ask(c, want)
	if err != nil {
		return 0, err
	}
	n := 0
	for n < len(answer) && answer[n] == 1 {
		n++
	}
	return n, nil
}
