package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/engine/residency"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a data plane whose every step succeeds, but for one rank's start.
type stub struct {
	mu       sync.Mutex
	attached map[residency.SlotID]residency.Attachment
	sources  map[residency.SlotID]residency.Source
	barriers map[residency.SlotID]residency.Cursor
	bad      map[uint32]error // by rank
}

func newStub() *stub {
	return &stub{attached: map[residency.SlotID]residency.Attachment{}, sources: map[residency.SlotID]residency.Source{},
		barriers: map[residency.SlotID]residency.Cursor{}, bad: map[uint32]error{}}
}

func (p *stub) Build(_ context.Context, s residency.Source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sources[s.Slot] = s
	return nil
}

func (p *stub) Barrier(_ context.Context, s residency.SlotID, _ uint64, _ residency.Domains) (residency.Cursor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.barriers[s]++
	return p.barriers[s], nil
}

func (p *stub) Open(_ context.Context, a residency.Attachment) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attached[a.Slot] = a
	return nil
}

func (p *stub) Start(_ context.Context, a residency.Attachment) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bad[a.Rank]
}

func (p *stub) Stop(_ context.Context, s residency.SlotID, _ uint64, _ residency.Domains) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.attached, s)
	return nil
}

func (p *stub) Remove(_ context.Context, s residency.SlotID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sources, s)
	return nil
}

func (p *stub) Status(s residency.SlotID) residency.PlaneStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.attached[s]
	st := residency.PlaneStatus{Owner: p.sources[s].Owner, Applied: p.barriers[s]}
	if ok {
		st.Record, st.Worker, st.Generation, st.Reachable = a.Record, a.Worker, a.Generation, true
	}
	return st
}

func (p *stub) Advertise(context.Context, residency.Attachment) error                       { return nil }
func (p *stub) Withdraw(context.Context, residency.Attachment) error                        { return nil }
func (p *stub) Clear(context.Context, residency.SlotID, residency.Domains) error            { return nil }
func (p *stub) Fence(residency.SlotID, uint64) error                                        { return nil }
func (p *stub) Publish(revision uint64, changed []residency.Route, gone []residency.SlotID) {}

// fail makes the start of a rank's stream fail; nil makes it succeed.
func (p *stub) fail(rank uint32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bad[rank] = err
}

// owners are those that are attached, with their raw endpoint, sorted.
func (p *stub) endpoints() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.attached {
		all = append(all, a.Endpoints...)
	}
	slices.Sort(all)
	return all
}

// fakeSources is an engine's list of sources.
type fakeSources struct {
	mu   sync.Mutex
	all  map[string]engine.Source
	fail error
	hold chan struct{} // AddSource waits for it, if there is one
}

func newFakeSources() *fakeSources { return &fakeSources{all: map[string]engine.Source{}} }

func (f *fakeSources) AddSource(ctx context.Context, s engine.Source) error {
	f.mu.Lock()
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if err := s.Validate(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	if _, taken := f.all[s.ID]; taken {
		return fmt.Errorf("%w: %q", engine.ErrSourceExists, s.ID)
	}
	f.all[s.ID] = s
	return nil
}

func (f *fakeSources) RemoveSource(_ context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.all[id]; !ok {
		return engine.ErrUnknownSource
	}
	delete(f.all, id)
	return nil
}

func (f *fakeSources) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for id := range f.all {
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

// rig is a registrar over a real control plane and fakes below it.
type rig struct {
	*Registrar
	plane   *stub
	control *residency.Registry
	sources *fakeSources
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	p := newStub()
	g := &rig{plane: p, sources: newFakeSources(), control: residency.New(p, residency.Options{AmbiguityWait: -1, RecordID: identity.AttachmentRecord})}
	o.Control, o.Sources = g.control, g.sources
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	g.Registrar = r
	return g
}

// close ends everything; it is called at the end of a test, inside its bubble.
func (g *rig) close(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := errors.Join(g.Registrar.Close(ctx), g.control.Close(ctx)); err != nil {
		t.Error(err)
	}
	if left := g.plane.endpoints(); len(left) > 0 {
		t.Errorf("still attached: %v", left)
	}
}

const (
	scopeA = "02020202020202020202020202020202"
	scopeB = "03030303030303030303030303030303"
)

// ownerText is the n-th owner of a scope.
func ownerText(scope string, n int) string {
	return fmt.Sprintf("01010101010101010101010101010101:%s/00000000000000ff/%032x", scope, n)
}

func ownerID(t testing.TB, scope string, n int) identity.CacheOwnerID {
	t.Helper()
	id, err := identity.ParseCacheOwnerID(ownerText(scope, n))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// owned is a worker of two ranks with owned residency, nothing wrong with it.
func owned(t testing.TB, id string, n int) Worker {
	return Worker{ID: id, Model: "m", Protocol: identity.HiCache, TTL: DefaultTTL, WorkerID: uint64(n), BlockSize: 64, WorkerType: "aggregated",
		HintEndpoints: map[string]string{"0": "tcp://10.0.0.1:23280", "1": "tcp://10.0.0.1:23284"},
		Ranks: []Rank{
			{Rank: 0, Endpoints: []string{fmt.Sprintf("tcp://10.0.0.%d:5557", n)}, Topic: fmt.Sprintf("kv@%d@0", n), Owner: ownerID(t, scopeA, 2*n), Incarnation: uint64(10*n + 1)},
			{Rank: 1, Endpoints: []string{fmt.Sprintf("tcp://10.0.0.%d:5558", n)}, Topic: fmt.Sprintf("kv@%d@1", n), Owner: ownerID(t, scopeA, 2*n+1), Incarnation: uint64(10*n + 2)},
		}}
}

// plainWorker is a worker of two ranks without owned residency.
func plainWorker(id string, n int) Worker {
	return Worker{ID: id, Model: "m", TTL: DefaultTTL, Ranks: []Rank{
		{Rank: 0, Endpoints: []string{fmt.Sprintf("tcp://10.1.0.%d:5557", n)}},
		{Rank: 1, Endpoints: []string{fmt.Sprintf("tcp://10.1.0.%d:5558", n)}},
	}}
}
