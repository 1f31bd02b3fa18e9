package tree_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// A reader that loses every walk is answered by the writer, exactly.
func TestWriterAnswersReaderThatAlwaysLoses(t *testing.T) {
	x := tree.New(tree.Options{Seed: 1})
	a, b := add(t, x), add(t, x)
	put(x, a, 0, 1, 2, 3, 4)
	put(x, a, 4, 5)
	put(x, b, 0, 1, 2, 3, 4)

	// Within every walk b loses a block of the first run and gets it back.
	var disturb atomic.Bool
	var mu sync.Mutex // whoever writes
	disturb.Store(true)
	x.Hook(nil, func() {
		if disturb.Load() {
			mu.Lock()
			take(x, b, 4)
			put(x, b, 3, 4)
			mu.Unlock()
		}
	})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // the writer, which turns up only when a reader pleads
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if x.Pleading() {
				disturb.Store(false)
				mu.Lock()
				x.Step()
				mu.Unlock()
				disturb.Store(true)
			}
		}
	}()
	// A writer that is kept from its processor may find that the reader has
	// taken its plea back, and leave it a walk undisturbed: then it asks again.
	reader, got := x.NewReader(), []tree.Depths(nil)
	for asked := false; !asked; asked = x.Stats().Pleas > 0 {
		got = reader.Match(0, []uint64{1, 2, 3, 4, 5})
		if anyOf(got, a) != 5 || anyOf(got, b) < 3 {
			t.Fatalf("answer %v, want 5 and 3 or 4", got)
		}
	}
	disturb.Store(false)
	close(stop)
	<-done
	if anyOf(got, a) != 5 || anyOf(got, b) != 4 {
		t.Errorf("answer %v, want 5 and 4", got)
	}
	if st := x.Stats(); st.Pleas == 0 || st.Retries < 256 {
		t.Errorf("%d queries answered by the writer after %d retries, want 1 or more, after 256", st.Pleas, st.Retries)
	}
}

// Waiting blocks are bounded over all holders too: the one who announces gives
// up its own oldest.
func TestWaitingIsBoundedInAll(t *testing.T) {
	x := tree.New(tree.Options{Seed: 1, Waiting: 3})
	a, b := add(t, x), add(t, x)
	orphan := func(h tree.Holder, name uint64) tree.Outcome {
		return x.Store(tree.Owner{Holder: h}, &tree.Store{HasParent: true, Parent: 99, Span: 1, Pairs: []uint64{name, name}})
	}
	for _, step := range []struct {
		h       tree.Holder
		name    uint64
		dropped int
	}{{a, 1, 0}, {a, 2, 0}, {b, 3, 0}, {b, 4, 1}, {a, 5, 1}} {
		if out := orphan(step.h, step.name); out.Dropped != step.dropped {
			t.Errorf("block %d: %d dropped, want %d", step.name, out.Dropped, step.dropped)
		}
	}
	if st := x.Stats(); st.Waiting != 3 {
		t.Errorf("%d wait, want 3", st.Waiting)
	}
	put(x, a, 0, 99)
	got := x.NewReader().Match(0, []uint64{99, 2})
	if anyOf(got, a) != 2 {
		t.Errorf("block 2 of the first holder was given up: %v", got)
	}
	if n := anyOf(x.NewReader().Match(0, []uint64{99, 1}), a); n != 1 {
		t.Errorf("the oldest block is still there: depth %d", n)
	}
}
