package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
)

// TestSlotsUnderFire lets workers of both lifetimes come and go at once over two
// shards of index, lose batches, send what cannot be true, be doubted, cleared
// and cancelled, while readers match and ask for hints; and holds what no answer
// may say, and that nothing is left of it all but what durable pools keep.
func TestSlotsUnderFire(t *testing.T) {
	const owners = 5
	r := newOwnerRig(t, owners, Options{Shards: 2, Owners: OwnerOptions{Registry: residency.Options{AmbiguityWait: 50 * time.Millisecond}}})
	c := r.Residency()
	var naming sync.Mutex // of guests, which count
	target := r.guest(1000, owner(1000), residency.HiCacheV1, 1, dialects[1])
	target.intent.Protocol = residency.HiCacheV1
	if err := c.OpenHost(residency.Host{Scope: "other", Instance: hostInstance, MaxSlots: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Register(patience(t), residency.Registration{ID: "target", Scope: "other", Intents: []residency.Intent{target.intent}}); err != nil {
		t.Fatal(err)
	}
	target.joined()
	target.say(event{clear: true})

	stop := r.readers(2, func(a *Answer, _ int32) string {
		for _, h := range append(a.Holders[:len(a.Holders):len(a.Holders)], a.Flagged...) {
			switch {
			case h.Freshness.State == Fenced && h.Tokens != (Depths{}):
				return fmt.Sprintf("fenced, and yet %+v", h)
			case h.Domain == hint.Worker && h.Freshness.Advisory:
				return fmt.Sprintf("an advisory worker: %+v", h)
			case h.Freshness.Advisory && h.Freshness.State == Exact:
				return fmt.Sprintf("exact advice: %+v", h)
			case h.Tokens.Any > 256:
				return fmt.Sprintf("more than was asked for: %+v", h)
			}
		}
		return ""
	})
	ctx, cancel := context.WithCancel(t.Context())
	var hints sync.WaitGroup
	var hinted atomic.Int64
	hints.Go(func() {
		var h HintAnswer
		for ctx.Err() == nil {
			if err := r.Hint(prompt(), Target{Source: "1000"}, &h); err != nil {
				t.Error(err)
				return
			}
			if h.Reason == hint.Hinted {
				hinted.Add(1)
				if h.Endpoint == "" || h.Best.Domain != hint.CacheOwner || len(h.Names) == 0 {
					t.Errorf("hint %+v", h)
				}
			}
		}
	})

	var lives sync.WaitGroup
	for w := range uint64(4) {
		lives.Go(func() {
			rnd := rand.New(rand.NewPCG(6, w))
			for n := range uint64(8) {
				// An owner of its own, or one that others want, too. What a slot is
				// does not change, so it follows from the owner.
				at := int(w)
				if rnd.IntN(4) == 0 {
					at = owners - 1
				}
				p, o := residency.HiCacheV1, owner(at)
				if at%2 == 0 {
					p = residency.VLLMResidencyV1
				}
				naming.Lock()
				g := r.guest(100*(w+1)+n, o, p, 1+at/2%2, dialects[1])
				naming.Unlock()
				patient := 5 * time.Second
				if rnd.IntN(4) == 0 {
					patient = time.Duration(rnd.IntN(20)) * time.Millisecond
				}
				own, end := context.WithTimeout(ctx, patient)
				_, err := c.Register(own, residency.Registration{ID: g.lease(), Scope: scopeName, Intents: []residency.Intent{g.intent}})
				end()
				for _, pub := range g.shards {
					if err != nil {
						break
					}
					// Mostly heard, sometimes said too early.
					soon, end := context.WithTimeout(ctx, time.Duration(rnd.IntN(4))*200*time.Millisecond)
					_ = pub.pub.WaitSubscribers(soon, 1)
					end()
					for range rnd.IntN(4) {
						pub.send(store(4, "GPU", ""), store(4, "CPU", "kvcr"))
					}
					switch rnd.IntN(6) {
					case 0:
						pub.next++
						pub.send(store(2, "GPU", ""))
					case 1:
						pub.send(event{names: []uint64{7}, tokens: count(1, 64), medium: "GPU", owner: "kvcr"})
					case 2:
						pub.sendRaw([]byte{0xc1})
					}
				}
				if err == nil && rnd.IntN(2) == 0 {
					soon, end := context.WithTimeout(ctx, 100*time.Millisecond)
					_ = r.WaitApplied(soon, g.name(), 0, g.shards[0].next-1)
					end()
				}
				switch rnd.IntN(6) {
				case 0:
					_ = c.Doubt(scopeName, errors.New("test"))
				case 1:
					_ = c.Clear(ctx, scopeName, o, residency.BothDomains)
				case 2:
					_ = c.Forget(ctx, scopeName, o)
				}
				_ = c.Doubt(scopeName, nil)
				if err == nil {
					if err := c.Release(patience(t), g.lease()); err != nil && !errors.Is(err, residency.ErrUnknownLease) {
						t.Errorf("release: %v", err)
					}
				}
				for _, pub := range g.shards {
					pub.pub.Close()
				}
			}
		})
	}
	lives.Wait()
	// After all of that a slot is as good as new.
	last := r.guest(999, owner(0), residency.VLLMResidencyV1, 1, dialects[1]).register()
	last.say(store(4, "CPU", "kvcr"))
	was := hinted.Load()
	await(t, "a hint", func() bool { return hinted.Load() > was })
	last.release()
	stop()
	cancel()
	hints.Wait()
	if n := len(c.Leases()); n != 1 {
		t.Errorf("%d leases are left beside the target's", n-1)
	}
	for _, s := range c.Slots() {
		if s.Source.Scope == scopeName && (s.State != residency.Detached || s.Protocol != residency.VLLMResidencyV1 || s.Flags != 0) {
			t.Errorf("left: %+v", s)
		}
	}
	for _, s := range r.Sources() {
		if s.ID != "1000" {
			t.Errorf("source %s is left", s.ID)
		}
	}
	if err := c.WithdrawHost(patience(t), scopeName, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.WithdrawHost(patience(t), "other", nil); err != nil {
		t.Fatal(err)
	}
	st := r.Stats()
	if n := len(r.owners.slots) + len(r.owners.names) + r.sources.Size() + st.Holders + st.Shards[0].Holders + st.Shards[1].Holders; n > 0 {
		t.Errorf("%d things are left: %+v", n, st)
	}
	if _, err := c.FindHost(ctx, scopeName, 0); err == nil {
		t.Error("the host is still there")
	}
}
