package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
)

// overlooked asks as Match does and then looks at every holder of the model,
// whatever is known of it. It says of which the answer should have said something
// else: shown or flagged, and in which state. timed says that it may be a matter
// of the moment between the two: a link is down.
func overlooked(e *Engine, q *Query, a *Answer) (what string, timed bool) {
	a.Holders, a.Flagged, a.positions = a.Holders[:0], a.Flagged[:0], a.positions[:0]
	k, m, err := e.ask(q)
	if err != nil {
		return "", false
	}
	k.answer(e, m, a)
	var wrong []string
	now := time.Now()
	for i, h := range m.holders {
		got := "empty"
		for place, in := range map[string][]HolderAnswer{"shown": a.Holders, "flagged": a.Flagged} {
			for j := range in {
				if o := &in[j]; o.Source == h.src.spec.ID && o.Rank == h.rank && o.Domain == h.domain {
					got = fmt.Sprintf("%s, %v (%s)", place, o.Freshness.State, o.Freshness.Cause)
				}
			}
		}
		met := k.slot[i] != 0
		if !met {
			k.noteAfter(m, i)
		}
		f := k.freshness(e, m, i, now, &Answer{})
		want := "empty"
		switch {
		case !f.visible():
			want = fmt.Sprintf("flagged, %v (%s)", f.State, f.Cause)
		case met:
			want = fmt.Sprintf("shown, %v (%s)", f.State, f.Cause)
		}
		if got != want {
			timed = timed || f.State == Disconnected
			wrong = append(wrong, fmt.Sprintf("%s/%d %s is %s, want %s", h.src.spec.ID, h.rank, h.domain, got, want))
		}
	}
	k.forget()
	e.queriers.put(k)
	return strings.Join(wrong, "; "), timed
}

// What is known of holders was found at positions. A query goes by it only if it
// has noted its own later: here the batch that a stream begins with is applied,
// and everybody found settled, while a query is between its note and its walk.
func TestSurveyIsOlderThanPositions(t *testing.T) {
	e := openEngine(t, Options{})
	w := addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil)
	k := e.queriers.get()
	m, err := e.pin(k, prompt())
	if err != nil {
		t.Fatal(err)
	}
	w.say(t, event{clear: true})
	for range 2 {
		var a Answer
		if err := e.Match(prompt(), &a); err != nil || len(a.Flagged) != 0 {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	var a Answer
	k.walk(m)
	k.answer(e, m, &a)
	if len(a.Flagged) != 1 || a.Flagged[0].Freshness.State != Connecting {
		t.Errorf("from before the first batch: %+v", a)
	}
}

// A query leaves what it found once a change, and once more when a stream that
// was short of the batch its standing begins with has come to it.
func TestSurveyIsLeftOnce(t *testing.T) {
	g := newGated()
	e := openEngine(t, Options{NewIndex: func() tree.Interface { return g }})
	w := addWorker(t, e, "w", "127.0.0.1", 1, dialects[1], nil)
	ask := func(want ...int32) *survey {
		t.Helper()
		var a Answer
		var all []*survey
		for range 3 {
			if err := e.Match(prompt(), &a); err != nil || len(a.Holders)+len(a.Flagged) != 1 {
				t.Fatalf("%+v, %v", a, err)
			}
			all = append(all, e.view.Load().model("m").survey.Load())
		}
		if !slices.Equal(all[2].unsettled, want) || all[2] != all[1] {
			t.Errorf("%d are unsettled, want %d; was it left again: %v", all[2].unsettled, want, all[2] != all[1])
		}
		return all[2]
	}
	was := ask(0)
	g.left.Store(1)
	w.shards[0].send(store(4, "GPU", ""))
	<-g.held
	begun := ask(0)
	g.open <- struct{}{}
	w.settle(t)
	whole := ask()
	if was.changes == begun.changes || begun.changes != whole.changes {
		t.Errorf("%d, %d and %d changes", was.changes, begun.changes, whole.changes)
	}
	w.say(t, store(4, "GPU", ""))
	if ask() != whole {
		t.Error("a batch was taken for a change")
	}
}

// fleet is workers, some of which attach, and what may happen to them.
type fleet struct {
	*ownerRig
	gate    gated
	rng     *rand.Rand
	workers []*worker
	guests  []*guest
	down    map[*worker]string // the address of each whose publisher is gone
	made    int
}

const staleAfter = 20 * time.Millisecond

func newFleet(t *testing.T, seed uint64) *fleet {
	f := &fleet{gate: newGated(), rng: rand.New(rand.NewPCG(4, seed)), down: map[*worker]string{}}
	f.ownerRig = newOwnerRig(t, 64, Options{StaleAfter: staleAfter, MaxRanks: 8, Shards: 2, NewIndex: func() tree.Interface {
		g := f.gate
		g.Interface = tree.New(tree.Options{})
		return g
	}})
	return f
}

// some is an event of the chain, of another one, or one that leaves nothing.
func (f *fleet) some() event {
	switch f.rng.IntN(4) {
	case 0:
		return event{clear: true}
	case 1:
		return event{names: []uint64{1, 2}, tokens: count(7001, 7000+2*blockTokens), medium: "GPU"}
	}
	return store(1+f.rng.IntN(4), "GPU", "")
}

// settle waits until batch seq of a worker's first stream is applied, in
// whatever history.
func (f *fleet) settle(w *worker, seq uint64) {
	await(f.t, fmt.Sprintf("batch %d of %s", seq, w.id), func() bool {
		st := status(w).Streams[0]
		return st.Visible && st.Applied == seq && st.Seq == seq
	})
}

// skip loses a batch, or begins another process, of which the first may be lost.
func (f *fleet) skip(p *publisher) string {
	switch x := f.rng.IntN(3); {
	case x == 0 && p.next > 0:
		p.next++
		return "gap"
	case x == 1 && p.next > 2:
		p.next = uint64(f.rng.IntN(2))
		return "restart"
	}
	return "batch"
}

// step lets something happen, and says what. It calls look while a writer stands
// still.
func (f *fleet) step(look func(what string)) string {
	x := f.rng.IntN(100)
	switch {
	case len(f.workers) < 4 || x < 8 && len(f.workers) < 12:
		f.made++
		f.workers = append(f.workers, addWorker(f.t, f.Engine, "w"+strconv.Itoa(f.made), "127.0.0.1", 1+x%2, dialects[1], nil))
		return "add"
	case x < 14:
		i := f.rng.IntN(len(f.workers))
		if err := f.RemoveSource(patience(f.t), f.workers[i].id); err != nil {
			f.t.Fatal(err)
		}
		delete(f.down, f.workers[i])
		f.workers = slices.Delete(f.workers, i, i+1)
		return "remove"
	case x < 35:
		return f.attached(x)
	}
	w := f.workers[f.rng.IntN(len(f.workers))]
	p := w.shards[0]
	_, down := f.down[w]
	switch {
	case down && x < 70:
		time.Sleep(time.Duration(f.rng.IntN(2)) * staleAfter)
		return "rest"
	case down:
		f.listen(p, f.down[w])
		delete(f.down, w)
		f.settle(w, p.send(f.some()))
		return "up"
	case x < 60:
		what := f.skip(p)
		f.settle(w, p.send(f.some()))
		return what
	case x < 75:
		if status(w).State == Fenced {
			return "nothing" // it would not come to a store
		}
		what := f.skip(p) + " under way"
		f.gate.left.Store(1)
		seq := p.send(store(1+f.rng.IntN(4), "GPU", ""))
		<-f.gate.held
		look(what)
		f.gate.open <- struct{}{}
		f.settle(w, seq)
		return what
	case x < 85 && p.next > 0 && len(w.shards) == 1:
		f.down[w] = p.pub.Addr()
		p.pub.Close()
		await(f.t, "the end of a link", func() bool { return !status(w).Streams[0].Connected })
		time.Sleep(time.Duration(f.rng.IntN(2)) * 2 * staleAfter)
		return "down"
	case x < 92 && len(w.shards) == 1:
		w.sendAs(f.t, f.rng.IntN(8), f.some())
		return "rank"
	case x >= 92 && x < 95:
		f.settle(w, p.send(event{clear: true, owner: "kvcr"})) // a source fault
		return "fence"
	}
	return "nothing"
}

// attached is a step of a worker that attaches.
func (f *fleet) attached(x int) string {
	switch {
	case len(f.guests) < 3:
		f.made++
		protocol := residency.HiCacheV1
		if x%2 == 0 {
			protocol = residency.VLLMResidencyV1
		}
		f.guests = append(f.guests, f.guest(uint64(1000+f.made), owner(f.made), protocol, 1, dialects[1]).register())
		return "attach"
	case x < 27:
		f.guests[f.rng.IntN(len(f.guests))].say(f.some(), event{names: chainNames[:1], tokens: count(1, blockTokens), medium: "CPU", owner: "kvcr"})
		return "attached batch"
	}
	g := f.guests[0]
	f.guests = f.guests[1:]
	p := g.shards[0]
	if p.next == 0 {
		g.say(f.some())
	}
	switch {
	case x < 29:
		g.release()
		return "detach"
	case x < 32:
		p.next++
		p.send(f.some())
		return "attached gap"
	}
	p.pub.Close()
	await(f.t, "its word to be old", func() bool {
		st := freshnessOf(f.t, f.Engine, g.name(), 0, hint.Worker)
		return st.State == Disconnected && st.Hidden
	})
	return "attached down"
}

// listen brings a publisher up again where it was.
func (f *fleet) listen(p *publisher, at string) {
	await(f.t, "an address to be free", func() bool {
		pub, err := zmtp.Listen(context.Background(), at)
		if err != nil {
			return false
		}
		f.t.Cleanup(func() { pub.Close() })
		p.pub = pub
		return true
	})
	if err := p.pub.WaitSubscribers(patience(f.t), 1); err != nil {
		f.t.Fatal(err)
	}
}

// TestTroubleIsNeverOverlooked: whatever happens to the sources of a model, an
// answer says of each what a look at every one of them says: at once, and with
// readers that leave each other what they found.
func TestTroubleIsNeverOverlooked(t *testing.T) {
	steps := 400
	if testing.Short() {
		steps = 100
	}
	f := newFleet(t, 12)
	e := f.Engine
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel()
	for range 2 {
		readers.Go(func() {
			var a Answer
			for q := prompt(); ctx.Err() == nil; time.Sleep(50 * time.Microsecond) {
				changes, v := e.changes.Load(), e.view.Load()
				what, timed := overlooked(e, q, &a)
				// What has changed meanwhile may be in one look and not in the other,
				// and is counted sooner or later.
				for end := time.Now().Add(10 * time.Second); what != "" && !timed && e.changes.Load() == changes && e.view.Load() == v; {
					if time.Now().After(end) {
						t.Errorf("after %d changes: %s", changes, what)
						return
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	var a Answer
	flagged, done := 0, map[string]int{}
	look := func(what string) {
		done[what]++
		var why string
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			if why, _ = overlooked(e, prompt(), &a); why == "" {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s: %s", what, why)
				break
			}
		}
		flagged += len(a.Flagged)
	}
	for range steps {
		look(f.step(look))
		if t.Failed() {
			return
		}
	}
	t.Logf("%v; %d flagged, %d changes", done, flagged, e.changes.Load())
}
