package engine

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
	"github.com/cairn-kv/cairn/tree/shard"
)

// TestViewsAreWhatAFreshLayoutIs: sources come, meet ranks and units, and go;
// after every step the view that was made from the one before is the one that
// would be laid out from nothing.
func TestViewsAreWhatAFreshLayoutIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	e := &Engine{walks: map[string]map[placedRoot]int{}}
	e.view.Store(&view{})
	ports := shard.New(shard.Options{Index: model.New(), RingBytes: 512})
	ports.Start(t.Context())
	defer ports.Close()
	var live []*source
	ids := rng.Perm(1 << 16) // of holders; the index gives them in no order
	grow := func(s *source, rank int, d Domain) {
		h := &holder{id: tree.Holder(ids[0]), src: s, rank: rank, domain: d}
		for range 1 + rank%3 {
			port, err := ports.OpenPort(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			h.feeds = append(h.feeds, &feed{port: port, stream: &ingest.Stream{Vitals: new(ingest.Vitals)}})
		}
		ids = ids[1:]
		s.holders = append(s.holders, h)
	}
	for step := range 4000 {
		switch n := rng.IntN(10); {
		case n < 3 && len(live) < 40:
			s := &source{engine: e, spec: Source{ID: fmt.Sprint("w", step), Model: fmt.Sprint("m", rng.IntN(3))},
				shard: rng.IntN(3), role: hint.Role(rng.IntN(2)), roots: map[unitKey]tree.Root{}}
			for r := range 1 + rng.IntN(3) {
				grow(s, r, hint.Worker)
				if n == 0 {
					grow(s, r, hint.CacheOwner)
				}
			}
			live = append(live, s)
			e.show(s)
		case len(live) == 0:
		case n < 5:
			s := live[rng.IntN(len(live))]
			if rank := rng.IntN(12); !slices.ContainsFunc(s.holders, func(h *holder) bool { return h.rank == rank }) {
				grow(s, rank, hint.Worker)
				e.show(s)
			}
		case n < 8:
			s, k := live[rng.IntN(len(live))], unitKey{16 << rng.IntN(3), rng.IntN(2)}
			if _, ok := s.roots[k]; !ok {
				s.roots[k] = tree.Root(len(s.spec.Model) + 10*k.unit + k.lookahead)
				e.share(s, k, s.roots[k], 1)
			}
		default:
			i := rng.IntN(len(live))
			s := live[i]
			live = slices.Delete(live, i, i+1)
			s.gone = true
			e.show(s)
			for k, r := range s.roots {
				e.share(s, k, r, -1)
			}
		}
		if got, want := describe(e.view.Load().models), describe(fresh(live)); got != want {
			t.Fatalf("step %d\n got %s\nwant %s", step, got, want)
		}
	}
	if len(live) > 0 == (len(e.walks) == 0) {
		t.Errorf("%d sources and the walks of %d models", len(live), len(e.walks))
	}
}

// fresh lays models out from nothing, by sorting.
func fresh(live []*source) (all []*modelView) {
	by := map[string][]*source{}
	for _, s := range live {
		by[s.spec.Model] = append(by[s.spec.Model], s)
	}
	for name, sources := range by {
		m := &modelView{name: name, sources: sources}
		slices.SortFunc(m.sources, func(a, b *source) int { return strings.Compare(a.spec.ID, b.spec.ID) })
		var walks []placedRoot
		for _, s := range m.sources {
			m.capable += int(min(1, s.role))
			m.holders = append(m.holders, s.holders...)
			for k, r := range s.roots {
				if at := (placedRoot{k, s.shard, r}); !slices.Contains(walks, at) {
					walks = append(walks, at)
				}
			}
		}
		m = m.walked(walks)
		slices.SortFunc(m.holders, func(a, b *holder) int {
			return cmp.Or(strings.Compare(a.src.spec.ID, b.src.spec.ID), cmp.Compare(a.rank, b.rank), cmp.Compare(a.domain, b.domain))
		})
		streams := int32(0)
		for _, h := range m.holders {
			m.first = append(m.first, streams)
			streams += int32(len(h.feeds))
			for _, f := range h.feeds {
				m.streams, m.vitals = append(m.streams, f.port.Progress()), append(m.vitals, f.stream.Vitals)
			}
		}
		for shard := range 3 {
			p := part{shard: shard}
			for i, h := range m.holders {
				if h.src.shard == shard {
					p.ids, p.at = append(p.ids, h.id), append(p.at, int32(i))
				}
			}
			slices.SortFunc(p.at, func(a, b int32) int { return cmp.Compare(m.holders[a].id, m.holders[b].id) })
			slices.Sort(p.ids)
			if len(p.ids) > 0 {
				m.parts = append(m.parts, p)
			}
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *modelView) int { return strings.Compare(a.name, b.name) })
	return all
}

// describe writes all of some models but the order of their parts, which has no
// meaning.
func describe(all []*modelView) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s capable %d units %v walks %v first %v streams %v %v\n", m.name, m.capable, m.units, m.walks, m.first, m.streams, m.vitals)
		for _, s := range m.sources {
			fmt.Fprintf(&b, " %s", s.spec.ID)
		}
		for _, h := range m.holders {
			fmt.Fprintf(&b, " %s/%d/%s=%d", h.src.spec.ID, h.rank, h.domain, h.id)
		}
		parts := slices.Clone(m.parts)
		slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.shard, b.shard) })
		fmt.Fprintf(&b, "\n%v\n", parts)
	}
	return b.String()
}
