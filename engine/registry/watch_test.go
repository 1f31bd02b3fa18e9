package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-kv/cairn/engine/residency"
)

// entry is a worker of a file, of one rank.
func entry(id string, n int, more string) string {
	return fmt.Sprintf(`{"id":%q,"model":"m","worker_id":%d,"ingress_protocol":"sglang_hicache_v1","kv_block_size":64%s,
 "ranks":[{"dp_rank":0,"cache_owner_id":%q,"raw_zmq_endpoint":"tcp://10.0.0.%d:5557","raw_topic":"kv"}]}`, id, n, more, ownerText(scopeA, n), n)
}

const noJSON = "{nonsense"

func plainEntry(id string, n int) string {
	return fmt.Sprintf(`{"id":%q,"model":"m","ranks":[{"dp_rank":0,"raw_zmq_endpoint":"tcp://10.1.0.%d:5557"}]}`, id, n)
}

// watching runs a test beside a watcher.
func watching(t *testing.T, f func(t *testing.T, g *rig, w *Watcher, write func(entries ...string))) {
	t.Helper()
	bubble(t, Options{MaxSlots: 2}, func(t *testing.T, g *rig) {
		path := filepath.Join(t.TempDir(), "workers.json")
		w := NewWatcher(g.Registrar, path, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx)
		}()
		f(t, g, w, func(entries ...string) {
			t.Helper()
			text := `{"workers":[` + strings.Join(entries, ",") + `]}`
			if len(entries) == 1 && entries[0] == noJSON {
				text = entries[0]
			}
			// As configuration managers do it: into place, at once.
			if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * lookEvery)
			synctest.Wait()
		})
		cancel()
		<-ended
		if left := append(g.plane.endpoints(), g.sources.ids()...); len(left) != 0 {
			t.Errorf("after the watch: %v", left)
		}
	})
}

func TestWatch(t *testing.T) {
	watching(t, func(t *testing.T, g *rig, w *Watcher, write func(...string)) {
		synctest.Wait()
		if s := w.Status(); s.Problem == "" || !s.Loaded.IsZero() {
			t.Errorf("without a file: %+v", s)
		}
		check := func(what string, endpoints, sources []string, problem string, failed ...string) {
			t.Helper()
			if got := g.plane.endpoints(); !slices.Equal(got, endpoints) {
				t.Errorf("%s: attached %v, want %v", what, got, endpoints)
			}
			if got := g.sources.ids(); !slices.Equal(got, sources) {
				t.Errorf("%s: sources %v, want %v", what, got, sources)
			}
			s := w.Status()
			if problem == "" && s.Problem != "" || !strings.Contains(s.Problem, problem) {
				t.Errorf("%s: problem %q, want %q", what, s.Problem, problem)
			}
			if len(s.Failed) != len(failed) {
				t.Errorf("%s: failed %v, want %v", what, s.Failed, failed)
			}
			for _, id := range failed {
				if s.Failed[id] == "" {
					t.Errorf("%s: %s is not among the failed %v", what, id, s.Failed)
				}
			}
		}
		const ep1, ep2, ep3 = "tcp://10.0.0.1:5557", "tcp://10.0.0.2:5557", "tcp://10.0.0.3:5557"
		write(entry("w1", 1, ""), plainEntry("p1", 1))
		check("two workers", []string{ep1}, []string{"p1"}, "")
		time.Sleep(time.Hour)
		check("an hour later", []string{ep1}, []string{"p1"}, "")
		if regs := g.Registrations(); len(regs) != 2 || regs[0].Renewals+regs[1].Renewals != 0 {
			t.Errorf("registrations %+v", regs)
		}
		write(entry("w1", 1, ""), entry("w2", 2, ""))
		check("one more, one gone", []string{ep1, ep2}, nil, "")
		write(noJSON)
		check("no JSON", []string{ep1, ep2}, nil, "is no JSON")
		write(entry("w1", 1, ""), strings.Replace(entry("w2", 2, ""), "10.0.0.2", "127.0.0.1", 1))
		check("loopback", []string{ep1, ep2}, nil, `worker "w2": ranks[0].raw_zmq_endpoint "tcp://127.0.0.1:5557"`)
		write(entry("w1", 1, `,"producer_instance":2`), entry("w2", 2, ""))
		check("another life", []string{ep1, ep2}, nil, "")
		for _, s := range g.control.Slots() {
			if want := map[string]uint64{ownerText(scopeA, 1): 2, ownerText(scopeA, 2): 1}[string(s.Source.Owner)]; s.Attaches != want && s.Generation != 1 {
				t.Errorf("slot of %s has %d attaches", s.Source.Owner, s.Attaches)
			}
		}
		write(entry("w9", 2, ""), entry("w1", 1, `,"producer_instance":2`))
		check("an owner moves", []string{ep1, ep2}, nil, "")
		write(entry("w9", 2, ""), entry("w1", 1, `,"producer_instance":2`), entry("w3", 3, ""))
		check("over capacity", []string{ep1, ep2}, nil, "", "w3")
		write(entry("w3", 3, ""), entry("w9", 2, ""))
		check("room", []string{ep2, ep3}, nil, "")
		write()
		check("nothing", nil, nil, "")
	})
}

// TestWatchMends: what a worker's failure took away comes back once it can.
func TestWatchMends(t *testing.T) {
	watching(t, func(t *testing.T, g *rig, w *Watcher, write func(...string)) {
		g.plane.fail(0, errors.New("no route to host"))
		write(entry("w1", 1, ""))
		if s := w.Status(); len(g.plane.endpoints()) != 0 || !strings.Contains(s.Failed["w1"], "no route to host") {
			t.Errorf("status %+v", s)
		}
		g.plane.fail(0, nil)
		time.Sleep(2 * mendEvery)
		synctest.Wait()
		if s := w.Status(); len(g.plane.endpoints()) != 1 || len(s.Failed) != 0 {
			t.Errorf("status %+v", s)
		}
		slots := g.control.Slots()
		g.control.Ended(slots[0].Source.Slot, slots[0].Generation, errors.New("cut"))
		if s := g.control.Slots()[0]; s.State != residency.Quarantined {
			t.Fatalf("slot is %v", s.State)
		}
		time.Sleep(2 * mendEvery)
		synctest.Wait()
		if s := g.control.Slots()[0]; s.State != residency.Attached || s.Generation != 2 {
			t.Errorf("slot is %v in generation %d", s.State, s.Generation)
		}
	})
}

// TestWatchLeavesOthersAlone: what the file did not register it does not release.
func TestWatchLeavesOthersAlone(t *testing.T) {
	watching(t, func(t *testing.T, g *rig, w *Watcher, write func(...string)) {
		if _, err := g.Register(t.Context(), owned(t, "w1", 4)); err != nil {
			t.Fatal(err)
		}
		write(entry("w1", 1, ""))
		if s := w.Status(); s.Failed["w1"] == "" {
			t.Errorf("status %+v", s)
		}
		write()
		if len(g.plane.endpoints()) != 2 || len(w.Status().Failed) != 0 {
			t.Errorf("attached %v, status %+v", g.plane.endpoints(), w.Status())
		}
		if err := g.Release(t.Context(), "w1"); err != nil {
			t.Error(err)
		}
	})
}

// TestFileKeepsItsWorkers: a lease does not take the place of what a file says.
func TestFileKeepsItsWorkers(t *testing.T) {
	watching(t, func(t *testing.T, g *rig, w *Watcher, write func(...string)) {
		write(entry("w1", 1, ""))
		other := owned(t, "w1", 4)
		other.Ranks, other.HintEndpoints, other.WorkerType = other.Ranks[:1], nil, ""
		if _, err := g.Register(t.Context(), other); !Conflict(err) {
			t.Errorf("error %v", err)
		}
		if got := g.plane.endpoints(); !slices.Equal(got, []string{"tcp://10.0.0.1:5557"}) {
			t.Errorf("attached %v", got)
		}
	})
}
