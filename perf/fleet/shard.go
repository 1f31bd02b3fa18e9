package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// prefill is how many blocks an engine computes in one step.
const prefill = 64

// lag is how many requests each further TP shard of a rank is behind.
const lag = 3

// reorderWindow is how many payloads Reorder turns round.
const reorderWindow = 8

// job is one request as a shard sees it.
type job struct {
	blocks []block // prompt, then what is generated behind it
	prompt int     // blocks of the prompt
	flush  chan<- error
}

// level is a tier with its place in the engine and what is behind it.
type level struct {
	*tier
	slot  slot
	below *level
}

// shard simulates the cache of one TP shard of one rank, and is its stream.
// All but history and counters belong to its own goroutine.
type shard struct {
	engine  *Engine
	index   int
	jobs    chan job
	waiting []job // held back by lag

	device, host, disk, pool, storage *level
	running                           [][]block
	served                            int
	rng                               *rand.Rand

	batch   []event
	history *history
	encode  encoder
	breakage
	socket  *zmtp.Publisher
	lossy   lossy
	archive *archive     // nil: no replay
	router  *zmtp.Router // its endpoint
	stats   *counters
}

// breakage is the state of Config.Break.
type breakage struct {
	mode     Break
	removals int
	held     [][]byte
	sent     uint64
}

func newShard(c *Config, e *Engine, rank, index int, stats *counters) *shard {
	s := &shard{
		engine: e, index: index,
		jobs:     make(chan job, c.Queue),
		rng:      rand.New(rand.NewPCG(c.Seed, uint64(rank)<<32|uint64(len(e.ID)))),
		history:  newHistory(c.Retention),
		encode:   newEncoder(e, rank),
		breakage: breakage{mode: c.Break},
		lossy:    newLossy(c, rank, index, len(e.ID)),
		stats:    stats,
	}
	if c.Replay > 0 {
		s.archive = newArchive(c, stats)
	}
	// Shards have a little more or less room, so that they do not evict in
	// step.
	room := func(n int) int { return n - n*index/50 }
	newLevel := func(n int, at slot, below *level) *level {
		if n == 0 {
			return nil
		}
		return &level{tier: newTier(max(room(n), 1)), slot: at, below: below}
	}
	s.disk = newLevel(e.Disk, onDisk, nil)
	s.host = newLevel(e.Host, onHost, s.disk)
	s.device = newLevel(e.Device, onDevice, nil)
	if !e.Dialect.sglang() {
		s.device.below = s.host
	}
	s.storage = newLevel(e.PoolDisk, poolDisk, nil)
	s.pool = newLevel(e.Pool, poolMemory, s.storage)
	return s
}

// run serves jobs until ctx ends.
func (s *shard) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case j := <-s.jobs:
			if err := s.take(j); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("fleet: engine %q: %w", s.engine.ID, err)
			}
		}
	}
}

// take serves the job that is due now, or all that wait if j is a flush.
func (s *shard) take(j job) error {
	if j.flush == nil {
		s.waiting = append(s.waiting, j)
		if len(s.waiting) <= s.index*lag {
			return nil
		}
		j = s.waiting[0]
		s.waiting = append(s.waiting[:0], s.waiting[1:]...)
		return s.serve(j)
	}
	for _, w := range s.waiting {
		if err := s.serve(w); err != nil {
			j.flush <- err
			return err
		}
	}
	clear(s.waiting)
	s.waiting = s.waiting[:0]
	err := s.release()
	j.flush <- err
	return err
}

// serve runs one request through the caches.
func (s *shard) serve(j job) error {
	if s.served++; s.served == 1 && s.engine.Dialect.sglang() {
		// Such streams begin so. Before the first request there may be no
		// subscriber to tell it.
		s.emit(cleared, onDevice)
		if err := s.publish(); err != nil {
			return err
		}
	}
	s.stats.requests.Add(1)
	if s.engine.ResetEvery > 0 && s.served%s.engine.ResetEvery == 0 {
		if err := s.reset(); err != nil {
			return err
		}
	}
	hit := s.device.leading(j.blocks[:j.prompt])
	s.stats.hits.Add(uint64(hit))
	s.begin(j.blocks, hit)
	for at := hit; at < len(j.blocks); {
		// A prompt is computed in steps, generated blocks come one by one.
		to := min(at+prefill, j.prompt)
		if at >= j.prompt {
			to = at + 1
		}
		n := s.compute(j.blocks[at:to])
		if err := s.publish(); err != nil {
			return err
		}
		if n < to-at {
			break // no room that no other request uses
		}
		at = to
	}
	// The beginning is used last, so that the oldest block is a leaf.
	s.device.touch(j.blocks)
	if s.host != nil {
		s.host.touch(j.blocks)
	}
	if s.pool != nil {
		s.keep(j.blocks[:j.prompt])
	}
	if !s.engine.Dialect.sglang() && s.rng.IntN(40) == 0 {
		s.hole()
	}
	return s.publish()
}

// begin pins the request's blocks and lets the oldest running one finish.
func (s *shard) begin(bs []block, hit int) {
	s.device.touch(bs[:hit])
	for i := range bs[:hit] {
		s.device.pin(bs[i].id, 1)
	}
	s.running = append(s.running, bs[:hit:hit])
	if len(s.running) > s.engine.Running {
		s.finish()
	}
}

func (s *shard) finish() {
	for i := range s.running[0] {
		s.device.pin(s.running[0][i].id, -1)
	}
	s.running = append(s.running[:0], s.running[1:]...)
}

// compute places new blocks on the device and returns how many found room. A
// block that is there already, behind a hole, gets a second copy.
func (s *shard) compute(bs []block) int {
	n := s.place(s.device, bs, true)
	last := len(s.running) - 1
	for i := range bs[:n] {
		s.device.pin(bs[i].id, 1)
	}
	s.running[last] = append(s.running[last], bs[:n]...)
	if s.host != nil && s.engine.Dialect.sglang() {
		s.place(s.host, bs[:n], false)
	}
	if !s.engine.Dialect.sglang() && n > 0 && s.rng.IntN(16) == 0 {
		// Another request computed the same at the same time.
		s.stats.copies.Add(uint64(s.place(s.device, bs[:n], true)))
	}
	return n
}

// place stores a chain on a level: makes room, then stores what is missing
// there (again: also what is not). It returns how far it came.
func (s *shard) place(l *level, bs []block, again bool) int {
	for i := range bs {
		l.pin(bs[i].id, 1) // nothing of the chain makes room for the rest of it
	}
	missing := 0
	for i := range bs {
		if again || !l.has(bs[i].id) {
			missing++
		}
	}
	s.makeRoom(l, min(missing, l.capacity))
	for i := range bs {
		l.pin(bs[i].id, -1)
	}
	n, from := 0, 0
	store := func(to int) {
		if to > from {
			s.emit(stored, l.slot, bs[from:to]...)
			s.stats.stored.Add(uint64(to - from))
		}
	}
	for ; n < len(bs); n++ {
		if !again && l.has(bs[n].id) {
			store(n)
			from = n + 1
			continue
		}
		if l.used >= l.capacity {
			break
		}
		l.add(bs[n])
	}
	store(n)
	return n
}

// makeRoom gives up blocks until need copies fit, or nothing more may go.
func (s *shard) makeRoom(l *level, need int) {
	var gone []block
	for l.used+need > l.capacity {
		e := l.victim()
		if e == nil {
			break
		}
		gone = append(gone, e.block)
		if l.drop(e) && l.below != nil {
			s.demote(l.below, e.block)
		}
	}
	if len(gone) > 0 {
		s.emit(removed, l.slot, gone...)
		s.stats.evicted.Add(uint64(len(gone)))
	}
}

// demote keeps a block on the level below before it is removed above.
func (s *shard) demote(l *level, b block) {
	if l.has(b.id) {
		return
	}
	s.makeRoom(l, 1)
	if l.used >= l.capacity {
		return
	}
	l.add(b)
	s.stats.demoted.Add(1)
	if l.slot == onHost && s.rng.IntN(2) == 0 {
		s.emit(located, l.slot, b) // the subscriber knows the rest
		return
	}
	s.emit(stored, l.slot, b)
}

// keep copies a prompt into the pool.
func (s *shard) keep(bs []block) {
	s.place(s.pool, bs, false)
	s.pool.touch(bs)
	if s.rng.IntN(40) == 0 {
		if e := s.pool.inner(); e != nil {
			s.pool.drop(e)
			s.emit(removed, s.pool.slot, e.block)
			s.stats.evicted.Add(1)
			s.stats.holes.Add(1)
		}
	}
}

// hole evicts a block that has others behind it.
func (s *shard) hole() {
	if e := s.device.inner(); e != nil {
		s.device.drop(e)
		s.emit(removed, onDevice, e.block)
		s.stats.evicted.Add(1)
		s.stats.holes.Add(1)
	}
}

// reset empties the worker's tiers, and every other time the pool, once no
// request runs.
func (s *shard) reset() error {
	for len(s.running) > 0 {
		s.finish()
	}
	for _, l := range []*level{s.device, s.host, s.disk} {
		if l != nil {
			l.reset()
		}
	}
	s.emit(cleared, onDevice)
	if s.pool != nil && s.served%(2*s.engine.ResetEvery) == 0 {
		for _, l := range []*level{s.pool, s.storage} {
			if l != nil {
				l.reset()
			}
		}
		s.emit(cleared, poolMemory)
	}
	s.stats.cleared.Add(1)
	return s.publish()
}

// emit adds an event to the batch. It keeps bs.
func (s *shard) emit(k kind, at slot, bs ...block) {
	s.batch = append(s.batch, event{kind: k, slot: at, blocks: bs})
}

// publish closes the batch, if it holds anything: into the history first, then
// on the wire.
func (s *shard) publish() error {
	if len(s.batch) == 0 {
		return nil
	}
	s.history.append(s.batch)
	s.stats.batches.Add(1)
	s.stats.events.Add(uint64(len(s.batch)))
	wire := s.batch
	if s.mode == DropRemoves {
		wire = s.thinned()
	}
	payload := s.encode.batch(float64(time.Now().UnixMicro())/1e6, wire)
	clear(s.batch)
	s.batch = s.batch[:0]
	if s.mode != Reorder {
		return s.send(payload)
	}
	s.held = append(s.held, append([]byte(nil), payload...))
	if len(s.held) < reorderWindow {
		return nil
	}
	return s.release()
}

// thinned is the batch without every other removed event.
func (s *shard) thinned() []event {
	var out []event
	for _, ev := range s.batch {
		if ev.kind == removed {
			if s.removals++; s.removals%2 == 0 {
				continue
			}
		}
		out = append(out, ev)
	}
	return out
}

// release sends what Reorder holds, last first.
func (s *shard) release() error {
	for i := len(s.held) - 1; i >= 0; i-- {
		if err := s.send(s.held[i]); err != nil {
			return err
		}
	}
	s.held = s.held[:0]
	return nil
}

// send puts a payload under the next sequence, into the archive and on the
// wire, unless it is lost.
func (s *shard) send(payload []byte) error {
	var seq [8]byte
	binary.BigEndian.PutUint64(seq[:], s.sent)
	s.sent++
	s.archive.keep(s.sent-1, payload)
	if s.lossy.gap() {
		s.stats.lost.Add(1)
		return nil
	}
	if s.lossy.cut() {
		s.stats.cuts.Add(1)
		s.socket.Disconnect()
	}
	return s.socket.Send(nil, seq[:], payload)
}
