package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
)

const (
	scopeName    = "scope"
	hostInstance = 9
)

// ownerRig is an engine whose workers attach at run time.
type ownerRig struct {
	*Engine
	t           testing.TB
	incarnation uint64
	host        string       // where publishers listen; "" means 127.0.0.1
	phase       atomic.Int32 // of the test: what readers may expect
}

func newOwnerRig(t testing.TB, slots int, o Options) *ownerRig {
	t.Helper()
	r := &ownerRig{Engine: openEngine(t, o), t: t, incarnation: 100}
	if err := r.Residency().OpenHost(residency.Host{Scope: scopeName, Instance: hostInstance, MaxSlots: slots}); err != nil {
		t.Fatal(err)
	}
	return r
}

// guest is a worker that attaches: rank 0, one publisher per TP shard.
type guest struct {
	rig    *ownerRig
	intent residency.Intent
	shards []*publisher
}

// owner is the cache owner of the n-th slot.
func owner(n int) residency.OwnerID {
	return residency.OwnerID(fmt.Sprintf("%032x:%032x/%016x/%032x", 1, 2, 3, n))
}

// guest starts a worker's publishers; it is not registered yet.
func (r *ownerRig) guest(id uint64, o residency.OwnerID, p residency.Protocol, tp int, d dialect) *guest {
	r.t.Helper()
	r.incarnation++
	g := &guest{rig: r}
	topic := fmt.Sprintf("%s-%d", r.t.Name(), r.incarnation)
	var endpoints []string
	for range tp {
		pub := listen(r.t, cmp.Or(r.host, "127.0.0.1"), d)
		pub.topic = topic
		g.shards = append(g.shards, pub)
		endpoints = append(endpoints, pub.pub.Addr())
	}
	g.intent = residency.Intent{
		TargetHost: hostInstance, Producer: id, Incarnation: r.incarnation, Owner: o, Worker: residency.Worker{ID: id},
		Model: "m", KVStateEndpoint: "kv", Domain: "d", BlockSize: blockTokens, Protocol: p, Endpoints: endpoints, Topic: topic,
		Hint: &residency.HintSource{ControlEndpoint: "tcp://10.0.0." + strconv.FormatUint(id, 10) + ":23280", WorkerType: "aggregated"},
	}
	return g
}

func (g *guest) lease() string { return fmt.Sprint("w", g.intent.Worker.ID, "-", g.intent.Incarnation) }

// register attaches the worker and waits for its links.
func (g *guest) register() *guest {
	g.rig.t.Helper()
	reg := residency.Registration{ID: g.lease(), Scope: scopeName, Intents: []residency.Intent{g.intent}}
	if _, err := g.rig.Residency().Register(patience(g.rig.t), reg); err != nil {
		g.rig.t.Fatal(err)
	}
	g.joined()
	return g
}

func (g *guest) joined() {
	g.rig.t.Helper()
	for _, p := range g.shards {
		if err := p.pub.WaitSubscribers(patience(g.rig.t), 1); err != nil {
			g.rig.t.Fatal(err)
		}
	}
	await(g.rig.t, "the owner to be ready", func() bool { return g.rig.route(g.intent.Owner).Outcome == residency.Ready })
}

func (g *guest) release() {
	g.rig.t.Helper()
	if err := g.rig.Residency().Release(patience(g.rig.t), g.lease()); err != nil {
		g.rig.t.Fatal(err)
	}
}

// say publishes a batch on every shard and waits until it is applied.
func (g *guest) say(events ...event) {
	g.rig.t.Helper()
	for _, p := range g.shards {
		p.send(events...)
	}
	if err := g.rig.WaitApplied(patience(g.rig.t), g.name(), 0, g.shards[0].next-1); err != nil {
		g.rig.t.Fatal(err)
	}
}

// name is what the worker is called in answers.
func (g *guest) name() string { return strconv.FormatUint(g.intent.Worker.ID, 10) }

func (r *ownerRig) route(o residency.OwnerID) residency.Route {
	for _, rt := range r.Residency().Routing().Routes {
		if rt.Owner == o {
			return *rt
		}
	}
	return residency.Route{}
}

// worker and pool are a guest's depths as matches show them.
func (g *guest) worker() Depths {
	g.rig.t.Helper()
	return g.rig.depths(g.name(), hint.Worker)
}

func (g *guest) pool() Depths {
	g.rig.t.Helper()
	return g.rig.pool(g.intent.Owner)
}

// depths are rank 0's in a domain; zeros also where nobody serves the model.
func (r *ownerRig) depths(source string, d Domain) Depths {
	r.t.Helper()
	var a Answer
	if err := r.Match(prompt(), &a); err != nil && !errors.Is(err, ErrUnknownModel) {
		r.t.Fatal(err)
	}
	got, _, _, _ := in(&a, source, d)
	return got
}

func (r *ownerRig) pool(o residency.OwnerID) Depths {
	r.t.Helper()
	return r.depths(string(o), hint.CacheOwner)
}

// hint asks for a hint for a request that was routed to g.
func (g *guest) hint() string {
	g.rig.t.Helper()
	var h HintAnswer
	if err := g.rig.Hint(prompt(), Target{Source: g.name()}, &h); err != nil {
		g.rig.t.Fatal(err)
	}
	return outcome(&h)
}

// readers ask without a pause, from several goroutines, until stopped; see says
// what is wrong with an answer to a call that began in a phase.
func (r *ownerRig) readers(n int, see func(a *Answer, phase int32) string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var failed atomic.Bool
	asked := make([]atomic.Int64, n)
	r.t.Cleanup(func() { cancel(); wg.Wait() })
	for i := range n {
		wg.Go(func() {
			var a Answer
			q := prompt()
			for ctx.Err() == nil {
				phase := r.phase.Load()
				if err := r.Match(q, &a); err != nil {
					if !errors.Is(err, ErrUnknownModel) {
						failed.Store(true)
						r.t.Errorf("reader: %v", err)
						return
					}
					continue
				}
				asked[i].Add(1)
				if why := see(&a, phase); why != "" {
					failed.Store(true)
					r.t.Errorf("answer %d of reader %d: %s", asked[i].Load(), i, why)
					return
				}
			}
		})
	}
	return func() {
		r.t.Helper()
		for i := range asked { // each has seen the end of it
			was := asked[i].Load()
			await(r.t, "a reader", func() bool { return failed.Load() || asked[i].Load() > was+10 })
		}
		cancel()
		wg.Wait()
	}
}

// in finds a holder's answer.
func in(a *Answer, source string, d Domain) (depths Depths, flagged bool, at Freshness, ok bool) {
	for i := range a.Holders {
		if h := &a.Holders[i]; h.Source == source && h.Domain == d {
			return h.Tokens, false, h.Freshness, true
		}
	}
	for i := range a.Flagged {
		if h := &a.Flagged[i]; h.Source == source && h.Domain == d {
			return h.Tokens, true, h.Freshness, true
		}
	}
	return Depths{}, false, Freshness{}, false
}
