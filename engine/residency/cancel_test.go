package residency

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// attachSteps are the plane's calls of an engine-local attach, in their order.
var attachSteps = []string{"build", "barrier worker", "barrier cache_owner", "open", "start", "advertise"}

var errMine = errors.New("the worker's start-up failed")

// TestCancellation holds §8: wherever a start is cut off, nothing is left, and
// the first error is what the caller sees.
func TestCancellation(t *testing.T) {
	// The context ends in every step of each of two ranks: while the step waits,
	// and at its end though it succeeds.
	for rank := range 2 {
		for _, step := range attachSteps {
			if rank == 1 && step == "barrier cache_owner" {
				continue // it is durable, and has no such step
			}
			for _, late := range []bool{false, true} {
				name := fmt.Sprintf("8.4 cancelled in %s of rank %d", step, rank)
				if late {
					name += ", which succeeds"
				}
				t.Run(name, func(t *testing.T) {
					inBubble(t, func(t *testing.T, r *rig) {
						ctx, cancel := context.WithCancelCause(t.Context())
						calls := 0
						r.plane.during(step, func(in context.Context) error {
							if calls++; calls != rank+1 {
								return nil
							}
							cancel(errMine)
							if late {
								return nil
							}
							<-in.Done()
							return in.Err()
						})
						_, err := r.Register(ctx, registration("w1", intent("a", 1, 11), durable(intent("b", 1, 12))))
						e, ok := errors.AsType[*RegisterError](err)
						if !ok || e.First != errMine || len(e.Secondary) > 0 {
							t.Fatalf("%v", err)
						}
						// When Register returns, not some time later.
						if err := r.plane.empty(); err != nil {
							t.Fatal(err)
						}
						if h := r.Hosts()[0]; len(r.Leases())+h.Total+h.Publishers > 0 || len(r.scopes["s"].keepers)+len(r.scopes["s"].intents) > 0 {
							t.Fatalf("left: %+v", h)
						}
					})
				})
			}
		}
	}
	t.Run("8.4 cancelled before it began", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errMine)
			if _, err := r.Register(ctx, registration("w1", intent("a", 1, 11))); !errors.Is(err, errMine) {
				t.Fatal(err)
			}
			if calls := r.took(); calls != "" {
				t.Fatal(calls)
			}
		})
	})
	t.Run("R4 cancelled start", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancelCause(t.Context())
			r.every(func(rt Route) {
				if rt.Live { // all is registered, nothing handed over
					cancel(errMine)
				}
			})
			_, err := r.Register(ctx, registration("w1", intent("a", 1, 11)))
			if e, ok := errors.AsType[*RegisterError](err); !ok || e.First != errMine {
				t.Fatal(err)
			}
			if err := r.plane.empty(); err != nil || len(r.scopes["s"].intents)+len(r.Leases()) > 0 {
				t.Fatal("an intent is left", err)
			}
		})
	})
	t.Run("R5 late start failure", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			ctx, cancel := context.WithCancelCause(t.Context())
			late := errors.New("the socket could not be made")
			r.plane.during("open", func(context.Context) error {
				cancel(errMine)
				r.settleIn()
				return late
			})
			_, err := r.Register(ctx, registration("w1", intent("a", 1, 11)))
			e, ok := errors.AsType[*RegisterError](err)
			if !ok || e.First != errMine {
				t.Fatal(err)
			}
			// Consumed: it is told, behind the first, and undone already.
			if len(e.Secondary) > 1 || len(e.Secondary) == 1 && !errors.Is(e.Secondary[0], late) {
				t.Fatalf("%v", e.Secondary)
			}
		})
	})
	t.Run("R6 cleanup masks worker error", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.plane.fail("withdraw") // for ever: the clean-up gives up after its time
			err := r.Serve(t.Context(), registration("w1", intent("a", 1, 11)), func(context.Context) error { return errMine })
			e, ok := errors.AsType[*RegisterError](err)
			if !ok || e.First != errMine || !strings.HasPrefix(err.Error(), `residency: registration "w1": `+errMine.Error()) {
				t.Fatal(err)
			}
			if len(e.Secondary) != 1 {
				t.Fatalf("%v", e.Secondary)
			}
			r.until("the slot to be gone", func() bool { return len(r.Slots()) == 0 })
		})
	})
	t.Run("8.4 a clean-up error stands behind a rank's own", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.plane.during("start", func(context.Context) error { return errMine })
			r.plane.fail("withdraw")
			_, err := r.Register(t.Context(), registration("w1", intent("a", 1, 11)))
			e, ok := errors.AsType[*RegisterError](err)
			if !ok || !errors.Is(e.First, errMine) {
				t.Fatal(err)
			}
			r.until("the slot to be gone", func() bool { return len(r.Slots()) == 0 })
		})
	})
	t.Run("8.1 ranks attach in their order and are undone in reverse", func(t *testing.T) {
		inBubbleOf(t, Options{}, 3, func(t *testing.T, r *rig) {
			n := 0
			r.plane.during("advertise", func(context.Context) error {
				if n++; n == 3 {
					return errMine
				}
				return nil
			})
			reg := registration("w1", intent("c", 1, 13), intent("a", 1, 11), intent("b", 1, 12))
			reg.Intents[0].Worker.Rank, reg.Intents[1].Worker.Rank, reg.Intents[2].Worker.Rank = 2, 0, 1
			_, err := r.Register(t.Context(), reg)
			if rank, ok := errors.AsType[*RankError](err); !ok || rank.Rank != 2 || rank.Owner != "c" || !errors.Is(err, errMine) {
				t.Fatal(err)
			}
			var starts, ends []string
			for _, call := range r.plane.trail {
				if o, ok := strings.CutPrefix(call, "start "); ok {
					starts = append(starts, o)
				}
				// The record that failed may have landed: it is withdrawn, too.
				if o, ok := strings.CutPrefix(call, "withdraw "); ok {
					ends = append(ends, o)
				}
			}
			if !slices.Equal(starts, []string{"a", "b", "c"}) || !slices.Equal(ends, []string{"c", "b", "a"}) {
				t.Fatal(starts, ends)
			}
		})
	})
	t.Run("8.1 nothing of a registration is routed before all of it is", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			for _, fails := range []bool{true, false} {
				n := 0
				r.plane.during("advertise", func(context.Context) error {
					if n++; n == 2 && fails {
						return errMine
					}
					return nil
				})
				stop := r.watch(func(now *Routing) string {
					live := 0
					for _, rt := range now.Routes {
						if rt.Live {
							live++
						}
						if !rt.Live && (rt.Schedulable || rt.HintReady) {
							return "routed before it counts"
						}
					}
					if live == 1 || fails && live > 0 {
						return fmt.Sprintf("%d of 2 ranks live", live)
					}
					return ""
				})
				_, err := r.Register(t.Context(), registration("w1", intent("a", 1, 11), intent("b", 1, 12)))
				stop()
				if fails != (err != nil) {
					t.Fatal(err)
				}
			}
			// In one snapshot, not one after the other.
			live := map[uint64]int{}
			for _, s := range r.Slots() {
				live[s.Generation]++
			}
			if live[1] != 2 {
				t.Fatal(live)
			}
		})
	})
	t.Run("8.2 a caller that went away is cleaned up after", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r.plane.during("open", func(context.Context) error { // deaf to its context
				time.Sleep(time.Minute)
				return nil
			})
			start := now()
			_, err := r.Register(ctx, registration("w1", intent("a", 1, 11)))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if took := now().Sub(start); took > time.Second+DefaultCleanupTimeout {
				t.Fatalf("the caller waited for %v", took)
			}
			r.until("the rest to be undone", func() bool { return r.plane.empty() == nil && len(r.Slots()) == 0 })
		})
	})
	t.Run("8.3 owners are attached before the worker serves", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			err := r.Serve(t.Context(), registration("w1", intent("a", 1, 11)), func(ctx context.Context) error {
				if rt := r.route("a"); !rt.Schedulable {
					t.Errorf("%+v", rt)
				}
				return nil
			})
			if err != nil || len(r.Slots()) > 0 {
				t.Fatal(err)
			}
		})
	})
	t.Run("8.3 a worker whose registration fails does not serve", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.plane.fail("open")
			err := r.Serve(t.Context(), registration("w1", intent("a", 1, 11)), func(context.Context) error {
				t.Error("it serves")
				return nil
			})
			if err == nil {
				t.Fatal("no error")
			}
		})
	})
	t.Run("8.5 release is idempotent and bounded", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			r.plane.during("stop", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := r.Release(ctx, "w1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if err := r.Release(t.Context(), "w1"); err == nil { // joins the one under way
				t.Fatal("that the listener was cut off is not told")
			}
			if err := r.Release(t.Context(), "w1"); !errors.Is(err, ErrUnknownLease) {
				t.Fatal(err)
			}
		})
	})
}

// settleIn lets others get on for a moment, from inside a plane's call.
func (r *rig) settleIn() { time.Sleep(time.Millisecond) }

// TestLease holds a lease's time: 15 s, renewed every 5 s.
func TestLease(t *testing.T) {
	leased := func(id string, intents ...Intent) Registration {
		reg := registration(id, intents...)
		reg.TTL = DefaultLease
		return reg
	}
	t.Run("expires", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(leased("w1", intent("a", 1, 11)))
			time.Sleep(DefaultLease - time.Nanosecond)
			r.settle()
			if rt := r.route("a"); !rt.Schedulable {
				t.Fatalf("too early: %+v", rt)
			}
			time.Sleep(time.Nanosecond)
			r.settle()
			if err := r.plane.empty(); err != nil || len(r.Leases()) > 0 {
				t.Fatal("it lives on", err)
			}
			if _, err := r.Renew("w1"); !errors.Is(err, ErrUnknownLease) {
				t.Fatal(err)
			}
		})
	})
	t.Run("renewed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(leased("w1", intent("a", 1, 11)))
			for range 10 {
				time.Sleep(5 * time.Second)
				l, err := r.Renew("w1")
				if err != nil || l.Expires != now().Add(DefaultLease) || !slices.Equal(l.Owners, []OwnerID{"a"}) {
					t.Fatal(l, err)
				}
			}
			if l := r.Leases()[0]; l.Renewals != 10 || l.Idle != 0 || l.Age != 50*time.Second {
				t.Fatalf("%+v", l)
			}
			if rt := r.route("a"); !rt.Schedulable || rt.Generation != 1 {
				t.Fatalf("%+v", rt)
			}
		})
	})
	t.Run("kept by Serve, which ends with it", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			err := r.Serve(t.Context(), leased("w1", intent("a", 1, 11)), func(ctx context.Context) error {
				time.Sleep(time.Minute)
				if !r.route("a").Schedulable {
					t.Error("the lease was not kept")
				}
				r.release("w1")
				<-ctx.Done()
				return context.Cause(ctx)
			})
			if e, ok := errors.AsType[*RegisterError](err); !ok || !errors.Is(e.First, ErrUnknownLease) {
				t.Fatal(err)
			}
		})
	})
	t.Run("of a restarted worker: the old one's ends the ambiguity", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(leased("w1", durable(intent("a", 1, 11))))
			time.Sleep(3 * time.Second)
			start := now()
			r.register(leased("w2", durable(intent("a", 1, 12))))
			if took := now().Sub(start); took != 12*time.Second {
				t.Fatalf("attached after %v", took)
			}
			if s := r.slotOf("a"); s.Generation != 2 || s.Attachment.Incarnation != 12 {
				t.Fatalf("%+v", s)
			}
		})
	})
	t.Run("a second caller of one registration waits for the first", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			wait := make(chan struct{})
			r.plane.during("open", func(context.Context) error { <-wait; return nil })
			reg := leased("w1", intent("a", 1, 11))
			first, second := r.goes(t.Context(), reg), r.goes(t.Context(), reg)
			r.settle()
			if n := len(r.Leases()); n != 1 || r.Leases()[0].Complete {
				t.Fatal(n)
			}
			close(wait)
			if err := errors.Join(<-first, <-second); err != nil {
				t.Fatal(err)
			}
			if s := r.slotOf("a"); s.Generation != 1 {
				t.Fatalf("%+v", s)
			}
		})
	})
	for name, next := range map[string]Intent{"the same": intent("a", 1, 11), "another life": intent("a", 1, 12)} {
		t.Run(name+" after a release waits for its end", func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.register(leased("w1", intent("a", 1, 11)))
				wait := make(chan struct{})
				r.plane.during("withdraw", func(context.Context) error { <-wait; return nil })
				go func() { _ = r.Release(context.Background(), "w1") }()
				r.settle()
				again := r.goes(t.Context(), leased("w1", next))
				r.settle()
				close(wait)
				if err := <-again; err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestMany lets workers come and go, be cancelled and refused, faulted and
// quarantined, at once and at random, and holds what must be so at every moment
// and in the end.
func TestMany(t *testing.T) {
	seen := map[string]int{} // what happened at all; the plane's lock guards it
	for seed := range uint64(20) {
		inBubbleOf(t, Options{AmbiguityWait: time.Second}, 6, func(t *testing.T, r *rig) {
			var mu sync.Mutex // of rnd
			rnd := rand.New(rand.NewPCG(seed, 6))
			dice := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return rnd.IntN(n)
			}
			for _, step := range append([]string{"withdraw", "stop"}, attachSteps...) {
				r.plane.during(step, func(ctx context.Context) error {
					switch dice(12) {
					case 0:
						return errMine
					case 1, 2, 3:
						select {
						case <-time.After(time.Duration(dice(300)) * time.Millisecond):
						case <-ctx.Done():
							return ctx.Err()
						}
					}
					return nil
				})
			}
			r.every(func(rt Route) {
				seen[rt.State.String()]++
				seen[rt.Outcome.String()]++
				if rt.Schedulable {
					seen["schedulable"]++
				}
				if rt.HintReady && rt.State == Detached {
					seen["serving detached"]++
				}
				switch {
				case rt.Schedulable && (rt.State != Attached || !rt.Live || rt.Flags != 0 || rt.Outcome != Ready),
					rt.HintReady && !rt.CacheOwnerReady,
					rt.Flags&SourceFailed != 0 && (rt.CacheOwnerReady || rt.State == Attached):
					t.Errorf("seed %d: %+v", seed, rt)
				}
			})
			var wg sync.WaitGroup
			for w := range uint64(8) {
				wg.Go(func() {
					for n := range uint64(6) {
						o := OwnerID(rune('a' + dice(5)))
						a, b := intent(o, w, 1+w*1000+n*10), intent(o+"x", w, 2+w*1000+n*10)
						if dice(2) == 0 {
							a, b = durable(a), durable(b)
						}
						id := fmt.Sprintf("w%d-%d", w, n)
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(dice(4000))*time.Millisecond)
						_, err := r.Register(ctx, registration(id, a, b))
						cancel()
						if err != nil {
							continue
						}
						for range dice(3) {
							for _, s := range r.Slots() {
								switch dice(6) {
								case 0:
									r.Fault(s.Source.Slot, s.Route.Generation, Fault(dice(3)), "test")
								case 1:
									r.Ended(s.Source.Slot, s.Route.Generation, errMine)
								}
							}
							time.Sleep(time.Duration(dice(500)) * time.Millisecond)
							_, _ = r.Register(t.Context(), registration(id, a, b))
						}
						_ = r.Release(t.Context(), id)
						_ = r.Forget(t.Context(), "s", o)
					}
				})
			}
			wg.Wait()
		})
	}
	for _, want := range []string{"attached", "detached", "quarantined", "fenced", "schedulable", "ambiguous_attachment", "serving detached"} {
		if seen[want] < 5 {
			t.Errorf("%d routes were %s: %v", seen[want], want, seen)
		}
	}
}
