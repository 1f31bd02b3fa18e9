package tree_test

import (
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// long is a prompt of n blocks that nobody else has.
func long(first uint64, n int) *tree.Store {
	s := &tree.Store{Span: 1}
	for i := range uint64(n) {
		s.Pairs = append(s.Pairs, first+i, first+i)
	}
	return s
}

// What a cleared holder had in long runs makes room for others at once, though
// it is taken away in pieces.
func TestClearedRunsMakeRoom(t *testing.T) {
	x := tree.New(tree.Options{Seed: 1, Bytes: 2 << 20})
	a, b := add(t, x), add(t, x)
	for i := uint64(1); ; i++ {
		if out := x.Store(tree.Owner{Holder: a}, long(i<<20, 2048)); out.Refused > 0 || x.Stats().Evicted > 0 {
			break
		}
	}
	x.Clear(a)
	before := x.Stats().Evicted
	if out := x.Store(tree.Owner{Holder: b}, long(1<<50, 2048)); out.New != 2048 || x.Stats().Evicted > before {
		t.Errorf("of 2,048 blocks %d found room, %d were refused, %d evicted for them", out.New, out.Refused, x.Stats().Evicted-before)
	}
	if err := x.Check(); err != nil {
		t.Error(err)
	}
}

// What a cleared holder had is taken back as fast as it can bring more: blocks
// that wait, and blocks that it holds.
func TestClearedHoldersDoNotPileUp(t *testing.T) {
	for name, orphans := range map[string]bool{"waiting": true, "held": false} {
		t.Run(name, func(t *testing.T) {
			x := tree.New(tree.Options{Seed: 1})
			h := add(t, x)
			early := 0
			for i := range uint64(60) {
				s := long((i+1)<<20, 5000)
				s.HasParent, s.Parent = orphans, 1
				x.Store(tree.Owner{Holder: h}, s)
				x.Clear(h)
				if i == 5 {
					early = x.Stats().Bytes
				}
			}
			if late := x.Stats().Bytes; late > 2*early {
				t.Errorf("%d bytes after 6 rounds, %d after 60", early, late)
			}
			for x.Step() {
			}
			if st := x.Stats(); st.Waiting+st.Runs+st.Names+st.Deferred > 0 {
				t.Errorf("left: %+v", st)
			}
		})
	}
}

// The last id of all can be had again once its holder is gone.
func TestLastIDComesBack(t *testing.T) {
	x := tree.New(tree.Options{Seed: 1})
	var last tree.Holder
	for {
		h, err := x.AddHolder(tree.Copies, 1)
		if err != nil {
			break
		}
		last = h
	}
	put(x, last, 0, 1, 2)
	x.Drop(last)
	if _, err := x.AddHolder(tree.Copies, 1); err != nil {
		t.Error(err)
	}
}
