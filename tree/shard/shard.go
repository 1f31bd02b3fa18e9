package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cairn-kv/cairn/ring"
	"github.com/cairn-kv/cairn/tree"
)

var (
	// ErrClosed: the shard or the port was closed.
	ErrClosed = errors.New("shard: closed")
	// ErrRecordSize: an event with no blocks, or more than one record holds.
	ErrRecordSize = errors.New("shard: size of a record")
	// ErrBatchTooLong: the batch does not fit the ring as a whole. Check it,
	// then publish it in pieces with Port.Flush.
	ErrBatchTooLong = errors.New("shard: batch longer than the ring")
	// ErrRestarted: the position waited for belongs to a past incarnation.
	ErrRestarted = errors.New("shard: stream restarted")
)

const (
	// DefaultRingBytes is the size of a port's ring unless Options say else.
	DefaultRingBytes = 128 << 10
	// minRingBytes leaves room for records of several blocks.
	minRingBytes = 512
	// controlQueue bounds how many Do calls wait for the writer.
	controlQueue = 64
)

// Options configures a Shard.
type Options struct {
	// Index is what the shard writes. It belongs to the writer goroutine from
	// Start until Close has returned. Required.
	Index tree.Writer
	// RingBytes is the size of each port's ring, rounded up to a power of two;
	// 0 means DefaultRingBytes. At least 512, at most 2³⁰. A record is at most
	// half a ring.
	RingBytes int
}

// Shard owns the one goroutine that writes an index; see the package comment.
// All methods may be called by any goroutine.
type Shard struct {
	index     tree.Writer
	foreseer  tree.Foreseer // the index, if it is one
	ringBytes int
	bell      *ring.Doorbell
	control   chan *call
	gens      generations
	closing   atomic.Bool   // no more control and ports; the writer is to end
	done      chan struct{} // closed when the writer has ended

	controlling atomic.Bool // the writer runs a function given to Do

	mu      sync.Mutex // of Start and Close
	started bool

	// The writer's own.
	ports    []*Port    // by slot; nil: free
	open     int        // ports that are not nil
	progress []Progress // of ports to come
	turns    uint       // taken so far
	stored   tree.Store
	coming   tree.Store
}

// New makes a shard without ports. It panics if Index is nil or RingBytes out
// of range: both are mistakes in the program.
func New(o Options) *Shard {
	switch {
	case o.Index == nil:
		panic("shard: Options.Index is nil: want the index to write")
	case o.RingBytes == 0:
		o.RingBytes = DefaultRingBytes
	case o.RingBytes < minRingBytes || o.RingBytes > 1<<30:
		panic(fmt.Sprintf("shard: Options.RingBytes is %d: want 0 or %d … 2³⁰", o.RingBytes, minRingBytes))
	}
	foreseer, _ := o.Index.(tree.Foreseer)
	return &Shard{
		index:     o.Index,
		foreseer:  foreseer,
		ringBytes: o.RingBytes,
		bell:      ring.NewDoorbell(),
		control:   make(chan *call, controlQueue),
		gens:      generations{current: make(map[tree.Holder]uint32)},
		done:      make(chan struct{}),
	}
}

// Start begins writing. When ctx ends the shard closes as by Close, without
// anybody waiting for it. Start may be called once; after Close it does
// nothing.
func (s *Shard) Start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		panic("shard: started twice")
	}
	if s.closing.Load() {
		return
	}
	s.started = true
	go s.run(ctx)
}

// Close ends the shard: no control, port or commit is accepted any more, what
// the rings hold is applied, the ports are released. It returns nil when the
// writer has ended, and may be called again.
func (s *Shard) Close() error {
	s.mu.Lock()
	first := !s.closing.Swap(true)
	if first && !s.started {
		close(s.done)
	}
	s.mu.Unlock()
	s.bell.Ring()
	<-s.done
	return nil
}

// OpenPort makes a port for one stream. Its first incarnation is 0. It waits
// for the writer, so Start must have been called or ctx must end.
func (s *Shard) OpenPort(ctx context.Context) (*Port, error) {
	p := newPort(s.ringBytes)
	if err := s.Do(ctx, func(tree.Writer) { s.attach(p) }); err != nil {
		return nil, fmt.Errorf("open port: %w", err)
	}
	return p, nil
}
