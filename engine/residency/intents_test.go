package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine/identity"
)

// TestIntents holds §6: what follows from the live intents of an owner.
func TestIntents(t *testing.T) {
	t.Run("6.1 none, durable: the slot is kept, detached, and counts", func(t *testing.T) {
		inBubbleOf(t, Options{}, 1, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			id := r.slotOf("a").Source.Slot
			r.release("w1")
			if s := r.slotOf("a"); s.Source.Slot != id || s.State != Detached {
				t.Fatalf("%+v", s)
			}
			_, err := r.Register(t.Context(), registration("w2", durable(intent("b", 2, 12))))
			full, ok := errors.AsType[*CapacityError](err)
			if !ok || full.Scope != "s" || full.MaxSlots != 1 || full.Owner != "b" {
				t.Fatal(err)
			}
			if h := r.Hosts()[0]; h.Detached != 1 || h.Total != 1 || h.CapacityRejected != 1 || h.Publishers != 1 {
				t.Fatalf("%+v", h)
			}
			if err := r.Forget(t.Context(), "s", "a"); err != nil {
				t.Fatal(err)
			}
			r.register(registration("w2", durable(intent("b", 2, 12))))
		})
	})
	t.Run("6.1 none, engine-local: the slot is removed and its socket given back", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			r.release("w1")
			if err := r.plane.empty(); err != nil {
				t.Fatal(err)
			}
			if h := r.Hosts()[0]; h.Total != 0 || h.Publishers != 0 {
				t.Fatalf("%+v", h)
			}
		})
	})
	t.Run("R11 no intents: engine-local released, durable kept", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11), durable(intent("b", 1, 12))))
			r.release("w1")
			if all := r.Slots(); len(all) != 1 || all[0].Source.Owner != "b" || !all[0].HintReady {
				t.Fatalf("%+v", all)
			}
		})
	})
	t.Run("6.1 none, never built: removed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.plane.fail("build")
			if _, err := r.Register(t.Context(), registration("w1", durable(intent("a", 1, 11)))); err == nil {
				t.Fatal("built")
			}
			if h := r.Hosts()[0]; h.Total != 0 || h.Publishers != 0 {
				t.Fatalf("%+v", h)
			}
		})
	})
	t.Run("6.2 one: created, over capacity rejected and counted", func(t *testing.T) {
		inBubbleOf(t, Options{}, 2, func(t *testing.T, r *rig) {
			_, err := r.Register(t.Context(), registration("w1", intent("a", 1, 11), intent("b", 1, 12), intent("c", 1, 13)))
			if rank, ok := errors.AsType[*RankError](err); !ok || rank.Rank != 2 || rank.Owner != "c" {
				t.Fatal(err)
			}
			if calls := r.took(); calls != "" {
				t.Fatalf("something was begun: %s", calls)
			}
			r.host("other", 1) // a limit is a scope's own
			reg := registration("w2", intent("a", 1, 11))
			reg.Scope = "other"
			r.register(reg)
			r.register(registration("w3", intent("d", 1, 14), intent("e", 1, 15)))
			for _, h := range r.Hosts() {
				want := uint64(0)
				if h.Scope == "s" {
					want = 1
				}
				if h.CapacityRejected != want || h.Active != h.MaxSlots {
					t.Errorf("%+v", h)
				}
			}
		})
	})
	for _, c := range []struct {
		field  string
		change func(*Intent)
	}{
		{"global_dp_rank", func(i *Intent) { i.Worker.Rank = 1 }},
		{"kv_state_endpoint", func(i *Intent) { i.KVStateEndpoint = "other" }},
		{"indexer_domain_id", func(i *Intent) { i.Domain = "other" }},
		{"kv_block_size", func(i *Intent) { i.BlockSize = 16 }},
		{"ingress_protocol", func(i *Intent) { i.Protocol = HiCacheV1 }},
		{"model", func(i *Intent) { i.Model = "other" }},
		{"shards", func(i *Intent) { i.Endpoints = append(i.Endpoints, "tcp://10.0.0.2:5557") }},
	} {
		t.Run("6.2 one: immutable "+c.field, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.register(registration("w1", durable(intent("a", 1, 11))))
				before := r.route("a")
				reg := Registration{ID: "w2", Scope: "s", Intents: []Intent{durable(intent("a", 2, 12))}}
				c.change(&reg.Intents[0])
				_, err := r.Register(t.Context(), reg)
				bad, ok := errors.AsType[*ImmutableError](err)
				if !ok || bad.Field != c.field || bad.Have == bad.Got {
					t.Fatal(err)
				}
				// Who is attached takes no harm, and neither does who comes back.
				if r.route("a") != before {
					t.Fatalf("%+v", r.route("a"))
				}
			})
		})
	}
	t.Run("6.2 one: the same again is no change", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			reg := registration("w1", intent("a", 1, 11))
			reg.TTL = DefaultLease
			r.register(reg)
			before := r.Routing()
			r.took()
			time.Sleep(10 * time.Second)
			lease, err := r.Register(t.Context(), reg)
			if err != nil || lease.Expires != now().Add(DefaultLease) {
				t.Fatal(lease, err)
			}
			if calls := r.took(); calls != "" || r.Routing() != before {
				t.Fatalf("something was done: %s", calls)
			}
		})
	})
	t.Run("6.2 one: another incarnation: detach, attach", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			done := r.goes(t.Context(), registration("w2", durable(intent("a", 2, 12))))
			r.settle()
			r.took()
			r.release("w1")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if s := r.slotOf("a"); s.Route.Worker != (Worker{ID: 2}) || s.Generation != 2 || !s.Schedulable {
				t.Fatalf("%+v", s)
			}
		})
	})
	t.Run("6.3 more: ambiguous, detached, failed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			seen := false
			r.every(func(rt Route) {
				seen = seen || rt.Outcome == AmbiguousAttachment
				if rt.Outcome == AmbiguousAttachment && (rt.Schedulable || rt.HintReady) {
					t.Errorf("%+v", rt)
				}
			})
			done := r.goes(t.Context(), registration("w2", durable(intent("a", 2, 12))))
			r.settle()
			s := r.slotOf("a")
			if !seen || s.State != Detached || s.Outcome != AmbiguousAttachment || !s.Failed || !slices.Equal(s.Intents, []uint64{11, 12}) {
				t.Fatalf("%+v", s)
			}
			r.plane.set("a", func(s *fakeSlot) { // entries are kept
				if len(s.cleared) != 2 || s.cleared[1] != WorkerDomain {
					t.Errorf("cleared %v", s.cleared)
				}
			})
			err := <-done // who came second gives up first
			both, ok := errors.AsType[*AmbiguousError](err)
			if !ok || !slices.Equal(both.Incarnations, []uint64{11, 12}) {
				t.Fatal(err)
			}
			r.settle()
			if s := r.slotOf("a"); !s.Schedulable || s.Route.Worker.ID != 1 || s.Generation != 2 {
				t.Fatalf("the first was not attached again: %+v", s)
			}
		})
	})
	t.Run("6.3 more: registering the same again says who is out", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			first := registration("w1", intent("a", 1, 11))
			r.register(first)
			second := r.goes(t.Context(), registration("w2", intent("a", 2, 12)))
			r.settle()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			l, err := r.Register(ctx, first)
			if !errors.Is(err, context.DeadlineExceeded) || !slices.Equal(l.Out, []OwnerID{"a"}) {
				t.Fatalf("%+v, %v", l, err)
			}
			third, fourth := r.goes(t.Context(), first), r.goes(t.Context(), first)
			r.settle()
			r.release("w1")
			for _, done := range []chan error{third, fourth} {
				if err := <-done; !errors.Is(err, ErrReleased) {
					t.Fatal(err)
				}
			}
			if err := <-second; err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("6.3 more: not waited for if so configured", func(t *testing.T) {
		inBubbleOf(t, Options{AmbiguityWait: -1}, 2, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			start := now()
			_, err := r.Register(t.Context(), registration("w2", intent("a", 2, 12)))
			if _, ok := errors.AsType[*AmbiguousError](err); !ok || now() != start {
				t.Fatal(now().Sub(start), err)
			}
		})
	})
	t.Run("6.4 sockets are counted, released at zero and used again", func(t *testing.T) {
		inBubbleOf(t, Options{SlotsPerPublisher: 2}, 5, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11), intent("b", 1, 12), intent("c", 1, 13)))
			if n := r.Hosts()[0].Publishers; n != 2 {
				t.Fatalf("%d sockets for 3 slots, 2 a socket", n)
			}
			if a, b, c := r.slotOf("a").Publisher, r.slotOf("b").Publisher, r.slotOf("c").Publisher; a != b || b == c {
				t.Fatal(a, b, c)
			}
			shared := r.slotOf("a").Publisher
			r.release("w1")
			if n := r.Hosts()[0].Publishers; n != 0 {
				t.Fatalf("%d sockets are left", n)
			}
			r.register(registration("w2", intent("a", 1, 14)))
			if got := r.slotOf("a").Publisher; got != shared {
				t.Fatalf("socket %d, %d was free", got, shared)
			}
		})
	})
	t.Run("R1 slot leak", func(t *testing.T) {
		inBubbleOf(t, Options{}, 1, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			r.release("w1")
			r.register(registration("w2", intent("b", 2, 12)))
		})
	})
	t.Run("R2 socket leak", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			var used [2]uint64
			for n := range used {
				id := fmt.Sprint("w", n)
				r.register(registration(id, intent("a", 1, uint64(11+n))))
				used[n] = r.slotOf("a").Publisher
				r.release(id)
				if open := r.Hosts()[0].Publishers; open != 0 {
					t.Fatalf("%d sockets after cycle %d", open, n)
				}
			}
			if used[0] != used[1] {
				t.Fatalf("sockets %v", used)
			}
		})
	})
	t.Run("6.5 host withdrawal", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			r.register(registration("w2", durable(intent("b", 2, 12))))
			r.release("w2") // detached, kept
			pending := make(chan struct{})
			r.took()
			gone := make(chan error, 1)
			r.plane.during("withdraw", func(context.Context) error { <-pending; return nil })
			go func() { gone <- r.WithdrawHost(t.Context(), "s", errors.New("the watch ended")) }()
			r.settle()
			for _, o := range []OwnerID{"a", "b"} { // while it is under way
				if rt := r.route(o); rt != nil && (rt.Schedulable || rt.HintReady || rt.Outcome != WatchUncertain) {
					t.Fatalf("%+v", rt)
				}
			}
			if h := r.Hosts()[0]; h.Healthy || !strings.Contains(h.Error, "the watch ended") {
				t.Fatalf("%+v", h)
			}
			if _, err := r.Register(t.Context(), registration("w3", intent("c", 3, 13))); !errors.Is(err, ErrNoHost) {
				t.Fatal(err)
			}
			close(pending)
			if err := <-gone; err != nil {
				t.Fatal(err)
			}
			if len(r.Hosts())+len(r.Slots())+len(r.Leases())+len(r.Routing().Routes) > 0 {
				t.Fatal("something is left")
			}
			if _, err := r.Renew("w1"); !errors.Is(err, ErrUnknownLease) {
				t.Fatal(err)
			}
			r.host("s", 1) // its place is free
		})
	})
	t.Run("6.5 host withdrawal ends registrations under way", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			open := make(chan struct{})
			r.plane.during("open", func(ctx context.Context) error {
				close(open)
				<-ctx.Done()
				return ctx.Err()
			})
			done := r.goes(t.Context(), registration("w1", intent("a", 1, 11)))
			<-open
			if err := r.WithdrawHost(t.Context(), "s", nil); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, ErrHostWithdrawn) {
				t.Fatal(err)
			}
		})
	})
	for _, c := range []struct {
		field  string
		change func(*Intent)
	}{
		{"cache_owner_id", func(i *Intent) { i.Owner = "z" }},
		{"producer_instance", func(i *Intent) { i.Producer = 77 }},
		{"worker.id", func(i *Intent) { i.Worker.ID = 77 }},
		{"raw_zmq_endpoint", func(i *Intent) { i.Endpoints = []string{"tcp://10.9.9.9:1"} }},
		{"raw_replay_endpoint", func(i *Intent) { i.Replays = []string{"tcp://10.9.9.9:2"} }},
		{"raw_topic", func(i *Intent) { i.Topic = "other" }},
		{"image_token_id", func(i *Intent) { n := uint32(5); i.ImageToken = &n }},
		{"router_hint_source", func(i *Intent) { i.Hint = nil }},
		{"kv_block_size", func(i *Intent) { i.BlockSize = 16 }},
	} {
		t.Run("6.6 a known intent with another "+c.field+" is rejected without harm", func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				reg := registration("w1", intent("a", 1, 11))
				r.register(reg)
				before := r.Routing()
				for _, id := range []string{"w1", "w2"} { // under its own name, and another
					again := registration(id, intent("a", 1, 11))
					c.change(&again.Intents[0])
					_, err := r.Register(t.Context(), again)
					bad, ok := errors.AsType[*ChangedError](err)
					if !ok || bad.Field != c.field || bad.Incarnation != 11 {
						t.Fatal(err)
					}
				}
				if r.Routing() != before {
					t.Fatal("the routing changed")
				}
				if _, err := r.Register(t.Context(), reg); err != nil { // stored as it was
					t.Fatal(err)
				}
			})
		})
	}
	t.Run("6.6 a known intent of another registration is rejected", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			_, err := r.Register(t.Context(), registration("w2", intent("a", 1, 11)))
			if bad, ok := errors.AsType[*ChangedError](err); !ok || bad.Field != "registration" || bad.Have != "w1" {
				t.Fatal(err)
			}
		})
	})
	t.Run("6.6 another range under a known registration is rejected", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			_, err := r.Register(t.Context(), registration("w1", intent("a", 1, 11), intent("b", 1, 12)))
			if bad, ok := errors.AsType[*FieldError](err); !ok || bad.Field != "intents" {
				t.Fatal(err)
			}
		})
	})
	t.Run("6.7 reattach with new hint metadata shows no stale hint", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			r.release("w1")
			old := "tcp://10.0.0.1:23280"
			if h := r.route("a").Hint; h == nil || h.ControlEndpoint != old {
				t.Fatalf("a detached owner serves by %+v", h)
			}
			r.every(func(rt Route) {
				if rt.Generation == 2 && rt.Hint != nil && rt.Hint.ControlEndpoint == old {
					t.Errorf("stale: %+v", rt)
				}
			})
			next := durable(intent("a", 2, 12))
			next.Hint = &HintSource{ControlEndpoint: "tcp://10.0.0.2:23280", WorkerType: "decode"}
			r.register(registration("w2", next))
			if h := r.route("a").Hint; h.ControlEndpoint != "tcp://10.0.0.2:23280" || h.WorkerType != "decode" {
				t.Fatalf("%+v", h)
			}
			r.release("w2")
			none := durable(intent("a", 3, 13))
			none.Hint = nil
			r.register(registration("w3", none))
			if rt := r.route("a"); rt.Hint != nil || rt.HintReady {
				t.Fatalf("%+v", rt)
			}
		})
	})
	t.Run("6.8 status", func(t *testing.T) {
		inBubbleOf(t, Options{}, 4, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			r.register(registration("w2", durable(intent("b", 2, 12))))
			r.register(registration("w3", intent("c", 3, 13)))
			r.release("w2")
			r.Fault(r.slotOf("c").Source.Slot, 1, FaultSource, "gap")
			r.settle()
			time.Sleep(3 * time.Second)
			if h := r.Hosts()[0]; !h.Healthy || h.Total != 3 || h.Active != 1 || h.Detached != 1 || h.Failed != 1 {
				t.Fatalf("%+v", h)
			}
			if s := r.slotOf("a"); s.Lease != "w1" || s.LeaseAge != 3*time.Second || s.Attaches != 1 || s.Attachment.Incarnation != 11 {
				t.Fatalf("%+v", s)
			}
			r.Ended(r.slotOf("a").Source.Slot, 1, nil)
			r.settle()
			if h := r.Hosts()[0]; h.Attaches != 3 || h.Fences != 1 || h.Quarantines != 1 {
				t.Fatalf("%+v", h)
			}
			for id, out := range map[string]OwnerID{"w1": "a", "w3": "c"} { // what a renewal tells the worker
				if l, err := r.Renew(id); err != nil || !slices.Equal(l.Out, []OwnerID{out}) {
					t.Fatalf("%+v, %v", l, err)
				}
			}
			if _, err := r.Register(t.Context(), registration("w1", durable(intent("a", 1, 11)))); err != nil {
				t.Fatal(err)
			}
			if l, err := r.Renew("w1"); err != nil || len(l.Out) > 0 {
				t.Fatalf("%+v, %v", l, err)
			}
			time.Sleep(3 * time.Second)
			if l := r.Leases(); len(l) != 2 || l[0].ID != "w1" || !l[0].Complete || l[0].Age != 6*time.Second {
				t.Fatalf("%+v", l)
			}
		})
	})
	t.Run("6.9 discovery: exactly one host", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			if err := r.OpenHost(Host{Scope: "s", Instance: 10}); !errors.Is(err, ErrHostExists) {
				t.Fatalf("a second host: %v", err)
			}
			if h, err := r.FindHost(t.Context(), "s", 0); err != nil || h.Instance != hostInstance {
				t.Fatal(h, err)
			}
			if _, err := r.FindHost(t.Context(), "none", 0); !errors.Is(err, ErrNoHost) {
				t.Fatal(err)
			}
			start := now()
			if _, err := r.FindHost(t.Context(), "none", 30*time.Second); !errors.Is(err, ErrNoHost) || now().Sub(start) != 30*time.Second {
				t.Fatal(now().Sub(start), err)
			}
			found := make(chan Host)
			go func() {
				h, _ := r.FindHost(t.Context(), "late", 30*time.Second)
				found <- h
			}()
			time.Sleep(10 * time.Second)
			r.host("late", 1)
			if h := <-found; h.Scope != "late" {
				t.Fatalf("%+v", h)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := r.FindHost(ctx, "none", time.Second); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		})
	})
	t.Run("6.9 an intent for another life of the host is refused", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			reg := registration("w1", intent("a", 1, 11))
			reg.Intents[0].TargetHost = 7
			_, err := r.Register(t.Context(), reg)
			if bad, ok := errors.AsType[*HostMismatchError](err); !ok || bad.Got != 7 || bad.Have != hostInstance {
				t.Fatal(err)
			}
		})
	})
}

// TestRegistrationIsChecked holds what no registration may say, whatever is
// registered.
func TestRegistrationIsChecked(t *testing.T) {
	for _, c := range []struct {
		name, field string
		change      func(*Registration)
	}{
		{"no id", "id", func(g *Registration) { g.ID = "" }},
		{"no ranks", "intents", func(g *Registration) { g.Intents = nil }},
		{"no owner", "intents[0].cache_owner_id", func(g *Registration) { g.Intents[0].Owner = "" }},
		{"framework", "intents[1].ingress_protocol", func(g *Registration) { g.Intents[1].Protocol = FrameworkV1 }},
		{"no incarnation", "intents[0].intent_incarnation", func(g *Registration) { g.Intents[0].Incarnation = 0 }},
		{"incarnation of 54 bits", "intents[0].intent_incarnation", func(g *Registration) { g.Intents[0].Incarnation = 1 << 53 }},
		{"a rank beyond all", "intents[1].worker.rank", func(g *Registration) { g.Intents[1].Worker.Rank = maxRanks }},
		{"no model", "intents[0].model", func(g *Registration) { g.Intents[0].Model = "" }},
		{"no block size", "intents[0].kv_block_size", func(g *Registration) { g.Intents[0].BlockSize = 0 }},
		{"no endpoint", "intents[1].raw_zmq_endpoint", func(g *Registration) { g.Intents[1].Endpoints = nil }},
		{"a replay endpoint too many", "intents[1].raw_replay_endpoint", func(g *Registration) { g.Intents[1].Replays = []string{"tcp://h:1", "tcp://h:2"} }},
		{"a rank twice", "intents[1].worker.rank", func(g *Registration) { g.Intents[1].Worker.Rank = 0 }},
		{"an owner twice", "intents[1].cache_owner_id", func(g *Registration) { g.Intents[1].Owner = "a" }},
		{"an incarnation twice", "intents[1].intent_incarnation", func(g *Registration) { g.Intents[1].Incarnation = 11 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := registration("w1", intent("a", 1, 11), intent("b", 1, 12))
			c.change(&g)
			bad, ok := errors.AsType[*FieldError](g.check())
			if !ok || bad.Field != c.field || bad.Want == "" {
				t.Fatal(g.check())
			}
		})
	}
	t.Run("R9 protocol matrix", func(t *testing.T) {
		for _, c := range []struct {
			wire   string
			owned  bool
			parsed bool
		}{{"vllm_residency_v1", true, true}, {"sglang_hicache_v1", true, true}, {"sglang_hi_cache_v1", true, true}, {"framework_v1", false, true}, {"other", false, false}} {
			p, ok := identity.ParseProtocol(c.wire)
			if ok != c.parsed || p.Owned() != c.owned {
				t.Errorf("%s: %v, %v", c.wire, p, ok)
			}
			g := registration("w1", intent("a", 1, 11))
			g.Intents[0].Protocol = p
			if err := g.check(); (err == nil) != c.owned {
				t.Errorf("%s: a registration with it: %v", c.wire, err)
			}
		}
	})
}
