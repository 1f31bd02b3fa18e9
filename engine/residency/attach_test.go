package residency

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestAttach holds §5.1, step by step.
func TestAttach(t *testing.T) {
	t.Run("5.1.1 refused when the worker failed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			reg := registration("w1", intent("a", 1, 11))
			r.register(reg)
			if !r.Fault(r.slotOf("a").Source.Slot, 1, FaultWorker, "test") {
				t.Fatal("the fault was not taken")
			}
			r.settle()
			if s := r.slotOf("a"); s.State != Quarantined || s.Flags != WorkerFailed {
				t.Fatalf("%v %v", s.State, s.Flags)
			}
			if _, err := r.Register(t.Context(), reg); !errors.Is(err, ErrFenced) {
				t.Fatalf("attached again: %v", err)
			}
			if s := r.slotOf("a"); s.Generation != 1 {
				t.Fatalf("generation %d", s.Generation)
			}
		})
	})
	t.Run("5.1.1 refused when attached already", func(t *testing.T) {
		s := &slot{state: Attached}
		if _, err := s.attach(&record{}, nil); !errors.Is(err, errAttached) {
			t.Fatal(err)
		}
	})
	for _, c := range []struct {
		field  string
		change func(*Intent)
	}{
		{"global_dp_rank", func(i *Intent) { i.Worker.Rank = 1 }},
		{"ingress_protocol", func(i *Intent) { i.Protocol = HiCacheV1 }},
	} {
		t.Run("5.1.1 refused for another "+c.field, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.register(registration("w1", durable(intent("a", 1, 11))))
				r.release("w1")
				r.took()
				next := registration("w2", durable(intent("a", 2, 12)))
				c.change(&next.Intents[0])
				_, err := r.Register(t.Context(), next)
				bad, ok := errors.AsType[*ImmutableError](err)
				if !ok || bad.Field != c.field {
					t.Fatalf("%v", err)
				}
				if calls := r.took(); calls != "" {
					t.Fatalf("it came as far as %s", calls)
				}
			})
		})
	}
	t.Run("5.1.2 the worker is cleared before the ingress is opened", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			if calls := r.took(); calls != "build, barrier worker, open, start, advertise" {
				t.Fatal(calls)
			}
			if s := r.slotOf("a"); s.Generation != 1 || s.Attachment.ReadyAt != 1 || s.Attachment.Record != s.Publisher<<32|1 {
				t.Fatalf("%+v", s.Attachment)
			}
		})
	})
	t.Run("5.1.2 engine-local: both domains, ready at the last barrier", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			if calls := r.took(); calls != "build, barrier worker, barrier cache_owner, open, start, advertise" {
				t.Fatal(calls)
			}
			if s := r.slotOf("a"); s.Attachment.ReadyAt != 2 {
				t.Fatalf("ready at %d", s.Attachment.ReadyAt)
			}
		})
	})
	t.Run("5.1.2 each attach is a generation, unready until it is open", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.every(func(rt Route) {
				if rt.Schedulable && !rt.Attached {
					t.Errorf("schedulable without an attachment: %+v", rt)
				}
			})
			reg := registration("w1", durable(intent("a", 1, 11)))
			stop := r.watch(func(n *Routing) string {
				for _, rt := range n.Routes {
					if rt.Schedulable && (rt.State != Attached || !rt.Live || rt.Generation == 0) {
						return "schedulable: " + rt.State.String()
					}
				}
				return ""
			})
			r.plane.during("open", func(context.Context) error {
				if rt := r.route("a"); rt.Schedulable || rt.HintReady && rt.Generation == 1 {
					t.Errorf("ready before the ingress is open: %+v", rt)
				}
				return nil
			})
			for n := range uint64(3) {
				reg.ID, reg.Intents[0].Incarnation = "w"+string(rune('1'+n)), 11+n
				r.register(reg)
				if s := r.slotOf("a"); s.Generation != n+1 || !s.Schedulable {
					t.Fatalf("generation %d", s.Generation)
				}
				r.release(reg.ID)
			}
			stop()
		})
	})
	t.Run("5.1.3 the cursor is reset with the ingress", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			r.plane.set("a", func(s *fakeSlot) {
				if s.open == nil || !s.running || s.open.Generation != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	})
	for _, step := range []string{"build", "barrier worker", "barrier cache_owner", "open", "start", "advertise"} {
		t.Run("5.1.4 a failure is rolled back: "+step, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.plane.fail(step)
				_, err := r.Register(t.Context(), registration("w1", intent("a", 1, 11)))
				e, ok := errors.AsType[*AttachError](err)
				if !ok || !strings.HasPrefix(step, e.Step) {
					t.Fatal(err)
				}
				if rank, ok := errors.AsType[*RankError](err); !ok || rank.Owner != "a" {
					t.Fatalf("the rank is not named: %v", err)
				}
				if err := r.plane.empty(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
	t.Run("5.1.4 a fault while it starts is rolled back", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.plane.during("advertise", func(context.Context) error {
				r.Fault(1, 1, FaultSource, "gap")
				return nil
			})
			if _, err := r.Register(t.Context(), registration("w1", intent("a", 1, 11))); !errors.Is(err, ErrFenced) {
				t.Fatal(err)
			}
		})
	})
	t.Run("5.1.4 a listener that ends while it starts is rolled back", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.plane.during("advertise", func(context.Context) error {
				r.Ended(1, 1, errors.New("frames"))
				return nil
			})
			_, err := r.Register(t.Context(), registration("w1", intent("a", 1, 11)))
			if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "frames") {
				t.Fatal(err)
			}
		})
	})
}

// TestFailures holds §5.3: what each trigger does, and that it has done so when
// the report returns.
func TestFailures(t *testing.T) {
	attached := func(r *rig, i Intent) SlotID {
		r.register(registration("w1", i))
		r.took()
		return r.slotOf(i.Owner).Source.Slot
	}
	t.Run("5.3.1 fence", func(t *testing.T) {
		for _, i := range []Intent{intent("a", 1, 11), durable(intent("a", 1, 11))} {
			inBubble(t, func(t *testing.T, r *rig) {
				id := attached(r, i)
				r.plane.set("a", func(s *fakeSlot) { s.blocks[WorkerDomain], s.blocks[CacheOwnerDomain] = 4, 4 })
				r.Fault(id, 1, FaultSource, "gap")
				// Now, not when the keeper comes to it.
				rt := r.route("a")
				if rt.State != Fenced || rt.Flags != WorkerFailed|CacheOwnerFailed|SourceFailed || rt.Schedulable || rt.HintReady || rt.CacheOwnerReady {
					t.Fatalf("%+v", rt)
				}
				r.plane.set("a", func(s *fakeSlot) {
					if !s.fenced || s.blocks[WorkerDomain]+s.blocks[CacheOwnerDomain] > 0 {
						t.Fatalf("%+v", s)
					}
				})
				r.settle()
				if calls := r.took(); calls != "withdraw, stop" {
					t.Fatal(calls)
				}
				s := r.slotOf("a")
				if s.State != Fenced || s.Attachment != nil || !s.Failed || !strings.Contains(s.Reason, "gap") {
					t.Fatalf("%+v", s)
				}
				r.plane.set("a", func(s *fakeSlot) {
					if s.running || len(s.records) > 0 || s.drained[0] != 0 {
						t.Fatalf("%+v", s)
					}
				})
				// Terminal until the worker restarts, who gets a new slot.
				r.release("w1")
				again := i
				again.Incarnation = 12
				r.register(registration("w2", again))
				if s := r.slotOf("a"); s.Source.Slot == id || s.Generation != 1 || s.Flags != 0 || !s.Schedulable {
					t.Fatalf("%+v", s)
				}
			})
		}
	})
	t.Run("5.3.1 a restarted worker need not wait for the fenced one's lease", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			id := attached(r, intent("a", 1, 11))
			r.Fault(id, 1, FaultSource, "gap")
			done := r.goes(t.Context(), registration("w2", intent("a", 2, 12)))
			r.settle()
			r.release("w1")
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if s := r.slotOf("a"); s.Source.Slot == id || !s.Schedulable {
				t.Fatalf("%+v", s)
			}
		})
	})
	t.Run("5.3.2 cache-owner fault", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			id := attached(r, durable(intent("a", 1, 11)))
			r.Fault(id, 1, FaultCacheOwner, "block size")
			rt := r.route("a")
			if rt.State != Quarantined || rt.Flags != CacheOwnerFailed || rt.CacheOwnerReady || rt.HintReady || rt.Schedulable {
				t.Fatalf("%+v", rt)
			}
			r.settle()
			r.plane.set("a", func(s *fakeSlot) {
				if s.running || s.drained[0] != 0 {
					t.Fatalf("what a failed owner says is heard: %+v", s)
				}
			})
			// Nothing but a new slot recovers it.
			r.release("w1")
			r.register(registration("w2", durable(intent("a", 1, 12))))
			if s := r.slotOf("a"); s.Source.Slot == id || !s.CacheOwnerReady {
				t.Fatalf("%+v", s)
			}
		})
	})
	t.Run("5.3.2 the cache owner cannot be cleared", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			attached(r, intent("a", 1, 11))
			r.every(func(rt Route) {
				if rt.Flags&CacheOwnerFailed != 0 && (rt.CacheOwnerReady || rt.State == Attached) {
					t.Errorf("%+v", rt)
				}
			})
			r.plane.fail("barrier cache_owner")
			if err := r.Release(t.Context(), "w1"); err == nil || !strings.Contains(err.Error(), "cache_owner clear") {
				t.Fatal(err)
			}
			if err := r.plane.empty(); err != nil { // nothing of it can be shown any more
				t.Fatal(err)
			}
		})
	})
	t.Run("5.3.3 the worker cannot be cleared", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			id := attached(r, durable(intent("a", 1, 11)))
			r.plane.fail("barrier worker")
			done := r.goes(t.Context(), registration("w2", durable(intent("a", 2, 12))))
			r.settle()
			if s := r.slotOf("a"); s.Flags != WorkerFailed || s.State != Detached {
				t.Fatalf("%v %v", s.State, s.Flags)
			}
			r.plane.during("barrier worker", nil)
			if err := r.Release(t.Context(), "w1"); err == nil || !strings.Contains(err.Error(), "worker clear") {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if s := r.slotOf("a"); s.Source.Slot == id {
				t.Fatal("a slot whose worker failed was attached again")
			}
		})
	})
	t.Run("5.3.4 quarantine and recovery", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			reg := registration("w1", durable(intent("a", 1, 11)))
			r.register(reg)
			id := r.slotOf("a").Source.Slot
			r.took()
			r.Ended(id, 1, errors.New("frame count 4"))
			if rt := r.route("a"); rt.State != Quarantined || rt.Flags != 0 || rt.Schedulable {
				t.Fatalf("%+v", rt)
			}
			r.settle()
			if calls := r.took(); calls != "withdraw, stop" {
				t.Fatal(calls)
			}
			s := r.slotOf("a")
			if s.State != Quarantined || s.Attachment != nil || !strings.Contains(s.Reason, "frame count 4") {
				t.Fatalf("%+v", s)
			}
			r.plane.set("a", func(s *fakeSlot) {
				if s.drained[0] != CacheOwnerDomain {
					t.Errorf("drained %v", s.drained)
				}
			})
			if _, err := r.Renew("w1"); err != nil { // a renewal asks for nothing
				t.Fatal(err)
			}
			r.settle()
			if s := r.slotOf("a"); s.State != Quarantined {
				t.Fatalf("%v", s.State)
			}
			r.register(reg) // registering again does: detach, attach
			if calls := r.took(); calls != "barrier worker, barrier worker, open, start, advertise" {
				t.Fatal(calls)
			}
			if s := r.slotOf("a"); s.Source.Slot != id || s.Generation != 2 || !s.Schedulable {
				t.Fatalf("%+v", s)
			}
		})
	})
	t.Run("5.3.4 withdrawal is retried, 100 ms doubling to 5 s", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			id := attached(r, intent("a", 1, 11))
			left := 9
			r.plane.during("withdraw", func(context.Context) error {
				if left--; left >= 0 {
					return errors.New("the store is away")
				}
				return nil
			})
			start := now()
			r.Ended(id, 1, nil)
			r.until("the withdrawal", func() bool { return r.slotOf("a").Attachment == nil })
			// 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 5 + 5 + 5
			if took := now().Sub(start).Seconds(); took < 21.3 || took > 21.4 {
				t.Fatalf("took %.2f s", took)
			}
		})
	})
}

// TestStaleGeneration: what an older generation reports is counted and ignored.
func TestStaleGeneration(t *testing.T) {
	t.Run("R12 reports of an older generation", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			reg := registration("w1", durable(intent("a", 1, 11)))
			r.register(reg)
			id := r.slotOf("a").Source.Slot
			r.release("w1")
			reg.ID, reg.Intents[0].Incarnation = "w2", 12
			r.register(reg)
			before := r.Routing()
			if r.Fault(id, 1, FaultSource, "late") || r.Ended(id, 1, nil) || r.Fault(id, 3, FaultSource, "early") || r.Fault(id+7, 1, FaultSource, "nobody") {
				t.Fatal("a stale report was taken")
			}
			if r.Routing() != before {
				t.Fatal("a stale report changed the routing")
			}
			if s := r.slotOf("a"); s.StaleReports != 3 || !s.Schedulable {
				t.Fatalf("%d stale reports counted", s.StaleReports)
			}
		})
	})
}

// TestDetach holds §5.4.
func TestDetach(t *testing.T) {
	t.Run("5.4.1 detach, durable", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			r.plane.set("a", func(s *fakeSlot) { s.blocks[WorkerDomain], s.blocks[CacheOwnerDomain] = 4, 4 })
			r.took()
			r.plane.during("withdraw", func(context.Context) error {
				if rt := r.route("a"); rt.Schedulable || rt.Live {
					t.Errorf("still routed while it is withdrawn: %+v", rt)
				}
				return nil
			})
			r.release("w1")
			if calls := r.took(); calls != "withdraw, stop, barrier worker" {
				t.Fatal(calls)
			}
			r.plane.set("a", func(s *fakeSlot) {
				if s.blocks[WorkerDomain] != 0 || s.blocks[CacheOwnerDomain] != 4 || s.drained[0] != CacheOwnerDomain {
					t.Fatalf("%+v", s)
				}
			})
			if rt := r.route("a"); rt.State != Detached || !rt.HintReady || rt.Schedulable || rt.Outcome != Unavailable || rt.Worker != (Worker{}) {
				t.Fatalf("%+v", rt)
			}
		})
	})
	t.Run("5.4.1 detach, engine-local", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			r.took()
			r.release("w1")
			if calls := r.took(); calls != "withdraw, stop, barrier worker, barrier cache_owner, remove" {
				t.Fatal(calls)
			}
		})
	})
	t.Run("5.4.1 a listener that does not stop is cut off after 2 s", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			r.plane.during("stop", func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			start := now()
			err := r.Release(t.Context(), "w1")
			if took := now().Sub(start); took != DefaultStopTimeout || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("took %v: %v", took, err)
			}
			if s := r.slotOf("a"); s.State != Detached {
				t.Fatal(s.State)
			}
		})
	})
	t.Run("5.4.2 shutdown", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			r.took()
			r.every(func(rt Route) {
				if rt.Schedulable || rt.HintReady {
					t.Errorf("routed while it shuts down: %+v", rt)
				}
			})
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if calls := r.took(); calls != "withdraw, stop, barrier worker, remove" {
				t.Fatal(calls)
			}
			if _, err := r.Register(t.Context(), registration("w2", intent("b", 1, 21))); !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
			if err := r.OpenHost(Host{Scope: "t", Instance: 1}); !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
			if _, err := r.FindHost(t.Context(), "s", 0); !errors.Is(err, ErrClosed) {
				t.Fatal(err)
			}
		})
	})
	t.Run("5.4.2 shutdown is bounded", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			r.plane.fail("withdraw")
			ctx, cancel := context.WithTimeout(t.Context(), 3*second)
			defer cancel()
			if err := r.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			r.plane.mu.Lock()
			r.plane.slots = map[SlotID]*fakeSlot{} // cut off: the plane ends next
			r.plane.mu.Unlock()
		})
	})
}
