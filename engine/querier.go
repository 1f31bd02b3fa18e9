package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/content"
	"github.com/cairn-kv/cairn/tree/shard"
)

// querier is what one query in flight needs beside the caller's own buffers: a
// reader per shard and scratch space. Queriers are pooled and never shared.
type querier struct {
	readers []tree.Reader // per shard

	hashes [][]uint64       // per unit of the model: content hashes of the prompt
	keys   content.Keys     // of the unit being hashed
	before []shard.Position // applied per stream of the model, before the walk
	after  []shard.Position // begun after it, of the holders for which it was noted
	survey *survey          // of the model, from before positions were noted
	found  []finding        // holders met
	slot   []int32          // holder → index in found + 1; all zero between queries
	order  []uint64         // of findings, deepest first: see sort
	cands  []hint.Candidate
	at     []int32      // of cands: index in found, or below 0 in ranged.spans
	choice hint.Scratch // of decisions
	ranged rangeQuery

	revision uint64 // of the view
}

// finding is a holder with its depths in tokens.
type finding struct {
	holder int32 // index in modelView.holders
	tokens [tree.NumViews]int
	// walk and units tell where the depth that a hint goes by was found.
	walk  int32
	units int32
}

// maxPooledWords bounds what an idle querier keeps: 8 MiB of hashes.
const maxPooledWords = 1 << 20

// pool is a fixed set of idle queriers. Unlike sync.Pool it never takes a
// lock and is not emptied by the collector; a burst beyond its size makes
// queriers that are given to the collector afterwards.
type pool struct {
	slots []atomic.Pointer[querier]
	make  func() *querier
}

func newPool(size int, make_ func() *querier) *pool {
	return &pool{slots: make([]atomic.Pointer[querier], size), make: make_}
}

// get takes an idle querier or makes one.
func (p *pool) get() *querier {
	// Start anywhere: goroutines that all began at slot 0 would fight for it.
	for i, n := int(rand.Uint32()>>1), len(p.slots); n > 0; i, n = i+1, n-1 {
		s := &p.slots[i%len(p.slots)]
		if s.Load() == nil {
			continue
		}
		if q := s.Swap(nil); q != nil {
			return q
		}
	}
	return p.make()
}

// put gives a querier back.
func (p *pool) put(q *querier) {
	words := cap(q.keys.Hashes) + cap(q.keys.Ends)
	for _, h := range q.hashes {
		words += cap(h)
	}
	if words > maxPooledWords {
		return
	}
	for i, n := int(rand.Uint32()>>1), len(p.slots); n > 0; i, n = i+1, n-1 {
		s := &p.slots[i%len(p.slots)]
		if s.Load() == nil && s.CompareAndSwap(nil, q) {
			return
		}
	}
}

// hash makes the prompt's content hashes for every unit of the model.
func (k *querier) hash(m *modelView, q *Query) error {
	for len(k.hashes) < len(m.units) {
		k.hashes = append(k.hashes, nil)
	}
	if q.Contents != nil {
		for i, u := range m.units {
			k.hashes[i] = k.hashes[i][:0]
			if u.unit == q.BlockSize && u.lookahead == 0 {
				k.hashes[i] = append(k.hashes[i], q.Contents...)
			}
		}
		return nil
	}
	seeds := content.MakeSeeds(q.Adapter, q.Salt)
	for i, u := range m.units {
		var keys *content.Keys
		if len(q.Keys) > 0 {
			if err := k.cut(q, u); err != nil {
				return err
			}
			keys = &k.keys
		}
		k.hashes[i] = content.Append(k.hashes[i][:0], q.Tokens, u.unit, u.lookahead, seeds.First, seeds.Rest, keys)
	}
	return nil
}

// cut lays the query's keys out by unit: count per unit, sum up, fill.
func (k *querier) cut(q *Query, u unitKey) error {
	n := content.Count(len(q.Tokens), u.unit, u.lookahead)
	k.keys.Reset()
	for range n {
		k.keys.Ends = append(k.keys.Ends, 0)
	}
	total := 0
	for _, key := range q.Keys {
		from, to := key.units(u.unit, n)
		if total += max(to-from, 0); total > MaxKeyTouches {
			return ErrKeys
		}
		for i := from; i < to; i++ {
			k.keys.Ends[i]++
		}
	}
	sum := 0
	for i, c := range k.keys.Ends {
		k.keys.Ends[i] = sum // where unit i begins, until it is filled
		sum += c
	}
	for range sum {
		k.keys.Hashes = append(k.keys.Hashes, 0)
	}
	for _, key := range q.Keys {
		from, to := key.units(u.unit, n)
		for i := from; i < to; i++ {
			k.keys.Hashes[k.keys.Ends[i]] = key.Hash
			k.keys.Ends[i]++ // ends where the next begins, once all are in
		}
	}
	return nil
}

// units returns the units that a key touches, cut to the prompt's n.
func (k Key) units(unit, n int) (from, to int) {
	if k.Length == 0 {
		return 0, 0
	}
	from = k.Offset / unit
	if k.Length > n*unit-k.Offset { // Offset + Length may overflow
		return from, n
	}
	return from, (k.Offset + k.Length + unit - 1) / unit
}

// check refuses queries that cannot be answered.
func (q *Query) check() error {
	if q.Contents != nil {
		switch {
		case len(q.Tokens) > 0:
			return ErrBothForms
		case q.Adapter != "" || q.Salt != "" || len(q.Keys) > 0:
			return ErrSaltedHashes
		case q.BlockSize < 1:
			return ErrBlockSize
		}
		return nil
	}
	for _, k := range q.Keys {
		if k.Offset < 0 || k.Length < 0 {
			return ErrKeys
		}
	}
	return nil
}

// length is the prompt's length in tokens.
func (q *Query) length() int {
	if q.Contents != nil {
		return len(q.Contents) * q.BlockSize
	}
	return len(q.Tokens)
}

// walk asks every trie of the model and joins what each holder has: depths of
// one holder in several tries are each true, so the deepest counts.
func (k *querier) walk(m *modelView) {
	k.found = k.found[:0]
	if n := len(m.holders) - len(k.slot); n > 0 {
		k.slot = append(k.slot, make([]int32, n)...)
	}
	for w, wk := range m.walks {
		hashes := k.hashes[wk.unit]
		p := m.part(wk.shard)
		if len(hashes) == 0 || p == nil {
			continue
		}
		unit := m.units[wk.unit].unit
		for _, d := range k.readers[wk.shard].Match(wk.root, hashes) {
			i := p.holder(d.Holder)
			if i < 0 {
				continue
			}
			if k.slot[i] == 0 {
				k.found = append(k.found, finding{holder: int32(i), walk: int32(w)})
				k.slot[i] = int32(len(k.found))
			}
			f := &k.found[k.slot[i]-1]
			v := m.holders[i].hintView()
			if int(d.Units[v])*unit > f.tokens[v] {
				f.walk, f.units = int32(w), int32(d.Units[v])
			}
			for v, n := range d.Units {
				f.tokens[v] = max(f.tokens[v], int(n)*unit)
			}
		}
	}
}

// sort orders the findings: deepest first by any tier, equals in the order of
// the model's holders. A finding is long and a word is not, so it is words
// that are moved: what is missing to the deepest, and the holder.
func (k *querier) sort() {
	k.order = k.order[:0]
	for i := range k.found {
		f := &k.found[i]
		k.order = append(k.order, uint64(math.MaxUint32-f.tokens[tree.ViewAny])<<32|uint64(f.holder))
	}
	slices.Sort(k.order)
}

// forget empties slot for the next query.
func (k *querier) forget() {
	for i := range k.found {
		k.slot[k.found[i].holder] = 0
	}
	k.found = k.found[:0]
}

// note keeps what every stream of the model had applied before the walk, and
// before it what is known of them.
func (k *querier) note(m *modelView) {
	k.survey = m.survey.Load()
	k.before = shard.AppendApplied(k.before[:0], m.streams)
	k.after = slices.Grow(k.after[:0], len(k.before))[:len(k.before)]
}

// noteAfter keeps what the streams of holder i have begun after the walk. May be
// repeated: what was seen until the last time counts.
func (k *querier) noteAfter(m *modelView, i int) {
	for j, end := m.streamsOf(i), m.streamsOf(i+1); j < end; j++ {
		k.after[j] = m.streams[j].Begun()
	}
}

// position is the interval of stream j of the model, whose after was noted.
func (k *querier) position(j int, seq uint64) StreamPosition {
	before, after := k.before[j], k.after[j]
	return StreamPosition{
		Seq:         seq,
		Applied:     [2]uint64{before.Seq, after.Seq},
		Incarnation: [2]uint32{before.Incarnation, after.Incarnation},
		Any:         [2]bool{before.Any, after.Any},
	}
}

// join widens the interval of a holder by that of one of its streams.
func (p *StreamPosition) join(first bool, applied *[2]uint64) {
	if first {
		*applied = p.Applied
		return
	}
	applied[0], applied[1] = min(applied[0], p.Applied[0]), max(applied[1], p.Applied[1])
}
