package server

import (
	"testing"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/hint"
)

// TestAttachedHolder: a pool says on which worker it counts if that is not its
// own name, and that it is advice.
func TestAttachedHolder(t *testing.T) {
	h := engine.HolderAnswer{Source: "o", Rank: 3, Domain: hint.CacheOwner, BlockSize: 64, AttachedTo: "17",
		Freshness: engine.Freshness{State: engine.Degraded, Cause: "restart", Advisory: true, Seq: 4, Applied: [2]uint64{4, 4}}}
	want := `{"source":"o","rank":3,"domain":"cache_owner","block_size":64,"attached_to":"17","freshness":` +
		`{"state":"degraded","cause":"restart","seq":4,"applied":[4,4],"lag_ms":0,"age_ms":0,"epoch":0,"advisory":true}}`
	if got := string(appendHolder(nil, &h, false)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	h.AttachedTo, h.Freshness.Advisory = "o", false
	want = `{"source":"o","rank":3,"domain":"cache_owner","block_size":64,"freshness":` +
		`{"state":"degraded","cause":"restart","seq":4,"applied":[4,4],"lag_ms":0,"age_ms":0,"epoch":0}}`
	if got := string(appendHolder(nil, &h, false)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
