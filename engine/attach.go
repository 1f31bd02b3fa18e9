package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// fenceAfter bounds how long a fence waits for the writer, which has at most a
// turn to finish.
const fenceAfter = 30 * time.Second

// plane is the data plane of owners that attach at run time: it gives the
// registry's slots their holders, streams and places in the view.
//
//	slot ─┬─ worker holder ── source "17"      while a worker is attached
//	      └─ owner holder ─── source "<owner>" as long as the slot is
//
// The holders live as long as the slot; what an attachment brings are streams
// and names.
type plane struct {
	engine   *Engine
	registry *residency.Registry

	// mu guards the tables and the slots' fields below it. It is held for
	// moments, and taken before Engine.control, never behind it.
	mu    sync.Mutex
	slots map[residency.SlotID]*attachedSlot
	names map[string]*source // by worker id: the directory entry that Engine.sources has
}

// attachedSlot is what a slot is made of.
type attachedSlot struct {
	residency.Source
	pool    *source // the owner's own entry
	index   *index
	holders [2]tree.Holder // by domain
	sizes   [2]blockSizes
	cleared [2]atomic.Bool // by a call, since the attachment began
	learned ingest.Learned // over all attachments: the block size never changes
	cursor  atomic.Uint64  // barriers applied

	// Guarded by plane.mu.
	peer     *peer       // of the last link that was registered
	attached *attachment // open
	worker   *source     // of the present or the last attachment, until it is detached
	shown    *source     // the worker's entry in the view
	seen     bool        // it was live once: the pool may hold something
	kept     bool        // the pool holds what an earlier attachment taught
	behind   bool        // something that was received was never applied
	rest     [2]*rest    // what the domains were worth when the streams ended
}

// attachment is one generation's streams.
type attachment struct {
	residency.Attachment
	slot        *attachedSlot
	source      *source   // the worker's
	generations [2]uint32 // of the holders, for as long as the attachment lasts
	up          []atomic.Bool
	repairs     []repairing // by TP shard; guarded by plane.mu
}

// repairing is what an attachment knows of the repairs of one stream.
type repairing struct {
	under bool // something is missing, or was and is not applied yet
	begun int  // repairs: the end of one must not end the next
}

// repairing reports whether any of the streams is being repaired. plane.mu is
// held.
func (a *attachment) repairing() bool {
	return slices.ContainsFunc(a.repairs, func(r repairing) bool { return r.under })
}

// Build implements residency.Plane.
func (p *plane) Build(ctx context.Context, s residency.Source) error {
	e := p.engine
	at := placeOf(string(s.Owner), len(e.shards))
	sl := &attachedSlot{Source: s, index: e.shards[at]}
	spec := Source{ID: string(s.Owner), Model: s.Model, Protocol: s.Protocol.String()}
	sl.pool = e.registered(spec, at, int(s.Rank))
	sl.pool.pool = true
	sl.peer = &peer{cost: e.selection.costs.cell(s.Model, "")}
	if _, taken := e.sources.LoadOrStore(spec.ID, sl.pool); taken {
		sl.pool.cancel()
		return fmt.Errorf("%w: %q, which an owner wants for its name", ErrSourceExists, spec.ID)
	}
	var failed error
	err := sl.index.writer.Do(ctx, func(w tree.Writer) {
		var made []tree.Holder
		for d, policy := range [2]tree.Policy{hint.Worker: tree.Copies, hint.CacheOwner: tree.Set} {
			if sl.holders[d], failed = w.AddHolder(policy, s.Shards); failed != nil {
				for _, h := range made {
					w.Drop(h)
				}
				return
			}
			made = append(made, sl.holders[d])
		}
	})
	if err = errors.Join(err, failed); err != nil {
		e.sources.Delete(spec.ID)
		sl.pool.cancel()
		return fmt.Errorf("engine: owner %q: the index has no place: %w", s.Owner, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots[s.Slot] = sl
	return nil
}

// registered makes a source that the registry keeps.
func (e *Engine) registered(spec Source, shard, rank int) *source {
	s := &source{engine: e, spec: spec, shard: shard, roots: map[unitKey]tree.Root{},
		base: rank, registered: true, owned: true, started: true}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// slot finds a slot.
func (p *plane) slot(id residency.SlotID) (*attachedSlot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.slots[id]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("engine: no slot %d", id)
}

// domainsOf are the domains of a set, as the index counts them.
func domainsOf(set residency.Domains) []Domain {
	var all []Domain
	if set&residency.WorkerDomain != 0 {
		all = append(all, hint.Worker)
	}
	if set&residency.CacheOwnerDomain != 0 {
		all = append(all, hint.CacheOwner)
	}
	return all
}

// void makes whatever is on its way to domains void, and empties them if clear
// is set, in one step of the writer.
func (s *attachedSlot) void(ctx context.Context, set residency.Domains, clear bool, also func()) error {
	return s.index.writer.Do(ctx, func(w tree.Writer) {
		for _, d := range domainsOf(set) {
			s.index.writer.Raise(s.holders[d])
			if clear {
				w.Clear(s.holders[d])
			}
		}
		if also != nil {
			also()
		}
	})
}

// Barrier implements residency.Plane.
func (p *plane) Barrier(ctx context.Context, id residency.SlotID, _ uint64, d residency.Domains) (residency.Cursor, error) {
	s, err := p.slot(id)
	if err != nil {
		return 0, err
	}
	var at uint64
	if err := s.void(ctx, d, true, func() { at = s.cursor.Add(1) }); err != nil {
		return 0, fmt.Errorf("engine: owner %q: %w", s.Owner, err)
	}
	for _, of := range domainsOf(d) {
		s.cleared[of].Store(false)
	}
	if d&residency.CacheOwnerDomain != 0 {
		p.mu.Lock()
		s.kept, s.rest[hint.CacheOwner] = false, nil
		p.mu.Unlock()
	}
	return residency.Cursor(at), nil
}

// Fence implements residency.Plane. The streams have said that they are fenced;
// here the index learns it, so that nothing is left and nothing that lies in a
// ring is applied.
func (p *plane) Fence(id residency.SlotID, _ uint64) error {
	s, err := p.slot(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), fenceAfter)
	defer cancel()
	return s.void(ctx, residency.BothDomains, true, nil)
}

// Clear implements residency.Plane.
func (p *plane) Clear(ctx context.Context, id residency.SlotID, set residency.Domains) error {
	s, err := p.slot(id)
	if err != nil {
		return err
	}
	for _, d := range domainsOf(set) {
		// Said first: whoever finds less than there was must be told.
		s.cleared[d].Store(true)
	}
	return s.index.writer.Do(ctx, func(w tree.Writer) {
		for _, d := range domainsOf(set) {
			w.Clear(s.holders[d])
		}
	})
}

// Remove implements residency.Plane.
func (p *plane) Remove(ctx context.Context, id residency.SlotID) error {
	p.mu.Lock()
	s := p.slots[id]
	delete(p.slots, id)
	p.mu.Unlock()
	if s == nil {
		return fmt.Errorf("engine: no slot %d", id)
	}
	e := p.engine
	e.control.Lock()
	s.pool.gone = true
	for k, r := range s.pool.roots {
		e.share(s.pool, k, r, -1)
	}
	s.pool.roots = nil
	e.control.Unlock()
	s.pool.cancel()
	e.sources.Delete(s.pool.spec.ID)
	err := s.index.writer.Do(ctx, func(w tree.Writer) {
		for _, h := range s.holders {
			w.Drop(h)
			s.index.writer.Forget(h)
		}
	})
	if err != nil && !errors.Is(err, shard.ErrClosed) {
		return fmt.Errorf("engine: owner %q: %w", s.Owner, err)
	}
	return nil
}

// Advertise implements residency.Plane. The record of an attachment is the
// registry's own; there is nobody else to tell.
func (p *plane) Advertise(ctx context.Context, _ residency.Attachment) error { return ctx.Err() }

// Withdraw implements residency.Plane.
func (p *plane) Withdraw(context.Context, residency.Attachment) error { return nil }

// Status implements residency.Plane.
func (p *plane) Status(id residency.SlotID) residency.PlaneStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slots[id]
	if s == nil {
		return residency.PlaneStatus{}
	}
	st := residency.PlaneStatus{Owner: s.Owner, Applied: residency.Cursor(s.cursor.Load()), Behind: s.behind}
	if a := s.attached; a != nil {
		st.Record, st.Worker, st.Generation, st.Reachable = a.Record, a.Worker, a.Generation, true
		for i := range a.up {
			st.Reachable = st.Reachable && a.up[i].Load()
		}
		st.Repairing = a.repairing()
	}
	return st
}

// workerName is the name of a worker in answers.
func workerName(id uint64) string { return strconv.FormatUint(id, 10) }
