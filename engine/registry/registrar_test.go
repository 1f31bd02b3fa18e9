package registry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/engine/validate"
)

// bubble runs a test in time of its own.
func bubble(t *testing.T, o Options, f func(t *testing.T, g *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, o)
		f(t, g)
		g.close(t)
	})
}

func TestOwnedWorker(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, g *rig) {
		w := owned(t, "w1", 1)
		l, err := g.Register(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if l.Scope != scopeA || l.Host == 0 || l.Host > identity.MaxID || len(l.Owners) != 2 || string(l.Owners[1]) != ownerText(scopeA, 3) || l.TTL != DefaultTTL {
			t.Errorf("lease %+v", l)
		}
		if got, want := g.plane.endpoints(), []string{"tcp://10.0.0.1:5557", "tcp://10.0.0.1:5558"}; !slices.Equal(got, want) {
			t.Errorf("attached %v, want %v", got, want)
		}
		for _, s := range g.control.Slots() {
			if s.Source.Protocol != residency.HiCacheV1 || s.Source.BlockSize != 64 || s.Source.Model != "m" || s.Outcome != residency.Ready || s.Route.Hint.WorkerType != "aggregated" {
				t.Errorf("slot %+v", s)
			}
			if s.Attachment.Record != identity.AttachmentRecord(s.Publisher, 1) {
				t.Errorf("record %d", s.Attachment.Record)
			}
			if want := "tcp://10.0.0.1:" + []string{"23280", "23284"}[s.Source.Rank]; s.Route.Hint.ControlEndpoint != want {
				t.Errorf("rank %d fetches from %s, want %s", s.Source.Rank, s.Route.Hint.ControlEndpoint, want)
			}
		}
		// The same again, and with the host it found, renews.
		time.Sleep(10 * time.Second)
		w.TargetHost = l.Host
		if again, err := g.Register(t.Context(), w); err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("again: %+v, %v", again, err)
		}
		time.Sleep(10 * time.Second)
		if regs := g.Registrations(); len(regs) != 1 || !regs[0].Complete || regs[0].Left != 5*time.Second || regs[0].Idle != 10*time.Second || regs[0].Age != 20*time.Second {
			t.Errorf("registrations %+v", regs)
		}
		if again, err := g.Renew("w1"); err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("renewed: %+v, %v", again, err)
		}
		time.Sleep(14 * time.Second)
		if len(g.plane.endpoints()) != 2 {
			t.Error("ended before its lease")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if left := g.plane.endpoints(); len(left) != 0 {
			t.Errorf("expired, and attached: %v", left)
		}
		if _, err := g.Renew("w1"); !errors.Is(err, residency.ErrUnknownLease) {
			t.Errorf("renewal of what expired: %v", err)
		}
		// Another life of it.
		w.Ranks[0].Incarnation, w.Ranks[1].Incarnation = 111, 112
		if _, err := g.Register(t.Context(), w); err != nil {
			t.Error(err)
		}
		if err := g.Release(t.Context(), "w1"); err != nil || len(g.plane.endpoints()) != 0 {
			t.Errorf("released: %v", err)
		}
		if err := g.Release(t.Context(), "w1"); !errors.Is(err, residency.ErrUnknownLease) {
			t.Errorf("released twice: %v", err)
		}
	})
}

// TestAllOrNothing: a rank that cannot be attached takes the others with it,
// and is named.
func TestAllOrNothing(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, g *rig) {
		no := errors.New("no route to host")
		g.plane.fail(1, no)
		_, err := g.Register(t.Context(), owned(t, "w1", 1))
		var rank *residency.RankError
		if !errors.As(err, &rank) || rank.Rank != 1 || !errors.Is(err, no) {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		if left := g.plane.endpoints(); len(left) != 0 {
			t.Errorf("attached all the same: %v", left)
		}
		if len(g.Registrations()) != 0 || g.Count(Failed) != 1 {
			t.Errorf("registrations %v, failed %d", g.Registrations(), g.Count(Failed))
		}
		g.plane.fail(1, nil)
		w := owned(t, "w1", 1)
		w.Ranks[0].Incarnation, w.Ranks[1].Incarnation = 21, 22
		if _, err := g.Register(t.Context(), w); err != nil {
			t.Errorf("mended: %v", err)
		}
	})
}

// TestConflicts: what is registered stays as it is.
func TestConflicts(t *testing.T) {
	bubble(t, Options{MaxSlots: 4}, func(t *testing.T, g *rig) {
		l, err := g.Register(t.Context(), owned(t, "w1", 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Register(t.Context(), plainWorker("p1", 1)); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			change func(w *Worker)
			says   string
		}{
			"another body": {func(w *Worker) { w.Ranks[1].Topic = "kv@x" }, "raw_topic"},
			"another range": {func(w *Worker) {
				w.Ranks, w.HintEndpoints = w.Ranks[:1], map[string]string{"0": "tcp://10.0.0.1:23280"}
			}, "another range needs another id"},
			"another block size":     {func(w *Worker) { w.BlockSize, w.ID, w.Ranks[0].Incarnation, w.Ranks[1].Incarnation = 16, "w2", 31, 32 }, "kv_block_size"},
			"known incarnation":      {func(w *Worker) { w.ID = "w2" }, "w1"},
			"plain under its id":     {func(w *Worker) { *w = plainWorker("w1", 2) }, "owned residency"},
			"owned under a plain id": {func(w *Worker) { *w = owned(t, "p1", 4) }, "plain worker"},
			"other plain worker":     {func(w *Worker) { *w = plainWorker("p1", 2) }, "other contents"},
			"over capacity": {func(w *Worker) {
				*w = owned(t, "w3", 3)
				w.HintEndpoints["2"] = "tcp://10.0.0.1:23288"
				w.Ranks = append(w.Ranks, Rank{Rank: 2, Endpoints: []string{"tcp://10.0.0.1:1"}, Topic: "t", Owner: ownerID(t, scopeA, 40), Incarnation: 41})
			}, scopeA},
		} {
			w := owned(t, "w1", 1)
			c.change(&w)
			_, err := g.Register(t.Context(), w)
			if err == nil || !Conflict(err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v does not say %q", name, err, c.says)
			}
		}
		if got := g.Count(Conflicted); got != 8 {
			t.Errorf("%d conflicts counted", got)
		}
		if again, err := g.Register(t.Context(), owned(t, "w1", 1)); err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("the first: %+v, %v", again, err)
		}
		if got := g.plane.endpoints(); !slices.Equal(got, []string{"tcp://10.0.0.1:5557", "tcp://10.0.0.1:5558"}) {
			t.Errorf("attached %v", got)
		}
	})
}

// TestAnotherLife: an engine that crashed and came back does not wait for the
// lease of its former life, and what only looks like it harms nothing.
func TestAnotherLife(t *testing.T) {
	bubble(t, Options{MaxSlots: 2}, func(t *testing.T, g *rig) {
		if _, err := g.Register(t.Context(), owned(t, "w1", 1)); err != nil {
			t.Fatal(err)
		}
		half := owned(t, "w1", 1)
		half.Ranks[1].Incarnation = 21
		if _, err := g.Register(t.Context(), half); !Conflict(err) {
			t.Errorf("one rank of another life: %v", err)
		}
		wrong := owned(t, "w1", 1)
		wrong.Ranks[0].Incarnation, wrong.Ranks[1].Incarnation, wrong.TargetHost = 21, 22, 7
		if _, err := g.Register(t.Context(), wrong); !errors.Is(err, validate.IntentHost) {
			t.Errorf("another life with another host: %v", err)
		}
		if s := g.control.Slots(); len(s) != 2 || s[0].Generation != 1 || s[0].Attachment.Incarnation != 11 {
			t.Errorf("slots %+v", s)
		}
		w := owned(t, "w1", 1)
		w.Ranks[0].Incarnation, w.Ranks[1].Incarnation, w.Ranks[0].Topic = 21, 22, "kv@another"
		if _, err := g.Register(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if s := g.control.Slots(); len(s) != 2 || s[0].Attachment.Incarnation != 21 || s[0].Attachment.Topic != "kv@another" || s[1].Outcome != residency.Ready {
			t.Errorf("slots %+v", s)
		}
		if regs := g.Registrations(); len(regs) != 1 || regs[0].Age != 0 || regs[0].Protocol != "sglang_hicache_v1" {
			t.Errorf("registrations %+v", regs)
		}
	})
}

// TestAnotherLifeThatIsRefused: it does not cost the one that serves.
func TestAnotherLifeThatIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *Worker)
		code   func(err error) bool
	}{
		{"another block size of a durable pool", func(w *Worker) { w.BlockSize = 16 }, func(err error) bool {
			e, ok := errors.AsType[*residency.ImmutableError](err)
			return ok && e.Field == "kv_block_size" && e.Have == "64" && e.Got == "16"
		}},
		{"more owners than there is room for", func(w *Worker) {
			w.Ranks = append(w.Ranks, Rank{Rank: 2, Endpoints: []string{"tcp://10.0.0.1:5559"}, Owner: ownerID(t, scopeA, 9), Incarnation: 23})
			w.HintEndpoints["2"] = "tcp://10.0.0.1:23288"
		}, func(err error) bool {
			e, ok := errors.AsType[*residency.CapacityError](err)
			return ok && e.MaxSlots == 2 && e.Rank == 2
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Options{MaxSlots: 2}, func(t *testing.T, g *rig) {
				w := owned(t, "w1", 1)
				w.Protocol = identity.VLLMResidency
				if _, err := g.Register(t.Context(), w); err != nil {
					t.Fatal(err)
				}
				next := w.clone()
				next.Ranks[0].Incarnation, next.Ranks[1].Incarnation = 21, 22
				c.change(&next)
				if _, err := g.Register(t.Context(), next); !c.code(err) || !Conflict(err) {
					t.Errorf("%v", err)
				}
				if s := g.control.Slots(); len(s) != 2 || s[0].Generation != 1 || s[0].Outcome != residency.Ready || s[1].Outcome != residency.Ready {
					t.Errorf("the life that served: %+v", s)
				}
				if l, err := g.Renew("w1"); err != nil || len(l.Out) > 0 {
					t.Errorf("renewed: %+v, %v", l, err)
				}
			})
		})
	}
}

// TestLivesAreForgotten: what is noted of workers is bounded by those there are.
func TestLivesAreForgotten(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, g *rig) {
		w := Worker{Ranks: make([]Rank, 1)}
		for i := range 3 * maxLives {
			w.ID, w.Ranks[0].Incarnation = fmt.Sprint(i), uint64(i+1)
			if g.another(&w) || g.begin(&w) || len(g.lives) > maxLives {
				t.Fatalf("%d lives are noted", len(g.lives))
			}
		}
	})
}

// TestRefusals: every problem is named by its path, and nothing is touched.
func TestRefusals(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, g *rig) {
		h, err := g.host(t.Context(), scopeA)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			base   Worker
			change func(w *Worker)
			rule   validate.Rule
			field  string
		}{
			{"no id", owned(t, "", 1), func(*Worker) {}, validate.JSONMissing, "id"},
			{"dots", owned(t, "..", 1), func(*Worker) {}, validate.JSONType, "id"},
			{"slash", owned(t, "a/b", 1), func(*Worker) {}, validate.JSONType, "id"},
			{"no model", owned(t, "w", 1), func(w *Worker) { w.Model = "" }, validate.JSONMissing, "model"},
			{"no ranks", owned(t, "w", 1), func(w *Worker) { w.Ranks, w.HintEndpoints = nil, nil }, validate.EmptyDescriptors, "ranks"},
			{"loopback", owned(t, "w", 1), func(w *Worker) { w.Ranks[1].Endpoints[0] = "tcp://127.1:5558" }, validate.HostLoopbackAddress, "ranks[1].raw_zmq_endpoint"},
			{"R7 rank without hint endpoint", owned(t, "w", 1), func(w *Worker) { delete(w.HintEndpoints, "1") }, validate.HintRankMissing, "router_hint_source_control_endpoints"},
			{"unknown carrier", owned(t, "w", 1), func(w *Worker) { w.HintCarrier = "pigeon" }, validate.JSONType, "hint_carrier"},
			{"long link", owned(t, "w", 1), func(w *Worker) { w.HintLink = strings.Repeat("x", 257) }, validate.JSONType, "hint_link"},
			{"width that is not there", owned(t, "w", 1), func(w *Worker) {
				w.HintTP, w.Ranks[1].Endpoints = 4, []string{"tcp://10.0.0.1:5558", "tcp://10.0.0.1:5568"}
			}, validate.JSONNumber, "hint_tp"},
			{"link without type", owned(t, "w", 1), func(w *Worker) { w.WorkerType, w.HintEndpoints, w.HintLink = "", nil, "rdma" }, validate.JSONMissing, "router_hint_worker_type"},
			{"endpoints without type", owned(t, "w", 1), func(w *Worker) { w.WorkerType = "" }, validate.JSONMissing, "router_hint_worker_type"},
			{"no incarnation", owned(t, "w", 1), func(w *Worker) { w.Ranks[0].Incarnation = 0 }, validate.JSONNumber, "ranks[0].intent_incarnation"},
			{"54 bits", owned(t, "w", 1), func(w *Worker) { w.Ranks[0].Incarnation = 1 << 53 }, validate.JSONNumber, "ranks[0].intent_incarnation"},
			{"one incarnation for two", owned(t, "w", 1), func(w *Worker) { w.Ranks[1].Incarnation = w.Ranks[0].Incarnation }, validate.JSONTwice, "ranks[1].intent_incarnation"},
			{"another domain", owned(t, "w", 1), func(w *Worker) { w.Domain = &identity.IndexerDomain{} }, validate.DescriptorDomain, "ranks[0].indexer_domain_id"},
			{"two scopes", owned(t, "w", 1), func(w *Worker) { w.Ranks[1].Owner = ownerID(t, scopeB, 9) }, validate.IntentScope, "ranks[1].cache_owner_id"},
			{"another host", owned(t, "w", 1), func(w *Worker) { w.TargetHost = h.Instance + 1 }, validate.IntentHost, "target_host"},
			{"plain without ranks", plainWorker("p", 1), func(w *Worker) { w.Ranks = nil }, validate.EmptyDescriptors, "ranks"},
			{"plain from rank 1", plainWorker("p", 1), func(w *Worker) { w.Ranks = w.Ranks[1:] }, validate.JSONNumber, "ranks[0].dp_rank"},
			{"plain on other ports", plainWorker("p", 1), func(w *Worker) { w.Ranks[1].Endpoints[0] = "tcp://10.1.0.1:5560" }, validate.EndpointPort, "ranks[1].raw_zmq_endpoint"},
			{"plain with unequal shards", plainWorker("p", 1), func(w *Worker) { w.Ranks[1].Endpoints = append(w.Ranks[1].Endpoints, "tcp://h:1") }, validate.DescriptorEndpoint, "ranks[1].raw_zmq_endpoint"},
			{"plain on a wildcard", plainWorker("p", 1), func(w *Worker) { w.Ranks[0].Endpoints[0] = "tcp://*:5557" }, validate.HostLoopbackName, "ranks[0].raw_zmq_endpoint"},
			{"plain with topics", plainWorker("p", 1), func(w *Worker) { w.Ranks[1].Topic = "t" }, validate.DescriptorTopic, "ranks[1].raw_topic"},
			{"plain with incarnation", plainWorker("p", 1), func(w *Worker) { w.Ranks[0].Incarnation = 1 }, validate.JSONUnknown, "ranks[0].intent_incarnation"},
			{"plain with uneven hints", plainWorker("p", 1), func(w *Worker) {
				w.WorkerType, w.HintEndpoints = "decode", map[string]string{"0": "tcp://h:1", "1": "tcp://g:2"}
			}, validate.EndpointPort, "router_hint_source_control_endpoints[1]"},
			{"too many ranks", plainWorker("p", 1), func(w *Worker) { w.Ranks = make([]Rank, MaxRanks+1) }, validate.JSONNumber, "ranks"},
		} {
			w := c.base.clone()
			c.change(&w)
			_, err := g.Register(t.Context(), w)
			var list validate.Errors
			if !errors.As(err, &list) || !errors.Is(err, c.rule) || !slices.ContainsFunc(list, func(e *validate.Error) bool { return e.Rule == c.rule && e.Field == c.field }) {
				t.Errorf("%s: %v is not %v of %s", c.name, err, c.rule, c.field)
			}
		}
		if len(g.Registrations()) != 0 || len(g.plane.endpoints()) != 0 || len(g.sources.ids()) != 0 || g.Count(Refused) != 27 {
			t.Errorf("left: %v, %d refused", g.Registrations(), g.Count(Refused))
		}
	})
}

// TestMetadata: what the engine published must agree with what is registered.
func TestMetadata(t *testing.T) {
	const settings = `"enable_hierarchical_cache":true,"nnodes":1,"pp_size":1,"tokenizer_worker_num":1,"mode":"storage","remote_hints":true,"event_format":"dynamo"`
	metadata := func(owners string) string {
		return `{"dynamo_state_agent":{"publish_inventory":true,"raw_advertise_host":"w1","cache_owner_ids":{` + owners + `}}}`
	}
	owner := func(n int) string { return `"` + ownerText(scopeA, n) + `"` }
	bubble(t, Options{}, func(t *testing.T, g *rig) {
		for _, c := range []struct {
			name, metadata, settings string
			rule                     validate.Rule
			field                    string
		}{
			{"whole", metadata(`"0":` + owner(2) + `,"1":` + owner(3)), settings, 0, ""},
			{"another owner", metadata(`"0":` + owner(2) + `,"1":` + owner(4)), settings, validate.MetadataShape, "ranks[1].cache_owner_id"},
			{"rank missing", metadata(`"0":` + owner(2)), settings, validate.OwnerRankMissing, "dynamo_state_agent.cache_owner_ids"},
			{"plain engine", `{"other":{}}`, settings, validate.MetadataShape, "metadata"},
			{"inventory off", `{"dynamo_state_agent":{"publish_inventory":false}}`, settings, validate.MetadataShape, "metadata"},
			{"setting not stated", metadata(`"0":` + owner(2) + `,"1":` + owner(3)), strings.Replace(settings, `"nnodes":1,`, "", 1), validate.SettingMissing, "nnodes"},
			{"linker mode", metadata(`"0":` + owner(2) + `,"1":` + owner(3)), strings.Replace(settings, "storage", "linker", 1), validate.SettingUnfit, "mode"},
		} {
			o := validate.ReadObject([]byte(`{"metadata":` + c.metadata + `,"settings":{` + c.settings + `}}`))
			w := owned(t, "w1", 1)
			w.Metadata, w.Settings = o.Raw("metadata"), o.Raw("settings")
			if o.Err() != nil {
				t.Fatal(o.Err())
			}
			_, err := g.Register(t.Context(), w)
			var one *validate.Error
			if c.rule == 0 {
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			} else if !errors.As(err, &one) || one.Rule != c.rule || one.Field != c.field {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	})
}

func TestPlainWorker(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, g *rig) {
		w := plainWorker("p1", 1)
		w.WorkerType, w.HintEndpoints = "decode", map[string]string{"0": "tcp://10.1.0.1:23280", "1": "tcp://10.1.0.1:23284"}
		w.HintCarrier, w.HintLink, w.HintTP = "kv_transfer_params.kv_hint", "rdma", 4
		l, err := g.Register(t.Context(), w)
		if err != nil || l.ID != "p1" || l.Scope != "" {
			t.Fatal(l, err)
		}
		s := g.sources.all["p1"]
		want := engine.Source{ID: "p1", Model: "m", Endpoint: "tcp://10.1.0.1:5557", Ranks: 2, Hint: &engine.HintConfig{WorkerType: "decode", Endpoint: "tcp://10.1.0.1:23280", Stride: 4, Carrier: "kv_transfer_params.kv_hint", Link: "rdma", TP: 4}}
		if !reflect.DeepEqual(s, want) {
			t.Errorf("source %+v, want %+v", s, want)
		}
		for range 4 {
			time.Sleep(10 * time.Second)
			if _, err := g.Register(t.Context(), w); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Second)
			if _, err := g.Renew("p1"); err != nil {
				t.Error(err)
			}
		}
		if regs := g.Registrations(); len(regs) != 1 || regs[0].Renewals != 8 || regs[0].Left != DefaultTTL || regs[0].Protocol != "framework_v1" {
			t.Errorf("registrations %+v", regs)
		}
		time.Sleep(DefaultTTL + time.Second)
		synctest.Wait()
		if ids := g.sources.ids(); len(ids) != 0 || g.Count(Expired) != 1 {
			t.Errorf("expired, and followed: %v", ids)
		}
		if _, err := g.Renew("p1"); !errors.Is(err, residency.ErrUnknownLease) {
			t.Errorf("renewal of what expired: %v", err)
		}
		w.TTL = 0
		if _, err := g.Register(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if len(g.sources.ids()) != 1 {
			t.Error("a lease without end ended")
		}
		if err := g.Release(t.Context(), "p1"); err != nil || len(g.sources.ids()) != 0 {
			t.Error(err)
		}
		if err := g.Release(t.Context(), "p1"); !errors.Is(err, residency.ErrUnknownLease) {
			t.Errorf("released twice: %v", err)
		}
	})
}

// TestPlainFailures: what AddSource refuses leaves no lease, for the caller or
// those who asked for the same meanwhile.
func TestPlainFailures(t *testing.T) {
	bubble(t, Options{MaxPlain: 1}, func(t *testing.T, g *rig) {
		no := errors.New("no")
		g.sources.fail, g.sources.hold = no, make(chan struct{})
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				if _, err := g.Register(t.Context(), plainWorker("p1", 1)); !errors.Is(err, no) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := g.Register(t.Context(), plainWorker("p2", 2)); !errors.Is(err, ErrFull) {
			t.Errorf("over the limit: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Register(ended, plainWorker("p1", 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		close(g.sources.hold)
		calls.Wait()
		if len(g.Registrations()) != 0 {
			t.Errorf("left: %+v", g.Registrations())
		}
	})
}

// TestScopes: scopes without slots make room for others.
func TestScopes(t *testing.T) {
	bubble(t, Options{MaxScopes: 1}, func(t *testing.T, g *rig) {
		if _, err := g.Register(t.Context(), owned(t, "w1", 1)); err != nil {
			t.Fatal(err)
		}
		other := owned(t, "w2", 2)
		for i := range other.Ranks {
			other.Ranks[i].Owner = ownerID(t, scopeB, i)
		}
		if _, err := g.Register(t.Context(), other); !errors.Is(err, ErrFull) {
			t.Errorf("second scope: %v", err)
		}
		if err := g.Release(t.Context(), "w1"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := g.Register(t.Context(), other); err != nil {
			t.Errorf("once the first is empty: %v", err)
		}
		if hosts := g.control.Hosts(); len(hosts) != 1 || hosts[0].Scope != scopeB {
			t.Errorf("hosts %+v", hosts)
		}
	})
}

func TestUnsupported(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a registrar of nothing is made")
	}
	r, err := New(Options{Sources: newFakeSources()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Register(t.Context(), owned(t, "w1", 1)); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	_, err = r.Renew("x")
	if err := errors.Join(err, r.Release(t.Context(), "x")); !errors.Is(err, residency.ErrUnknownLease) {
		t.Error(err)
	}
}

// TestConcurrentCalls: any order of the same calls leaves the registry whole.
func TestConcurrentCalls(t *testing.T) {
	g := newRig(t, Options{MaxSlots: 64})
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for n := range 20 {
				w := owned(t, fmt.Sprintf("w%d", n%4), 1+n%4)
				p := plainWorker(fmt.Sprintf("p%d", n%4), 1+n%4)
				g.Register(t.Context(), w)
				g.Register(t.Context(), p)
				g.Renew(p.ID)
				g.Registrations()
				if (i+n)%3 == 0 {
					g.Release(t.Context(), w.ID)
					g.Release(t.Context(), p.ID)
				}
			}
		})
	}
	calls.Wait()
	for n := range 4 {
		for _, id := range []string{fmt.Sprintf("w%d", n), fmt.Sprintf("p%d", n)} {
			if err := g.Release(t.Context(), id); err != nil && !errors.Is(err, residency.ErrUnknownLease) {
				t.Error(err)
			}
		}
	}
	if left := g.Registrations(); len(left) != 0 || len(g.sources.ids()) != 0 {
		t.Errorf("left: %+v, %v", left, g.sources.ids())
	}
	g.close(t)
}
