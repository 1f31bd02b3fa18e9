package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cairn-kv/cairn/engine/residency"
)

// stepped is the engine's plane with something to be done before or behind each
// of its steps.
type stepped struct {
	*plane
	mu    sync.Mutex
	seen  []string
	at    func(step string) error
	ports []<-chan struct{} // of every stream that was opened
}

func (p *stepped) step(name string) error {
	p.mu.Lock()
	p.seen = append(p.seen, name)
	at := p.at
	p.mu.Unlock()
	if at == nil {
		return nil
	}
	return at(name)
}

// around runs a step between "before …" and "behind …". What it made stands when
// it is said to have failed behind.
func (p *stepped) around(name string, do func() error) error {
	if err := p.step("before " + name); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return p.step("behind " + name)
}

func (p *stepped) Build(ctx context.Context, s residency.Source) error {
	return p.around("build", func() error { return p.plane.Build(ctx, s) })
}

func (p *stepped) Barrier(ctx context.Context, s residency.SlotID, g uint64, d residency.Domains) (at residency.Cursor, err error) {
	err = p.around("barrier "+d.String(), func() error {
		at, err = p.plane.Barrier(ctx, s, g, d)
		return err
	})
	return at, err
}

func (p *stepped) Open(ctx context.Context, a residency.Attachment) error {
	return p.around("open", func() error {
		if err := p.plane.Open(ctx, a); err != nil {
			return err
		}
		p.plane.mu.Lock()
		feeds := p.plane.slots[a.Slot].attached.source.feeds
		p.plane.mu.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, f := range feeds {
			p.ports = append(p.ports, f.port.Done())
		}
		return nil
	})
}

func (p *stepped) Start(ctx context.Context, a residency.Attachment) error {
	return p.around("start", func() error { return p.plane.Start(ctx, a) })
}

func (p *stepped) Advertise(ctx context.Context, a residency.Attachment) error {
	return p.around("advertise", func() error { return p.plane.Advertise(ctx, a) })
}

// TestCancelledAttach ends the context before and behind every step of the
// attach of two ranks over sockets, in turn, with two TP shards each, while their
// publishers send; and has every step fail. Afterwards nothing is left, and the
// first error is what the caller sees.
func TestCancelledAttach(t *testing.T) {
	steps := []string{"build", "barrier worker", "barrier cache_owner", "open", "start", "advertise"}
	mine := errors.New("the worker did not start")
	for _, how := range []string{"cancelled", "failing"} {
		for rank := range 2 {
			for _, s := range steps {
				for _, step := range []string{"before " + s, "behind " + s} {
					if how == "failing" && step == "behind build" {
						continue // a plane that fails has undone what it began
					}
					t.Run(fmt.Sprintf("8.4 over sockets: %s %s of rank %d", how, step, rank), func(t *testing.T) {
						r := newOwnerRig(t, 2, Options{})
						p := &stepped{plane: r.owners}
						first := r.Residency()
						r.owners.registry = residency.New(p, residency.Options{})
						if err := first.Close(patience(t)); err != nil { // the one that p stands in for
							t.Fatal(err)
						}
						if err := r.Residency().OpenHost(residency.Host{Scope: scopeName, Instance: hostInstance, MaxSlots: 2}); err != nil {
							t.Fatal(err)
						}
						a := r.guest(17, owner(1), residency.HiCacheV1, 2, dialects[1])
						b := r.guest(17, owner(2), residency.HiCacheV1, 2, dialects[1])
						b.intent.Worker.Rank = 1
						goroutines := runtime.NumGoroutine()
						ctx, cancel := context.WithCancelCause(t.Context())
						defer cancel(nil)
						calls := 0
						p.at = func(at string) error {
							if at != step {
								return nil
							}
							if calls++; calls != rank+1 {
								return nil
							}
							for _, g := range []*guest{a, b} { // whoever listens by now hears it
								for _, pub := range g.shards {
									pub.send(store(4, "GPU", ""), store(4, "CPU", "kvcr"))
								}
							}
							if how == "failing" {
								return mine
							}
							cancel(mine)
							return nil
						}
						reg := residency.Registration{ID: "w", Scope: scopeName, Intents: []residency.Intent{a.intent, b.intent}}
						_, err := r.Residency().Register(ctx, reg)
						e, ok := errors.AsType[*residency.RegisterError](err)
						if !ok || !errors.Is(e.First, mine) || len(e.Secondary) > 0 {
							t.Fatalf("%v", err)
						}
						if how == "failing" {
							if of, ok := errors.AsType[*residency.RankError](err); !ok || of.Rank != uint32(rank) {
								t.Fatalf("rank %d is not named: %v", rank, err)
							}
						}
						if !slices.Contains(p.seen, step) {
							t.Fatalf("%s never came: %v", step, p.seen)
						}
						// Now, and not some time later: no registration, slot, name, holder,
						// ring …
						c := r.Residency()
						if n := len(c.Leases()) + len(c.Slots()) + len(c.Routing().Routes); n > 0 {
							t.Errorf("%d records are left", n)
						}
						if h := c.Hosts()[0]; h.Total+h.Publishers > 0 {
							t.Errorf("%+v", h)
						}
						if n := len(r.owners.slots) + len(r.owners.names) + r.sources.Size(); n > 0 {
							t.Errorf("%d slots or names are left", n)
						}
						st := r.Stats()
						if st.Sources+st.Streams+st.Holders+st.Shards[0].Holders+st.Shards[0].Residencies > 0 {
							t.Errorf("%+v", st)
						}
						for _, done := range p.ports {
							select {
							case <-done:
							default:
								t.Error("a ring is left")
							}
						}
						// … and, as soon as the other end has noticed, no socket or goroutine.
						for _, g := range []*guest{a, b} {
							for _, pub := range g.shards {
								if err := pub.pub.WaitGone(patience(t)); err != nil {
									t.Errorf("a socket is left: %v", err)
								}
							}
						}
						await(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
					})
				}
			}
		}
	}
}
