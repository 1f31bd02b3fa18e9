package shard

import (
	"math"
	"reflect"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// TestRecordKeepsEveryField fills each field with its extremes: a field that
// is too narrow, or runs into its neighbour, shows.
func TestRecordKeepsEveryField(t *testing.T) {
	full := Head{Holder: math.MaxUint32, Generation: math.MaxUint32, Tier: tree.NumTiers - 1, Shard: tree.MaxShards - 1}
	for _, c := range []struct {
		name string
		h    Head
		s    StoreHead
	}{
		{"zeros", Head{}, StoreHead{}},
		{"holder alone", Head{Holder: math.MaxUint32}, StoreHead{Span: 1}},
		{"generation alone", Head{Generation: math.MaxUint32}, StoreHead{Span: 1}},
		{"tier alone", Head{Tier: tree.Unknown}, StoreHead{Span: 1}},
		{"shard alone", Head{Shard: tree.MaxShards - 1}, StoreHead{Span: 1}},
		{"root alone", Head{}, StoreHead{Root: tree.MaxRoot}},
		{"span alone", Head{}, StoreHead{Span: math.MaxInt32}},
		{"parent 0", full, StoreHead{HasParent: true}},
		{"parent, not flagged", full, StoreHead{Parent: math.MaxUint64}},
		{"keep meaning", full, StoreHead{KeepMeaning: true}},
		{"skip unknown", full, StoreHead{SkipUnknown: true}},
		{"everything", full, StoreHead{tree.MaxRoot, true, math.MaxUint64, math.MaxInt32, true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := record{99, 99, 99, 99, 7, 8}
			r.setStore(c.h, c.s)
			want := tree.Store{
				Root: c.s.Root, HasParent: c.s.HasParent, Parent: c.s.Parent, Span: c.s.Span,
				KeepMeaning: c.s.KeepMeaning, SkipUnknown: c.s.SkipUnknown, Pairs: []uint64{7, 8},
			}
			if got := r.store(); !reflect.DeepEqual(got, want) {
				t.Errorf("store = %+v, want %+v", got, want)
			}
			if got, want := r.owner(), (tree.Owner{Holder: c.h.Holder, Tier: c.h.Tier, Shard: c.h.Shard}); got != want {
				t.Errorf("owner = %+v, want %+v", got, want)
			}
			if r.kind() != kindStore || r.words() != 6 || r.gen() != c.h.Generation || r.shard() != int(c.h.Shard) {
				t.Errorf("kind %d words %d generation %d shard %d", r.kind(), r.words(), r.gen(), r.shard())
			}
		})
	}
}
