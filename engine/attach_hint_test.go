package engine

import (
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/engine/residency"
)

// TestRegisteredHintSource holds what a registration says of hints beyond type
// and endpoint: the carrier of the target, the link to the source, the width of
// both; and that the next attachment's is shown, not the last one's.
func TestRegisteredHintSource(t *testing.T) {
	r := newOwnerRig(t, 2, Options{})
	source := r.guest(17, owner(1), residency.VLLMResidencyV1, 1, dialects[1])
	source.intent.Hint.Link, source.intent.Hint.TP = "rdma", 2
	source.register()
	target := r.guest(18, owner(2), residency.VLLMResidencyV1, 1, dialects[1])
	target.intent.Hint.Carrier, target.intent.Hint.TP = "kv_transfer_params.kv_hint", 2
	target.register()
	target.say(event{clear: true})
	source.say(store(4, "CPU", "kvcr"))
	carrier, _ := hint.ParseCarrier("kv_transfer_params.kv_hint")
	var h HintAnswer
	if err := r.Hint(prompt(), Target{Source: "18"}, &h); err != nil || h.Reason != hint.Hinted || h.Carrier != carrier {
		t.Errorf("%v by %v, %v", h.Reason, h.Carrier, err)
	}
	peer := func(name string) (of HintPeer) {
		t.Helper()
		for _, p := range r.HintStatus().Peers {
			if p.Source == name {
				return p
			}
		}
		t.Fatalf("no peer %s", name)
		return of
	}
	for _, name := range []string{"17", string(owner(1))} {
		if p := peer(name); p.Link != "rdma" || p.TP != 2 {
			t.Errorf("%s: link %q, width %d", name, p.Link, p.TP)
		}
	}
	source.release()
	next := r.guest(19, owner(1), residency.VLLMResidencyV1, 1, dialects[1])
	next.intent.Hint.Link, next.intent.Hint.TP = "tcp", 4
	next.register()
	for _, name := range []string{"19", string(owner(1))} {
		if p := peer(name); p.Link != "tcp" || p.TP != 4 {
			t.Errorf("%s: link %q, width %d", name, p.Link, p.TP)
		}
	}
	if err := r.Hint(prompt(), Target{Source: "18"}, &h); err != nil || h.Reason == hint.Hinted {
		t.Errorf("hinted between widths 4 and 2, %v", err)
	}
}
