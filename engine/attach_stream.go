package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// Open implements residency.Plane: a port and a stream per TP shard, none of
// which runs yet.
func (p *plane) Open(ctx context.Context, a residency.Attachment) (err error) {
	s, err := p.slot(a.Slot)
	if err != nil {
		return err
	}
	e := p.engine
	name, rank := workerName(a.Worker.ID), int(a.Rank)
	src := e.registered(Source{ID: name, Model: a.Model, Protocol: a.Protocol.String(), Topic: a.Topic, Endpoint: a.Endpoints[0]}, s.pool.shard, rank)
	if len(a.Endpoints) > 1 {
		src.spec.Endpoint, src.spec.Shards = "", a.Endpoints
	}
	if a.Hint != nil {
		src.spec.Hint = &HintConfig{WorkerType: a.Hint.WorkerType, Endpoints: map[int]string{rank: a.Hint.ControlEndpoint},
			Carrier: a.Hint.Carrier, Link: a.Hint.Link, TP: a.Hint.TP}
		src.role, _ = hint.ParseRole(a.Hint.WorkerType)
		src.carrier, _ = hint.ParseCarrier(a.Hint.Carrier)
	}
	att := &attachment{Attachment: a, slot: s, source: src, up: make([]atomic.Bool, len(a.Endpoints)), repairs: make([]repairing, len(a.Endpoints))}
	defer func() {
		if err != nil {
			att.close()
		}
	}()
	p.mu.Lock()
	kept := s.kept
	p.mu.Unlock()
	for d, h := range s.holders {
		// What a call took away before is no more of this attachment's business:
		// a retained pool is advice as it is.
		s.cleared[d].Store(false)
		att.generations[d] = s.index.writer.Generation(h)
	}
	for tp, endpoint := range a.Endpoints {
		f := &feed{src: src, rank: rank, tp: tp, endpoint: endpoint}
		if f.port, err = s.index.writer.OpenPort(ctx); err != nil {
			return fmt.Errorf("engine: owner %q: %w", a.Owner, err)
		}
		src.feeds = append(src.feeds, f)
		if tp < len(a.Replays) {
			f.replay = a.Replays[tp]
		}
		if f.stream, err = p.stream(att, f, kept); err != nil {
			return fmt.Errorf("engine: owner %q: %w", a.Owner, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Hint != nil && a.Hint.Link != s.peer.cost.link {
		s.peer = &peer{cost: e.selection.costs.cell(s.Model, a.Hint.Link)}
	}
	if err := p.name(att); err != nil {
		return err
	}
	s.attached, s.worker, s.behind = att, src, false
	return nil
}

// stream makes the stream of one TP shard.
func (p *plane) stream(a *attachment, f *feed, kept bool) (*ingest.Stream, error) {
	e, s := p.engine, a.slot
	pool := ingest.PoolDurable
	if a.Protocol.EngineLocal() {
		pool = ingest.PoolEngineLocal
	}
	var repair ingest.Repair
	if e.opt.Owners.OnGap == RepairOnGap {
		repair = f.repairBounds()
		repair.Endpoint = f.replay
	}
	return ingest.NewStream(ingest.Options{
		Source:   f.src.spec.ID,
		Endpoint: f.endpoint,
		Topic:    a.Topic,
		Rank:     f.rank,
		MaxRanks: f.rank + 1,
		TPShard:  uint8(f.tp),
		Pool:     pool,
		Attached: &ingest.Attached{
			BlockSize:    a.BlockSize,
			KeepOwner:    e.opt.Owners.OnLoss == KeepOnLoss,
			Retained:     kept,
			FirstAtStart: e.opt.Owners.RequireFirstSeq,
			Fault: func(of ingest.Fault, cause ingest.Cause) {
				fault := residency.FaultSource
				if of == ingest.FaultCacheOwner {
					fault = residency.FaultCacheOwner
				}
				p.registry.Fault(a.Slot, a.Generation, fault, string(cause))
			},
			Linked: func(up bool) {
				a.up[f.tp].Store(up)
				p.registry.Changed(a.Slot)
			},
			Repairing: func(under bool, seq uint64) { p.repaired(a, f, under, seq) },
		},
		Repair:    repair,
		Learned:   &s.learned,
		Changes:   &e.changes,
		Owner:     a,
		Port:      f.port,
		Transport: zmtp.Options{DialContext: e.opt.DialContext},
		Backoff:   e.opt.Backoff,
		Logger:    e.opt.Logger,
	})
}

// repaired notes, on a stream's goroutine, that a repair has begun or that the
// batch of seq ends it: then the slot may be ready again, once that is applied.
func (p *plane) repaired(a *attachment, f *feed, under bool, seq uint64) {
	r := &a.repairs[f.tp]
	p.mu.Lock()
	if under {
		r.under = true
		r.begun++
	}
	begun := r.begun
	p.mu.Unlock()
	if under {
		p.registry.Changed(a.Slot)
		return
	}
	a.source.work.Go(func() {
		// Such a stream has one incarnation, the first.
		if f.port.WaitApplied(a.source.ctx, shard.Position{Seq: seq, Any: true}) != nil {
			return // it is detached
		}
		p.mu.Lock()
		if r.begun == begun {
			r.under = false
		}
		p.mu.Unlock()
		p.registry.Changed(a.Slot)
	})
}

// Holder implements ingest.Owner. The generation is the attachment's: what a
// stream asks for after a fence or a detach comes too late.
func (a *attachment) Holder(rank int, d ingest.Domain) (tree.Holder, uint32, error) {
	if rank != int(a.Rank) {
		return 0, 0, ingest.ErrRank
	}
	return a.slot.holders[d], a.generations[d], nil
}

// Root implements ingest.Owner. Roots are the pool's, which outlives the
// attachment.
func (a *attachment) Root(unit, lookahead int) (tree.Root, error) {
	return a.source.engine.intern(a.slot.pool, unitKey{unit, lookahead})
}

// Learned implements ingest.Owner.
func (a *attachment) Learned(_ int, d ingest.Domain, blockSize, _ int) {
	a.slot.sizes[d].note(blockSize)
}

// Start implements residency.Plane.
func (p *plane) Start(ctx context.Context, a residency.Attachment) error {
	s, err := p.slot(a.Slot)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	att := s.attached
	for _, f := range att.source.feeds {
		att.source.work.Go(func() {
			err := f.stream.Run(att.source.ctx)
			if att.source.ctx.Err() == nil {
				p.registry.Ended(a.Slot, a.Generation, err)
			}
		})
	}
	return nil
}

// Stop implements residency.Plane. First what may not be applied any more is
// made void; then the streams end; then what the pool had still to say is
// applied.
func (p *plane) Stop(ctx context.Context, id residency.SlotID, _ uint64, drain residency.Domains) error {
	s, err := p.slot(id)
	if err != nil {
		return err
	}
	p.mu.Lock()
	a := s.attached
	p.mu.Unlock()
	if a == nil {
		return nil
	}
	failed := s.void(ctx, residency.BothDomains&^drain, false, nil)
	a.source.cancel()
	cut := a.source.wait(ctx)
	a.close() // a stream that has ended has closed its port; others wake
	for _, f := range a.source.feeds {
		select {
		case <-f.port.Done():
		case <-ctx.Done():
			cut = errors.Join(cut, fmt.Errorf("engine: owner %q: what its streams had received was not applied in time", a.Owner))
		}
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), fenceAfter)
	defer cancel()
	if cut != nil {
		failed = errors.Join(failed, s.void(late, residency.BothDomains, false, nil))
	}
	p.mu.Lock()
	unrepaired := a.repairing()
	p.mu.Unlock()
	keep := p.engine.opt.Owners.OnLoss == KeepOnLoss
	if unrepaired && !keep && drain&residency.CacheOwnerDomain != 0 {
		// What the repair was to bring is lost for good.
		failed = errors.Join(failed, s.void(late, residency.CacheOwnerDomain, true, nil))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for d := range s.rest {
		s.rest[d] = a.rests(Domain(d), s.rest[d])
	}
	s.kept = !a.Protocol.EngineLocal() && s.rest[hint.CacheOwner].advisory
	s.behind = s.behind || cut != nil || unrepaired && keep
	s.attached = nil
	p.unname(workerName(a.Worker.ID), s)
	return errors.Join(failed, cut)
}

// close ends the ports, and with them streams that do not listen to their
// context.
func (a *attachment) close() {
	a.source.cancel()
	for _, f := range a.source.feeds {
		if f.port != nil {
			f.port.Close()
		}
	}
}

// name enters a worker's rank among the sources, for calls that name it. mu is
// held.
func (p *plane) name(a *attachment) error {
	name, rank, s := a.source.spec.ID, int(a.Rank), a.slot
	dir := p.names[name]
	if dir == nil {
		dir = p.engine.registered(Source{ID: name, Model: s.Model}, s.pool.shard, 0)
		if _, taken := p.engine.sources.LoadOrStore(name, dir); taken {
			dir.cancel()
			return fmt.Errorf("%w: %q, which a worker has for its id", ErrSourceExists, name)
		}
		p.names[name] = dir
	}
	p.engine.control.Lock()
	defer p.engine.control.Unlock()
	for _, h := range dir.holders {
		if h.rank == rank {
			return fmt.Errorf("engine: worker %s rank %d is attached to owner %q; another owner of one rank cannot be", name, rank, h.candidate.Source)
		}
	}
	h := &holder{id: s.holders[hint.Worker], src: dir, rank: rank, domain: hint.Worker, peer: s.peer, sizes: &s.sizes[hint.Worker], feeds: a.source.feeds}
	h.candidate.Source = string(s.Owner)
	dir.holders = append(dir.holders, h)
	return nil
}

// unname takes it out again. mu is held.
func (p *plane) unname(name string, s *attachedSlot) {
	dir := p.names[name]
	if dir == nil {
		return
	}
	e := p.engine
	e.control.Lock()
	dir.holders = slices.DeleteFunc(slices.Clone(dir.holders), func(h *holder) bool { return h.id == s.holders[hint.Worker] })
	empty := len(dir.holders) == 0
	e.control.Unlock()
	if empty {
		delete(p.names, name)
		e.sources.Delete(name)
		dir.cancel()
	}
}
