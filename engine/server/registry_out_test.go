package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-kv/cairn/engine/residency"
)

// TestRenewalsTellWhoIsOut: a worker that does nothing but renew learns that an
// owner of it is out, and gets it back by registering the same again, unless it
// is fenced.
func TestRenewalsTellWhoIsOut(t *testing.T) {
	registering(t, func(t *testing.T, g *registryRig) {
		g.ask(t, "PUT", "/v1/workers/w1", workerBody(), 200)
		renewed := func(out string) {
			t.Helper()
			if a := g.ask(t, "POST", "/v1/workers/w1/renew", "", 200); fmt.Sprint(a["out"]) != out {
				t.Errorf("renewed, and out are %v, want %s", a["out"], out)
			}
		}
		slot := func() residency.SlotStatus { return g.control.Slots()[1] }
		renewed("<nil>")

		g.control.Ended(slot().Source.Slot, 1, errors.New("reset by peer"))
		synctest.Wait()
		renewed("[" + testOwner + "2]")
		w := g.ask(t, "GET", "/v1/workers", "", 200)["workers"].([]any)[0].(map[string]any)
		if fmt.Sprint(w["out"]) != "["+testOwner+"2]" || w["complete"] != true {
			t.Errorf("worker %v", w)
		}
		if a := g.ask(t, "PUT", "/v1/workers/w1", workerBody(), 200); a["out"] != nil || slot().Route.Generation != 2 || slot().State != residency.Attached {
			t.Errorf("registered again: %v, %+v", a, slot())
		}
		renewed("<nil>")

		g.control.Fault(slot().Source.Slot, 2, residency.FaultSource, "gap")
		synctest.Wait()
		renewed("[" + testOwner + "2]")
		if e := g.ask(t, "PUT", "/v1/workers/w1", workerBody(), 409); e["code"] != "fenced" || e["field"] != "ranks[1]" {
			t.Errorf("registered again, fenced: %v", e)
		}
		renewed("[" + testOwner + "2]") // and the other rank is held
		if s := g.control.Slots()[0]; s.State != residency.Attached || s.Route.Generation != 1 {
			t.Errorf("the other rank: %+v", s)
		}

		host := g.ask(t, "GET", "/v1/owners", "", 200)["hosts"].([]any)[0].(map[string]any)
		if host["attaches_total"] != json.Number("3") || host["fences_total"] != json.Number("1") || host["quarantines_total"] != json.Number("1") {
			t.Errorf("host %v", host)
		}
		_, metrics := do(t, g.Handler(), "GET", "/metrics", "")
		for name, n := range map[string]int{"attaches": 3, "fences": 1, "quarantines": 1, "leases_expired": 0} {
			if line := fmt.Sprintf("cairn_scope_%s_total{scope=%q} %d\n", name, strings.Repeat("02", 16), n); !strings.Contains(metrics, line) {
				t.Errorf("metrics do not say %s", line)
			}
		}
	})
}
