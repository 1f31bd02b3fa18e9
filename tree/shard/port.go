package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cairn-kv/cairn/ring"
	"github.com/cairn-kv/cairn/tree"
)

// Head is what the records of one event have in common.
type Head struct {
	Holder     tree.Holder
	Generation uint32 // as Shard.Generation gave it; an older one voids the record
	Tier       tree.Tier
	Shard      uint8 // TP shard; 0 for aggregated streams
}

// StoreHead is a stored event without its blocks; see tree.Store for the
// meaning of the fields. Span is 1 … 2³¹-1.
type StoreHead struct {
	Root        tree.Root
	HasParent   bool
	Parent      uint64
	Span        int
	KeepMeaning bool
	SkipUnknown bool
}

// pad keeps what the stream writes off the lines the writer writes.
type pad [128]byte

// Port is one stream's way into a shard: a ring of records, and what the
// writer says about them. Store, Place, Remove, Clear, Flush, Commit, Rollback
// and Restart belong to the stream's goroutine; the rest may be called by any.
type Port struct {
	ring      *ring.Ring[uint64]
	maxRecord int // words
	released  chan struct{}
	slot      int       // the writer's
	progress  *Progress // from when the port is attached

	_           pad
	incarnation uint32 // the stream's; it stamps the batches
	begin       record // the stream's: reserved, to be filled in; nil: nothing is
	_           pad
	tally       Counters // the writer's: what counters do not show yet
	counters    counters
	watch       atomic.Pointer[watch]
	_           pad
}

func newPort(ringBytes int) *Port {
	r := ring.New[uint64](ringBytes / 8)
	return &Port{
		ring: r,
		// So that one always fits, behind a pad and a begin: with n+beginSize
		// words the pad is one less, and 2(n+beginSize)-1+endRoom is the ring.
		maxRecord: r.Cap()/2 - endRoom,
		released:  make(chan struct{}),
	}
}

// Progress is how far the port's batches are begun and applied, for who asks
// about many ports. Any goroutine may read it, also when the port is closed.
func (p *Port) Progress() *Progress { return p.progress }

// Applied returns Progress.Applied, which any goroutine may ask.
func (p *Port) Applied() Position { return p.progress.Applied() }

// Begun returns Progress.Begun, which any goroutine may ask.
func (p *Port) Begun() Position { return p.progress.Begun() }

// MaxBlocks returns how many blocks of span units one record holds: at most
// MaxRecordBlocks, and at most what half the ring takes. It is 0 for a span
// no record holds; such an event cannot be stored.
func (p *Port) MaxBlocks(span int) int {
	if span < 1 || span > p.maxRecord {
		return 0
	}
	return min(MaxRecordBlocks, (p.maxRecord-storeHead)/(1+span))
}

// MaxNames returns how many names one record of Place or Remove holds.
func (p *Port) MaxNames() int { return min(MaxRecordBlocks, p.maxRecord-namesHead) }

// Store adds a stored event of 1 … MaxBlocks(s.Span) blocks to the batch and
// returns its pairs, to be filled in place before the next call: per block its
// name, then s.Span content hashes. They hold leftovers until then.
//
// A longer event is written as several records in order, each but the first
// with the last name of the one before as its parent. The index sees several
// events then: that no name comes twice, nor the parent, is for the caller to
// check across them.
//
// A full ring makes Store wait, counted as a stall, until ctx ends. It fails
// with ErrBatchTooLong if the record does not fit behind the rest of the
// batch: see Flush.
func (p *Port) Store(ctx context.Context, h Head, s StoreHead, blocks int) ([]uint64, error) {
	if limit := p.MaxBlocks(s.Span); blocks < 1 || blocks > limit {
		return nil, fmt.Errorf("%w: store of %d blocks with a span of %d units: want 1 … %d blocks", ErrRecordSize, blocks, s.Span, limit)
	}
	r, err := p.data(ctx, storeHead+blocks*(1+s.Span))
	if err != nil {
		return nil, err
	}
	r.setStore(h, s)
	return r[storeHead:], nil
}

// Place adds an event to the batch that gives a tier to known names, 1 …
// MaxNames, and returns the names to be filled in place. It waits and fails as
// Store does.
func (p *Port) Place(ctx context.Context, h Head, names int) ([]uint64, error) {
	return p.names(ctx, kindPlace, h, names)
}

// Remove adds a removed event of 1 … MaxNames names to the batch and returns
// the names to be filled in place. It waits and fails as Store does.
func (p *Port) Remove(ctx context.Context, h Head, names int) ([]uint64, error) {
	return p.names(ctx, kindRemove, h, names)
}

func (p *Port) names(ctx context.Context, k kind, h Head, n int) ([]uint64, error) {
	if limit := p.MaxNames(); n < 1 || n > limit {
		return nil, fmt.Errorf("%w: %d names: want 1 … %d", ErrRecordSize, n, limit)
	}
	r, err := p.data(ctx, namesHead+n)
	if err != nil {
		return nil, err
	}
	r.setOwner(k, 0, h)
	return r[namesHead:], nil
}

// Clear adds a cleared event to the batch: all tiers of TP shard h.Shard of
// the holder, which is the whole holder where it has one. It waits and fails
// as Store does.
func (p *Port) Clear(ctx context.Context, h Head) error {
	r, err := p.data(ctx, clearSize)
	if err != nil {
		return err
	}
	r.setOwner(kindClear, 0, h)
	return nil
}

// Flush publishes what there is of batch seq without ending it, to make room
// for a batch longer than the ring. From here on the batch is visible bit by
// bit and Rollback takes back only what follows; so check the batch before its
// first Flush. Begun says seq before anything of the piece is visible; Applied
// does not move.
func (p *Port) Flush(seq uint64) error {
	p.stamp(seq)
	return asClosed(p.ring.Commit())
}

// Commit ends batch seq and publishes it. Begun says seq before anything of it
// is visible, Applied once all of it is. A batch may be empty. If the port or
// the shard was closed nothing is published and the error is ErrClosed.
//
// Commit waits only if the batch is empty and the ring full, and then no
// longer than the writer lives.
func (p *Port) Commit(seq uint64) error {
	r, err := p.reserve(context.Background(), endSize, 0)
	if err != nil {
		p.Rollback()
		return err
	}
	r.setMark(kindEnd, seq, p.incarnation)
	p.stamp(seq)
	return asClosed(p.ring.Commit())
}

// stamp says whose records are about to be published.
func (p *Port) stamp(seq uint64) {
	if p.begin != nil {
		p.begin.setMark(kindBegin, seq, p.incarnation)
		p.begin = nil
	}
}

// Rollback forgets the batch, or what of it was not flushed.
func (p *Port) Rollback() {
	p.begin = nil
	p.ring.Rollback()
}

// Restart begins a new incarnation of the stream, whose sequences start anew:
// Begun and Applied say at once that nothing of it is. Batches committed before
// are still applied, but show no more. A batch not committed is rolled back.
func (p *Port) Restart() {
	p.Rollback()
	p.incarnation++
	p.progress.restart(p.incarnation)
	p.restarted()
}

// Close ends the port; it does not wait. What was committed is still applied,
// what was not never is, and a stream that waits in Store wakes with ErrClosed.
// Any goroutine may call it, and call it again; it returns nil.
func (p *Port) Close() error {
	p.ring.Close()
	return nil
}

// Done returns a channel that is closed when the port is released: it or the
// shard was closed, and all that had been committed is applied.
func (p *Port) Done() <-chan struct{} { return p.released }

// data reserves a data record of n words, and a begin with the first of what
// will be published at once.
func (p *Port) data(ctx context.Context, n int) (record, error) {
	if p.begin != nil {
		return p.reserve(ctx, n, endRoom)
	}
	r, err := p.reserve(ctx, beginSize+n, endRoom)
	if err != nil {
		return nil, err
	}
	p.begin = r[:beginSize:beginSize]
	return r[beginSize:], nil
}

// reserve takes the next n words, behind a pad if they would cross the end of
// the buffer, and leaves at least spare words free behind them.
func (p *Port) reserve(ctx context.Context, n, spare int) (record, error) {
	fill := 0
	if c := p.ring.Contiguous(); c < n {
		fill = c
	}
	switch err := p.ring.Wait(ctx, fill+n+spare); {
	case err == nil:
	case errors.Is(err, ring.ErrTooLong):
		return nil, fmt.Errorf("%w: %d more words, the ring holds %d", ErrBatchTooLong, n, p.ring.Cap())
	default:
		return nil, asClosed(err)
	}
	if fill > 0 {
		p.ring.Reserve(fill)[0] = head(kindPad, 0, 0, 0, fill)
	}
	return p.ring.Reserve(n), nil
}

// asClosed gives the ring's error the name it has here.
func asClosed(err error) error {
	if errors.Is(err, ring.ErrClosed) {
		return ErrClosed
	}
	return err
}
