package tree_test

import (
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// upTo is 1 … n: a query, and the blocks of a chain.
func upTo(n uint64) []uint64 {
	var c []uint64
	for i := uint64(1); i <= n; i++ {
		c = append(c, i)
	}
	return c
}

// Pitfall: a group gets another reach, and other members, between the two words
// of it that a walk reads: those are taken for holders of the old reach.
func TestGroupChangesItsReachUnderReader(t *testing.T) {
	var few []tree.Holder
	during(t, func() (*tree.Index, []uint64, func()) {
		x := tree.New(tree.Options{Seed: 1}).Eager()
		few = few[:0]
		hold := func(n uint64, holders int) (all []tree.Holder) {
			for range holders {
				h := add(t, x)
				put(x, h, 0, upTo(n)...)
				all = append(all, h)
			}
			return all
		}
		hold(14, 3) // in the run's header
		six := hold(6, 2)
		hold(5, 3)
		hold(4, 3)
		few = append(few, hold(2, 3)...) // no group is left for them
		return x, upTo(6), func() {
			// Those with six go on, so that their group is the smallest, until
			// so many are in no group that others are looked for.
			for n := uint64(7); n < 13; n++ {
				for _, h := range six {
					put(x, h, n-1, n)
				}
			}
			x.Step()
			if err := x.Check(); err != nil {
				t.Error(err)
			}
		}
	}, func(t *testing.T, pause int, got []tree.Depths) {
		for _, h := range few {
			if n := anyOf(got, h); n != 2 {
				t.Errorf("pause %d: %d of a holder that has 2 all along", pause, n)
			}
		}
	})
}
