package tree_test

import (
	"testing"

	"github.com/cairn-kv/cairn/tree/model/differ"
)

// TestRegressions replays what the differential test once found, as it was
// shrunk.
func TestRegressions(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []differ.Op
	}{
		{"a freed run forgets its cell, which another run uses next", []differ.Op{
			{Kind: differ.Add, Holder: 4, Shards: 1},
			{Kind: differ.Store, Holder: 4, Span: 1, Names: []uint64{101}, Contents: []uint64{2}},
			{Kind: differ.Add, Holder: 24, Shards: 1},
			{Kind: differ.Add, Holder: 27, Shards: 2},
			{Kind: differ.Store, Holder: 27, Shard: 1, Span: 1, Names: []uint64{101}, Contents: []uint64{2}},
			{Kind: differ.Add, Holder: 28, Shards: 1},
			{Kind: differ.Store, Holder: 28, Span: 1, Names: []uint64{101}, Contents: []uint64{2}},
			{Kind: differ.Store, Holder: 24, Span: 1, Names: []uint64{101}, Contents: []uint64{2}},
			{Kind: differ.Drain},
			{Kind: differ.Add, Holder: 31, Shards: 1},
			{Kind: differ.Store, Holder: 31, Span: 1, Names: []uint64{102, 103, 104, 105, 106}, Contents: []uint64{0, 0, 0, 0, 0}},
			{Kind: differ.Store, Holder: 24, Span: 1, Names: []uint64{102}, Contents: []uint64{0}},
			{Kind: differ.Store, Holder: 28, Span: 1, Names: []uint64{102}, Contents: []uint64{0}},
			{Kind: differ.Store, Holder: 27, Shard: 1, Span: 1, Names: []uint64{102}, Contents: []uint64{0}},
			{Kind: differ.ClearShard, Holder: 27, Shard: 1},
			{Kind: differ.Query, Contents: []uint64{0, 0}},
		}},
		{"a name that shards hold for blocks of two lengths, then for one", []differ.Op{
			{Kind: differ.Add, Holder: 1, Shards: 2},
			{Kind: differ.Store, Holder: 1, Span: 3, Names: []uint64{101}, Contents: []uint64{1, 2, 3}},
			{Kind: differ.Store, Holder: 1, Shard: 1, Span: 1, Names: []uint64{102, 103, 101}, Contents: []uint64{1, 2, 3}},
			{Kind: differ.Query, Contents: []uint64{1, 2, 3}},
			{Kind: differ.Store, Holder: 1, Span: 1, Names: []uint64{102, 103, 101}, Contents: []uint64{1, 2, 3}},
			{Kind: differ.Query, Contents: []uint64{1, 2, 3}},
		}},
		{"the same on two tiers", []differ.Op{
			{Kind: differ.Add, Holder: 1, Shards: 2},
			{Kind: differ.Store, Holder: 1, Tier: 3, Root: 2, Span: 3, Names: []uint64{0}, Contents: []uint64{1, 1, 1}},
			{Kind: differ.Store, Holder: 1, Tier: 3, Shard: 1, Root: 2, Span: 1, Names: []uint64{101, 102, 0}, Contents: []uint64{1, 1, 1}},
			{Kind: differ.Store, Holder: 1, Root: 2, Span: 1, Names: []uint64{101, 102, 0}, Contents: []uint64{1, 1, 1}},
			{Kind: differ.Query, Root: 2, Contents: []uint64{1, 1, 1}},
		}},
		{"a kept meaning leaves what waits under the name alone", []differ.Op{
			{Kind: differ.Add, Holder: 1, Shards: 1},
			{Kind: differ.Store, Holder: 1, Span: 1, Names: []uint64{101}, Contents: []uint64{1}},
			{Kind: differ.Store, Holder: 1, HasParent: true, Parent: 102, Span: 1, Names: []uint64{101}, Contents: []uint64{2}},
			{Kind: differ.Store, Holder: 1, Span: 1, KeepMeaning: true, Names: []uint64{101}, Contents: []uint64{3}},
			{Kind: differ.Query, Contents: []uint64{1}},
			{Kind: differ.Drain},
		}},
		{"a holder's place may go to one with other shards while its memory waits", []differ.Op{
			{Kind: differ.Add, Holder: 1, Shards: 2},
			{Kind: differ.Store, Holder: 1, Span: 1, Names: []uint64{101}, Contents: []uint64{1}},
			{Kind: differ.Drop, Holder: 1},
			{Kind: differ.Add, Holder: 2, Shards: 1},
			{Kind: differ.Query, Contents: []uint64{1}},
			{Kind: differ.Drain},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			differ.Must(t, newIndex, c.ops, differ.Options{Check: invariants}, "%s", c.name)
		})
	}
}
