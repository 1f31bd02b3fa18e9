package ingest

import "testing"

func TestPythonHash(t *testing.T) {
	for _, c := range []struct {
		tokens []uint32
		want   uint64
	}{
		{nil, pythonRoot},
		{span(1, 4), 590899387183067792},
		{span(5, 8), 1180810341090028427},
	} {
		if got := pythonHash(c.tokens); got != c.want {
			t.Errorf("%v: %d, want %d", c.tokens, got, c.want)
		}
	}
}

// Pages as SGLang up to 0.5.5.post3 announces them, under their tokens' hash.
func TestUnsoundReleases(t *testing.T) {
	page := func(parent any, from uint32) []byte {
		tokens := span(from, from+3)
		return fields{"BlockStored", []uint64{pythonHash(tokens)}, parent, tokens, 4, nil}.array()
	}
	second := pythonHash(span(5, 8))
	t.Run("0.4.8, where the root has a name", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, page(uint64(pythonRoot), 1), page(pythonHash(span(1, 4)), 5), page(second, 9))
		f.wait(0)
		r.device(span(1, 12), 3)
		f.state(Worker, Exact, "")
	})
	t.Run("0.5.1, where every node begins without a parent", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, storeX)
		f.live(1, page(nil, 1), page(pythonHash(span(1, 4)), 5))
		f.wait(1)
		f.state(Worker, Fenced, CauseUnsound)
		r.device(span(1, 8), 0)
		r.device(span(21, 24), 0)
	})
	t.Run("taken on purpose", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{TakeUnsound: true})
		f.live(0, page(nil, 1), page(pythonHash(span(1, 4)), 5))
		f.wait(0)
		r.device(span(1, 8), 2)
	})
	t.Run("names of other releases", func(t *testing.T) {
		r := newRig(t, 0)
		f := r.feed(Options{})
		f.live(0, fields{"BlockStored", []uint64{pythonHash(span(1, 4)) + 1}, nil, span(1, 4), 4, nil}.array())
		f.wait(0)
		r.device(span(1, 4), 1)
		f.state(Worker, Exact, "")
	})
}
