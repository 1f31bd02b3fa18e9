package residency

import (
	"errors"
	"strings"
	"testing"
)

// TestReadiness holds §5.5: every condition of both bits, and every outcome.
// Each row takes one thing away from an attachment that is ready.
func TestReadiness(t *testing.T) {
	ready := func() Facts {
		a := &Attachment{Generation: 3, Record: 33, Worker: Worker{ID: 17}, ReadyAt: 5}
		return Facts{Certain: true, Sources: 1, Intents: 1, Source: Source{Owner: "a", Protocol: HiCacheV1},
			State: Attached, Ready: true, Live: true, Proven: true, Attachment: a, Hint: true,
			Plane: PlaneStatus{Owner: "a", Record: 33, Worker: Worker{ID: 17}, Generation: 3, Reachable: true, Applied: 5}}
	}
	yes := Verdict{Outcome: Ready, Schedulable: true, HintReady: true, CacheOwnerReady: true}
	named := map[string]bool{} // outcomes that have a row
	for _, c := range []struct {
		name   string
		change func(*Facts)
		want   Verdict
	}{
		{"5.5.1 everything holds", func(*Facts) {}, yes},
		{"5.5.1 applied beyond the barrier", func(f *Facts) { f.Plane.Applied = 6 }, yes},
		{"5.5.1 schedulable wants a live worker", func(f *Facts) { f.Live = false }, Verdict{Outcome: Unavailable, CacheOwnerReady: true}},
		{"5.5.1 schedulable wants the cache owner ready", func(f *Facts) { f.Flags = CacheOwnerFailed }, Verdict{Outcome: Unavailable}},
		{"5.5.1 schedulable wants the attachment ready", func(f *Facts) { f.Ready = false }, Verdict{Outcome: Unavailable}},
		{"5.5.1 schedulable wants the same generation", func(f *Facts) { f.Plane.Generation = 2 }, Verdict{Outcome: StatusMismatch, CacheOwnerReady: true}},
		{"5.5.1 schedulable wants the same worker", func(f *Facts) { f.Plane.Worker.ID = 18 }, Verdict{Outcome: StatusMismatch, CacheOwnerReady: true}},
		{"5.5.1 schedulable wants the same rank", func(f *Facts) { f.Plane.Worker.Rank = 1 }, Verdict{Outcome: StatusMismatch, CacheOwnerReady: true}},
		{"5.5.1 schedulable wants the same owner", func(f *Facts) { f.Plane.Owner = "b" }, Verdict{Outcome: RecoveryIdentityMismatch, CacheOwnerReady: true}},
		{"5.5.1 schedulable wants the same record", func(f *Facts) { f.Plane.Record = 34 }, Verdict{Outcome: RecoveryIdentityMismatch, CacheOwnerReady: true}},
		{"5.5.1 schedulable wants the barrier applied", func(f *Facts) { f.Plane.Applied = 4 }, Verdict{Outcome: RecoveryBehindBarrier, CacheOwnerReady: true}},

		{"5.5.2 hint_ready wants the cache owner ready", func(f *Facts) { f.State, f.Ready = Quarantined, false }, Verdict{Outcome: Unavailable}},
		{"5.5.2 hint_ready wants what was received applied", func(f *Facts) { f.Plane.Behind = true }, Verdict{Outcome: RecoveryBehindBarrier, CacheOwnerReady: true}},
		{"9.2 hint_ready and schedulable want no repair under way", func(f *Facts) { f.Plane.Repairing = true }, Verdict{Outcome: RecoveryBehindBarrier, CacheOwnerReady: true}},
		{"5.5.2 hint_ready wants the hint source known", func(f *Facts) { f.Hint = false }, Verdict{Outcome: Ready, Schedulable: true, CacheOwnerReady: true}},
		{"5.5.2 hint_ready wants the same owner", func(f *Facts) { f.Plane.Owner = "" }, Verdict{Outcome: RecoveryIdentityMismatch, CacheOwnerReady: true}},
		{"5.5.2 hint_ready needs no attachment: durable, detached", func(f *Facts) {
			f.Source.Protocol, f.State, f.Ready, f.Live, f.Attachment, f.Intents = VLLMResidencyV1, Detached, false, false, nil, 0
			f.Plane = PlaneStatus{Owner: "a", Applied: 6}
		}, Verdict{Outcome: Unavailable, HintReady: true, CacheOwnerReady: true}},
		{"5.5.2 hint_ready: durable, quarantined", func(f *Facts) {
			f.Source.Protocol, f.State, f.Ready, f.Attachment = VLLMResidencyV1, Quarantined, false, nil
		}, Verdict{Outcome: Unavailable, HintReady: true, CacheOwnerReady: true}},
		{"5.5.2 hint_ready: engine-local, detached", func(f *Facts) {
			f.State, f.Ready, f.Live, f.Attachment, f.Intents = Detached, false, false, nil, 0
		}, Verdict{Outcome: Unavailable}},
		{"5.5.2 hint_ready: durable, never complete", func(f *Facts) {
			f.Source.Protocol, f.Live, f.Proven = VLLMResidencyV1, false, false
		}, Verdict{Outcome: Unavailable, CacheOwnerReady: true}},
		{"5.5.2 hint_ready: fenced", func(f *Facts) {
			f.Source.Protocol, f.State, f.Ready, f.Attachment = VLLMResidencyV1, Fenced, false, nil
			f.Flags = WorkerFailed | CacheOwnerFailed | SourceFailed
		}, Verdict{Outcome: Unavailable}},

		{"5.5.3 outcome ready", func(*Facts) {}, yes},
		{"5.5.3 outcome unavailable", func(f *Facts) { f.Attachment = nil }, Verdict{Outcome: Unavailable, HintReady: true, CacheOwnerReady: true}},
		{"5.5.3 outcome watch_uncertain", func(f *Facts) { f.Certain = false }, Verdict{Outcome: WatchUncertain, CacheOwnerReady: true}},
		{"5.5.3 outcome ambiguous_source", func(f *Facts) { f.Sources = 2 }, Verdict{Outcome: AmbiguousSource, CacheOwnerReady: true}},
		{"5.5.3 outcome ambiguous_attachment", func(f *Facts) { f.Intents = 2 }, Verdict{Outcome: AmbiguousAttachment, CacheOwnerReady: true}},
		{"5.5.3 outcome endpoint_unreachable", func(f *Facts) { f.Plane.Reachable = false }, Verdict{Outcome: EndpointUnreachable, HintReady: true, CacheOwnerReady: true}},
		{"5.5.3 outcome status_mismatch", func(f *Facts) { f.Plane.Generation = 4 }, Verdict{Outcome: StatusMismatch, CacheOwnerReady: true}},
		{"5.5.3 outcome recovery_identity_mismatch", func(f *Facts) { f.Plane.Record = 0 }, Verdict{Outcome: RecoveryIdentityMismatch, CacheOwnerReady: true}},
		{"5.5.3 outcome recovery_behind_barrier", func(f *Facts) { f.Plane.Applied = 0 }, Verdict{Outcome: RecoveryBehindBarrier, CacheOwnerReady: true}},
	} {
		outcome, ok := strings.CutPrefix(c.name, "5.5.3 outcome ")
		named[outcome] = named[outcome] || ok
		t.Run(c.name, func(t *testing.T) {
			f := ready()
			c.change(&f)
			got := f.Judge()
			if got != c.want {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
			if ok && got.Outcome.String() != outcome {
				t.Fatalf("called %s", got.Outcome)
			}
			if got.Outcome.Unknown() && got.Schedulable {
				t.Fatal("unknown and schedulable")
			}
		})
	}
	for o := range NumOutcomes {
		if !named[o.String()] {
			t.Errorf("no row for the outcome %s", o)
		}
	}
}

// TestRouting holds that verdicts reach readers: at once what is taken away, and
// only if nothing has changed meanwhile what is given.
func TestRouting(t *testing.T) {
	t.Run("5.5.4 a change unprojects before the call that makes it returns", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			for _, c := range []struct {
				name string
				do   func()
				want Outcome
			}{
				{"doubt", func() { _ = r.Doubt("s", errors.New("the watch is behind")) }, WatchUncertain},
				{"certain", func() { _ = r.Doubt("s", nil) }, Ready},
				{"link down", func() { r.Changed(r.plane.set("a", func(s *fakeSlot) { s.status.Reachable = false })) }, EndpointUnreachable},
				{"link up", func() { r.Changed(r.plane.set("a", func(s *fakeSlot) { s.status.Reachable = true })) }, Ready},
				{"a repair", func() { r.Changed(r.plane.set("a", func(s *fakeSlot) { s.status.Repairing = true })) }, RecoveryBehindBarrier},
				{"repaired", func() { r.Changed(r.plane.set("a", func(s *fakeSlot) { s.status.Repairing = false })) }, Ready},
			} {
				before := r.Routing().Revision
				c.do()
				rt := r.route("a")
				if rt.Outcome != c.want || rt.Schedulable != (c.want == Ready) || r.Routing().Revision <= before {
					t.Fatalf("%s: %+v", c.name, rt)
				}
			}
			r.Changed(99) // nobody's
		})
	})
	t.Run("5.5.4 no verdict outlasts the status it rests on", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			s := r.slots[r.slotOf("a").Source.Slot]
			at, said := s.changes, r.plane.Status(s.source.Slot)
			r.Changed(r.plane.set("a", func(s *fakeSlot) { s.status.Repairing = true }))
			r.mu.Lock()
			again := r.commit([]*slot{s}, []uint64{at}, []PlaneStatus{said})
			r.mu.Unlock()
			if rt := r.route("a"); len(again) != 1 || rt.Schedulable || rt.HintReady {
				t.Fatalf("a status from before the repair made it %+v", rt)
			}
		})
	})
	t.Run("5.5.4 a verdict is kept only if the revision is unchanged", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			s := r.slots[r.slotOf("a").Source.Slot]
			at, said := s.changes, r.plane.Status(s.source.Slot)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.touch(s)
			if again := r.commit([]*slot{s}, []uint64{at}, []PlaneStatus{said}); len(again) != 1 || again[0] != s {
				t.Fatal("an old verdict was kept")
			}
			if s.route.Schedulable {
				t.Fatalf("%+v", s.route)
			}
			if again := r.commit([]*slot{s}, []uint64{s.changes}, []PlaneStatus{said}); len(again) != 0 || !s.route.Schedulable {
				t.Fatalf("%+v", s.route)
			}
		})
	})
	t.Run("5.5.5 two sources of one owner: unprojected, entries kept", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.host("t", 2)
			r.register(registration("w1", durable(intent("a", 1, 11))))
			other := registration("w2", durable(intent("a", 2, 12)))
			other.Scope = "t"
			r.register(other)
			r.plane.mu.Lock()
			for id, s := range r.plane.slots {
				if rt := r.plane.routes[id]; rt.Outcome != AmbiguousSource || rt.Schedulable || rt.HintReady {
					t.Errorf("%+v", rt)
				}
				if len(s.cleared) != 1 { // the barrier of its attach
					t.Errorf("cleared %v", s.cleared)
				}
			}
			r.plane.mu.Unlock()
			if err := r.WithdrawHost(t.Context(), "t", nil); err != nil {
				t.Fatal(err)
			}
			r.settle()
			if rt := r.route("a"); rt.Outcome != Ready || !rt.Schedulable {
				t.Fatalf("%+v", rt)
			}
		})
	})
	t.Run("5.5.6 source removed: both domains cleared", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", durable(intent("a", 1, 11))))
			if err := r.Forget(t.Context(), "s", "a"); !errors.Is(err, ErrInUse) {
				t.Fatal(err)
			}
			r.release("w1")
			if err := r.Forget(t.Context(), "s", "a"); err != nil {
				t.Fatal(err)
			}
			if err := r.plane.empty(); err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{r.Forget(t.Context(), "s", "a"), r.Clear(t.Context(), "s", "a", BothDomains)} {
				if !errors.Is(err, ErrUnknownOwner) {
					t.Fatal(err)
				}
			}
		})
	})
	t.Run("R13 null domain clear", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			r.register(registration("w1", intent("a", 1, 11)))
			fill := func() {
				r.plane.set("a", func(s *fakeSlot) { s.blocks[WorkerDomain], s.blocks[CacheOwnerDomain] = 4, 4 })
			}
			for _, c := range []struct {
				event         string
				ok            bool
				worker, owner int
			}{
				{`{}`, true, 0, 0},
				{`{"domain":"worker"}`, true, 0, 4},
				{`{"domain":"cache_owner"}`, true, 4, 0},
				{`{"domain":null}`, false, 4, 4},
				{`{"domain":0}`, false, 4, 4},
				{`{"domain":""}`, false, 4, 4},
				{`{"domain":["worker"]}`, false, 4, 4},
				{`{"domain":"both"}`, false, 4, 4},
				{`null`, false, 4, 4},
				{`[]`, false, 4, 4},
				{``, false, 4, 4},
			} {
				fill()
				d, err := ParseCleared([]byte(c.event))
				if err == nil {
					err = r.Clear(t.Context(), "s", "a", d)
				} else if r.Clear(t.Context(), "s", "a", d) == nil {
					t.Errorf("%s: what it was refused with clears", c.event)
				}
				if (err == nil) != c.ok {
					t.Errorf("%s: %v", c.event, err)
				}
				r.plane.set("a", func(s *fakeSlot) {
					if s.blocks[WorkerDomain] != c.worker || s.blocks[CacheOwnerDomain] != c.owner {
						t.Errorf("%s left %v", c.event, s.blocks)
					}
				})
			}
		})
	})
}
