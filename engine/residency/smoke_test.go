package residency

import "testing"

func TestSmoke(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.register(registration("w1", intent("a", 1, 11), intent("b", 1, 12)))
		for _, o := range []OwnerID{"a", "b"} {
			if rt := r.route(o); rt == nil || !rt.Schedulable || !rt.HintReady {
				t.Fatalf("%+v", rt)
			}
		}
		t.Log(r.plane.calls)
		r.release("w1")
		t.Log(r.plane.calls)
		if len(r.Slots()) != 0 {
			t.Fatal("slots left")
		}
	})
}
