package residency

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakePlane is a data plane of maps. Every step can fail, wait, or run a
// function; it checks what the registry promises about the order of calls.
type fakePlane struct {
	t *testing.T

	mu       sync.Mutex
	slots    map[SlotID]*fakeSlot
	calls    []string
	trail    []string          // with owners
	busy     map[SlotID]string // the call that is under way
	on       map[string]func(ctx context.Context) error
	revision uint64
	routes   map[SlotID]Route
	publish  func(changed []Route)
}

type fakeSlot struct {
	source   Source
	status   PlaneStatus
	open     *Attachment // ingress is there
	running  bool
	records  map[uint64]bool
	blocks   map[Domains]int // what each domain holds
	fenced   bool
	cleared  []Domains
	drained  []Domains
	barriers Cursor
}

func newFake(t *testing.T) *fakePlane {
	return &fakePlane{t: t, slots: map[SlotID]*fakeSlot{}, busy: map[SlotID]string{},
		on: map[string]func(context.Context) error{}, routes: map[SlotID]Route{}}
}

// enter notes a call and runs what the test wants to happen in it.
func (p *fakePlane) enter(ctx context.Context, id SlotID, step string) error {
	p.mu.Lock()
	if was := p.busy[id]; was != "" {
		p.t.Errorf("%s of slot %d while %s is under way", step, id, was)
	}
	p.busy[id] = step
	p.calls = append(p.calls, step)
	if s := p.slots[id]; s != nil {
		p.trail = append(p.trail, step+" "+string(s.source.Owner))
	}
	f := p.on[step]
	p.mu.Unlock()
	var err error
	if f != nil {
		err = f(ctx)
	}
	p.mu.Lock()
	delete(p.busy, id)
	p.mu.Unlock()
	return err
}

func (p *fakePlane) during(step string, f func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on[step] = f
}

func (p *fakePlane) fail(step string) {
	p.during(step, func(context.Context) error { return errors.New(step + " failed") })
}

func (p *fakePlane) slot(id SlotID) *fakeSlot {
	s := p.slots[id]
	if s == nil {
		p.t.Errorf("slot %d was never built, or removed", id)
		return &fakeSlot{records: map[uint64]bool{}, blocks: map[Domains]int{}}
	}
	return s
}

func (p *fakePlane) Build(ctx context.Context, s Source) error {
	if err := p.enter(ctx, s.Slot, "build"); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots[s.Slot] = &fakeSlot{source: s, status: PlaneStatus{Owner: s.Owner}, records: map[uint64]bool{}, blocks: map[Domains]int{}}
	return nil
}

func (p *fakePlane) Barrier(ctx context.Context, id SlotID, generation uint64, d Domains) (Cursor, error) {
	if err := p.enter(ctx, id, "barrier "+d.String()); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slot(id)
	if s.running {
		p.t.Errorf("slot %d is cleared under a running stream", id)
	}
	s.barriers++
	s.status.Applied = s.barriers
	s.cleared = append(s.cleared, d)
	s.blocks[d] = 0
	return s.barriers, nil
}

func (p *fakePlane) Open(ctx context.Context, a Attachment) error {
	if err := p.enter(ctx, a.Slot, "open"); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slot(a.Slot)
	if s.open != nil {
		p.t.Errorf("slot %d is opened twice", a.Slot)
	}
	if a.ReadyAt != s.barriers {
		p.t.Errorf("slot %d: ready at barrier %d, the last was %d", a.Slot, a.ReadyAt, s.barriers)
	}
	s.open, s.fenced = &a, false
	s.status.Generation, s.status.Worker, s.status.Record, s.status.Reachable = a.Generation, a.Worker, a.Record, true
	return nil
}

func (p *fakePlane) Start(ctx context.Context, a Attachment) error {
	if err := p.enter(ctx, a.Slot, "start"); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slot(a.Slot).running = true
	return nil
}

func (p *fakePlane) Advertise(ctx context.Context, a Attachment) error {
	p.mu.Lock()
	p.slot(a.Slot).records[a.Generation] = true // also if it fails: it may have landed
	p.mu.Unlock()
	return p.enter(ctx, a.Slot, "advertise")
}

func (p *fakePlane) Withdraw(ctx context.Context, a Attachment) error {
	if err := p.enter(ctx, a.Slot, "withdraw"); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slot(a.Slot).records, a.Generation)
	return nil
}

func (p *fakePlane) Stop(ctx context.Context, id SlotID, generation uint64, drain Domains) error {
	err := p.enter(ctx, id, "stop")
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slot(id)
	s.open, s.running = nil, false
	s.drained = append(s.drained, drain)
	s.status.Record, s.status.Worker, s.status.Reachable = 0, Worker{}, false
	return err
}

func (p *fakePlane) Clear(ctx context.Context, id SlotID, d Domains) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range []Domains{WorkerDomain, CacheOwnerDomain} {
		if d&one != 0 {
			p.slot(id).blocks[one] = 0
		}
	}
	return nil
}

func (p *fakePlane) Fence(id SlotID, generation uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slot(id)
	s.fenced = true
	s.blocks[WorkerDomain], s.blocks[CacheOwnerDomain] = 0, 0
	return nil
}

func (p *fakePlane) Remove(ctx context.Context, id SlotID) error {
	err := p.enter(ctx, id, "remove")
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slot(id)
	if ctx.Err() == nil && (s.open != nil || len(s.records) > 0 && p.on["withdraw"] == nil) {
		p.t.Errorf("slot %d is removed while it is attached (records %v)", id, s.records)
	}
	delete(p.slots, id)
	return err
}

func (p *fakePlane) Publish(revision uint64, changed []Route, gone []SlotID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if revision != p.revision+1 {
		p.t.Errorf("revision %d behind %d", revision, p.revision)
	}
	p.revision = revision
	for _, rt := range changed {
		p.routes[rt.Slot] = rt
	}
	for _, id := range gone {
		delete(p.routes, id)
	}
	if p.publish != nil {
		p.publish(changed)
	}
}

func (p *fakePlane) Status(id SlotID) PlaneStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.slots[id]; s != nil {
		return s.status
	}
	return PlaneStatus{}
}

// set changes what the plane says of an owner's slot.
func (p *fakePlane) set(owner OwnerID, f func(*fakeSlot)) SlotID {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, s := range p.slots {
		if s.source.Owner == owner {
			f(s)
			return id
		}
	}
	p.t.Fatalf("no slot of %s", owner)
	return 0
}

// empty reports what is left of slots.
func (p *fakePlane) empty() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.slots) > 0 || len(p.routes) > 0 {
		return fmt.Errorf("%d slots and %d routes are left", len(p.slots), len(p.routes))
	}
	return nil
}

// rig is a registry on a fake plane, in a bubble of its own time.
type rig struct {
	*Registry
	t     *testing.T
	plane *fakePlane
}

const hostInstance = 9

// inBubble runs a test against a registry with one scope "s" of two slots.
func inBubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	inBubbleOf(t, Options{}, 2, f)
}

func inBubbleOf(t *testing.T, o Options, slots int, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newFake(t)
		r := &rig{Registry: New(p, o), t: t, plane: p}
		r.host("s", slots)
		f(t, r)
		p.mu.Lock()
		p.on = map[string]func(context.Context) error{}
		p.mu.Unlock()
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.empty(); err != nil {
			t.Error(err)
		}
		for _, h := range r.Hosts() {
			t.Errorf("scope %s is left", h.Scope)
		}
		if n := len(r.Leases()); n > 0 {
			t.Errorf("%d leases are left", n)
		}
	})
}

func (r *rig) host(scope string, slots int) {
	r.t.Helper()
	if err := r.OpenHost(Host{Scope: scope, Instance: hostInstance, MaxSlots: slots}); err != nil {
		r.t.Fatal(err)
	}
}

// intent is rank 0 of worker w for owner, unless it is changed.
func intent(owner OwnerID, worker uint64, incarnation uint64) Intent {
	return Intent{
		TargetHost: hostInstance, Producer: worker, Incarnation: incarnation, Owner: owner,
		Worker: Worker{ID: worker}, Model: "m", KVStateEndpoint: "kv", Domain: "d", BlockSize: 64,
		Protocol: HiCacheV1, Endpoints: []string{"tcp://10.0.0.1:5557"}, Topic: fmt.Sprint("t", incarnation),
		Hint: &HintSource{ControlEndpoint: "tcp://10.0.0.1:23280", WorkerType: "aggregated"},
	}
}

func durable(i Intent) Intent {
	i.Protocol = VLLMResidencyV1
	return i
}

// registration is one of the given intents, ranks in their order.
func registration(id string, intents ...Intent) Registration {
	for i := range intents {
		intents[i].Worker.Rank = uint32(i)
	}
	return Registration{ID: id, Scope: "s", Intents: intents}
}

func (r *rig) register(reg Registration) {
	r.t.Helper()
	if _, err := r.Register(r.t.Context(), reg); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) release(id string) {
	r.t.Helper()
	if err := r.Release(r.t.Context(), id); err != nil {
		r.t.Fatal(err)
	}
}

// route is an owner's, as readers see it.
func (r *rig) route(owner OwnerID) *Route {
	for _, rt := range r.Routing().Routes {
		if rt.Owner == owner {
			return rt
		}
	}
	return nil
}

func (r *rig) slotOf(owner OwnerID) SlotStatus {
	r.t.Helper()
	for _, s := range r.Slots() {
		if s.Source.Owner == owner {
			return s
		}
	}
	r.t.Fatalf("no slot of %s", owner)
	return SlotStatus{}
}

// watch reads the routing without a pause until it is stopped, and fails if bad
// says so of any snapshot: what readers may never see. Nothing that waits for
// time to pass gets on meanwhile.
func (r *rig) watch(bad func(*Routing) string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	look := func(last *Routing) *Routing {
		now := r.Routing()
		if now == last {
			return last
		}
		if last != nil && now.Revision <= last.Revision {
			r.t.Errorf("revision %d after %d", now.Revision, last.Revision)
		}
		if why := bad(now); why != "" {
			r.t.Errorf("revision %d: %s", now.Revision, why)
		}
		return now
	}
	go func() {
		defer close(done)
		var last *Routing
		for ctx.Err() == nil {
			last = look(last)
			runtime.Gosched()
		}
		look(last)
	}()
	return func() { cancel(); <-done }
}

// every has a function see each change of routes that is ever published.
func (r *rig) every(see func(Route)) {
	r.plane.mu.Lock()
	defer r.plane.mu.Unlock()
	r.plane.publish = func(changed []Route) {
		for _, rt := range changed {
			see(rt)
		}
	}
}

// took are the plane's calls since the last time.
func (r *rig) took() string {
	r.plane.mu.Lock()
	defer r.plane.mu.Unlock()
	s := strings.Join(r.plane.calls, ", ")
	r.plane.calls = nil
	return s
}

// settle waits until nothing moves without time passing.
func (r *rig) settle() { synctest.Wait() }

// until waits, as long as it takes, for what needs time.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for range 100000 {
		synctest.Wait()
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("waited in vain for %s", what)
}

// goes registers in the background; the channel gives the outcome.
func (r *rig) goes(ctx context.Context, reg Registration) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := r.Register(ctx, reg)
		done <- err
	}()
	return done
}

const second = time.Second

func now() time.Time { return time.Now() }
