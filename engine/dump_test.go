package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

func dumpOf(t testing.TB, e *Engine) string {
	t.Helper()
	var b bytes.Buffer
	if err := e.Dump(patience(t), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDumpText is the text itself: the example of the hash vectors.
func TestDumpText(t *testing.T) {
	for _, ix := range indexes {
		t.Run(ix.name, func(t *testing.T) {
			e := openEngine(t, Options{NewIndex: ix.make})
			addWorker(t, e, "w 2", "127.0.0.1", 1, dialects[1], nil)
			w := addWorker(t, e, "w1", "127.0.0.1", 2, dialects[1], nil)
			w.say(t, event{names: []uint64{10, 11}, tokens: count(1, 8), medium: "GPU", size: 4})
			w.say(t, event{names: []uint64{13}, parent: 12, hasParent: true, tokens: count(9, 12), medium: "GPU", size: 4})
			w.shards[1].send(event{remove: true, names: []uint64{11}, medium: "GPU"}, event{names: []uint64{10}, tokens: count(1, 4), medium: "CPU", size: 4},
				event{names: []uint64{10}, tokens: count(1, 4), medium: "GPU", size: 4})
			w.settle(t)
			want := `cairn dump 1 additive-v1-salt0
holder "w 2" 0 worker model=m policy=copies tp=1 blocks=0 waiting=0
stream "w 2" 0 tp=0 applied=none
holder w1 0 worker model=m policy=copies tp=2 blocks=4 waiting=2
stream w1 0 tp=0 applied=1
stream w1 0 tp=1 applied=2
block w1 0 worker unit=4+0 end=4 chain=cb38e4d7fb2dca5c name=000000000000000a device tp=0 span=1 copies=1
block w1 0 worker unit=4+0 end=4 chain=cb38e4d7fb2dca5c name=000000000000000a device tp=1 span=1 copies=2
block w1 0 worker unit=4+0 end=4 chain=cb38e4d7fb2dca5c name=000000000000000a host tp=1 span=1 copies=1
block w1 0 worker unit=4+0 end=8 chain=44a2b2379d6d3c3d name=000000000000000b device tp=0 span=1 copies=1
waits w1 0 worker name=000000000000000d parent=000000000000000c chain=06b748f1777d599c device tp=0 span=1 copies=1
waits w1 0 worker name=000000000000000d parent=000000000000000c chain=06b748f1777d599c device tp=1 span=1 copies=1
`
			if d := cmp.Diff(want, dumpOf(t, e)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestDumpIsCanonical: what order workers were added in and spoke in, how many
// shards there are and what the index is does not show.
func TestDumpIsCanonical(t *testing.T) {
	play := func(o Options, order []string) string {
		e := openEngine(t, o)
		workers := map[string]*worker{}
		for _, id := range order {
			workers[id] = addWorker(t, e, id, "127.0.0.1", 1, dialects[len(id)%2], func(s *Source) {
				s.Protocol = HiCacheV1
				s.Model = "m" + id[:1]
			})
		}
		for i, id := range order {
			w := workers[id]
			size := 4 * len(id) // several tries
			w.say(t, event{names: []uint64{1, 2, 3}, tokens: count(1, uint32(3*size)), medium: "GPU", size: size})
			w.say(t, event{names: []uint64{3}, parent: 2, hasParent: true, tokens: count(1, uint32(size)), medium: "CPU", size: size, owner: "kvcr"})
			if i%2 == 0 {
				continue
			}
			w.sendAs(t, 3, event{names: []uint64{9}, tokens: count(1, uint32(size)), medium: "GPU", size: size, salt: "s"})
		}
		for i, id := range order { // so that all have said the same
			if i%2 == 0 {
				workers[id].sendAs(t, 3, event{names: []uint64{9}, tokens: count(1, uint32(4*len(id))), medium: "GPU", size: 4 * len(id), salt: "s"})
			}
		}
		return dumpOf(t, e)
	}
	want := play(Options{}, []string{"a", "bb", "aaa", "b", "aa", "bbb"})
	if n := strings.Count(want, "\nblock "); n != 24 {
		t.Errorf("%d blocks in\n%s", n, want)
	}
	for name, got := range map[string]string{
		"another order": play(Options{}, []string{"bbb", "aa", "a", "b", "aaa", "bb"}),
		"three shards":  play(Options{Shards: 3}, []string{"b", "a", "aa", "bb", "aaa", "bbb"}),
		"the reference": play(Options{NewIndex: func() tree.Interface { return model.New() }}, []string{"aa", "b", "bbb", "a", "bb", "aaa"}),
	} {
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// mute is an index that cannot tell what it holds.
type mute struct{ tree.Interface }

func TestDumpErrors(t *testing.T) {
	e := openEngine(t, Options{NewIndex: func() tree.Interface { return mute{model.New()} }})
	if err := e.Dump(context.Background(), &bytes.Buffer{}); !errors.Is(err, ErrNoDump) {
		t.Errorf("%v, want ErrNoDump", err)
	}
	if err := e.Close(patience(t)); err != nil {
		t.Fatal(err)
	}
	if err := e.Dump(context.Background(), &bytes.Buffer{}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}
