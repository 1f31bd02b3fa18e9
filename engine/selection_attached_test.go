package engine

import (
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
)

// TestHintExamplesOfSlots plays the worked examples that are about slots, with
// workers and owners that attach at run time: S is worker 1, T worker 2.
func TestHintExamplesOfSlots(t *testing.T) {
	os := string(owner(1))
	cases := []struct {
		name     string
		protocol residency.Protocol
		play     func(t *testing.T, r *ownerRig, s, target *guest)
		toS      bool // the request goes to S
		want     string
		below    int // threshold in blocks
	}{
		{"E2", residency.HiCacheV1, func(t *testing.T, r *ownerRig, s, target *guest) {}, false, os + "/0 cache_owner depth 4", 0},
		{"E3", residency.HiCacheV1, func(t *testing.T, r *ownerRig, s, target *guest) {}, true, "no_longer_source", 4},
		{"E4", residency.HiCacheV1, func(t *testing.T, r *ownerRig, s, target *guest) { target.say(store(3, "GPU", "")) }, false, os + "/0 cache_owner depth 4", 3},
		{"E4, by the target's own owner", residency.HiCacheV1, func(t *testing.T, r *ownerRig, s, target *guest) { target.say(store(3, "CPU", "kvcr")) }, false, os + "/0 cache_owner depth 4", 3},
		{"E9", residency.HiCacheV1, func(t *testing.T, r *ownerRig, s, target *guest) {
			r.guest(3, owner(3), residency.HiCacheV1, 1, dialects[1]).register().say(store(4, "CPU", "kvcr"))
		}, false, "", 0}, // by the smaller key: see below
		{"E12", residency.HiCacheV1, func(t *testing.T, r *ownerRig, s, target *guest) {
			s.shards[0].next++ // a gap
			s.shards[0].send(remove("CPU", "kvcr", chainNames[3]))
			await(t, "the fence", func() bool { return r.route(s.intent.Owner).State == residency.Fenced })
		}, false, "no_longer_source", 0},
		{"E13, engine-local", residency.HiCacheV1, func(t *testing.T, r *ownerRig, s, target *guest) { s.release() }, false, "no_longer_source", 0},
		{"E13, durable", residency.VLLMResidencyV1, func(t *testing.T, r *ownerRig, s, target *guest) { s.release() }, false, os + "/0 cache_owner depth 4", 0},
		{"a detached owner's worker", residency.VLLMResidencyV1, func(t *testing.T, r *ownerRig, s, target *guest) { s.release() }, true, "target_incapable", 0},
		{"a durable owner that comes back is its worker's own", residency.VLLMResidencyV1, func(t *testing.T, r *ownerRig, s, target *guest) {
			s.release()
			r.guest(1, owner(1), residency.VLLMResidencyV1, 1, dialects[1]).register().say(event{clear: true})
		}, true, "no_longer_source", 4},
	}
	for _, ix := range indexes {
		for _, tc := range cases {
			t.Run(tc.name+"/"+ix.name, func(t *testing.T) {
				r := newOwnerRig(t, 4, Options{NewIndex: ix.make})
				s := r.guest(1, owner(1), tc.protocol, 1, dialects[1]).register()
				target := r.guest(2, owner(2), tc.protocol, 1, dialects[1]).register()
				s.say(store(4, "CPU", "kvcr"))
				target.say(event{clear: true})
				tc.play(t, r, s, target)
				to := target
				if tc.toS {
					to = s
				}
				want := tc.want
				if want == "" { // a tie between OS and O3
					a, b := r.cacheOwnerKey(&residency.Source{Owner: owner(1)}), r.cacheOwnerKey(&residency.Source{Owner: owner(3)})
					first := os
					if string(b[:]) < string(a[:]) {
						first = string(owner(3))
					}
					want = first + "/0 cache_owner depth 4"
				}
				var h HintAnswer
				if err := r.Hint(prompt(), Target{Source: to.name(), MessageID: "m"}, &h); err != nil {
					t.Fatal(err)
				}
				if got := outcome(&h); got != want || h.ThresholdTokens != tc.below*blockTokens {
					t.Errorf("got %s over %d tokens, want %s over %d blocks", got, h.ThresholdTokens, want, tc.below)
				}
			})
		}
	}
}

// TestPeersOfSlots: load is told of workers and of owners that attach, under
// either name, and the status says of each why it does not serve.
func TestPeersOfSlots(t *testing.T) {
	r := newOwnerRig(t, 4, Options{Hints: HintOptions{Spread: true}})
	s := r.guest(1, owner(1), residency.VLLMResidencyV1, 1, dialects[1]).register()
	s.say(store(4, "CPU", "kvcr"))
	for _, name := range []string{s.name(), string(owner(1))} {
		if err := r.FetchStarted(name, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	status := func() (of [2]HintPeer) {
		for _, p := range r.HintStatus().Peers {
			of[p.Domain] = p
		}
		return of
	}
	if p := status(); p[hint.CacheOwner].Fetches != 2 || !p[hint.CacheOwner].Serves || p[hint.Worker].WhyNot != "state_agent" || !p[hint.Worker].Target {
		t.Errorf("%+v", p)
	}
	s.release()
	if p := status(); !p[hint.CacheOwner].Serves || p[hint.CacheOwner].Source != string(owner(1)) {
		t.Errorf("a detached durable owner: %+v", p)
	}
	if err := r.FetchStarted(s.name(), 0); err == nil {
		t.Error("a worker that left has load")
	}
}
