package shard_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test; one that passes never waits so long.
const patience = time.Minute

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await yields until the condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// recorder is an index that writes down what it is told. Its fields are the
// writer goroutine's; tests read them in Do, or after a wait for the batch.
type recorder struct {
	log    []string
	answer tree.Outcome // of every Store, Place and Remove
	steps  int          // Step reports work left this often
	mute   bool         // log nothing
	blocks int          // blocks stored, if mute

	storing func(first uint64) // called with the first name of every Store
}

var _ tree.Writer = (*recorder)(nil)

func (r *recorder) add(format string, args ...any) {
	if !r.mute {
		r.log = append(r.log, fmt.Sprintf(format, args...))
	}
}

func owner(o tree.Owner) string { return fmt.Sprintf("h%d.t%d.s%d", o.Holder, o.Tier, o.Shard) }

func (r *recorder) AddHolder(tree.Policy, int) (tree.Holder, error) { r.add("add"); return 1, nil }

func (r *recorder) Drop(h tree.Holder)                  { r.add("drop h%d", h) }
func (r *recorder) Clear(h tree.Holder)                 { r.add("clear h%d", h) }
func (r *recorder) ClearShard(h tree.Holder, shard int) { r.add("clear h%d.s%d", h, shard) }
func (r *recorder) Hide(h tree.Holder)                  { r.add("hide h%d", h) }
func (r *recorder) Show(h tree.Holder)                  { r.add("show h%d", h) }
func (r *recorder) Stats() tree.Stats                   { return tree.Stats{} }

func (r *recorder) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	if r.storing != nil {
		r.storing(s.Pairs[0])
	}
	if r.mute {
		r.blocks += len(s.Pairs) / (1 + s.Span)
		return r.answer
	}
	var b strings.Builder
	fmt.Fprintf(&b, "store %s r%d/%d", owner(o), s.Root, s.Span)
	if s.HasParent {
		fmt.Fprintf(&b, " behind %d", s.Parent)
	}
	if s.KeepMeaning {
		b.WriteString(" keep")
	}
	if s.SkipUnknown {
		b.WriteString(" skip")
	}
	r.add("%s %v", b.String(), s.Pairs)
	return r.answer
}

func (r *recorder) Place(o tree.Owner, names []uint64) tree.Outcome {
	if !r.mute {
		r.add("place %s %v", owner(o), names)
	}
	return r.answer
}

func (r *recorder) Remove(o tree.Owner, names []uint64) tree.Outcome {
	if !r.mute {
		r.add("remove %s %v", owner(o), names)
	}
	return r.answer
}

func (r *recorder) Step() bool {
	if r.steps == 0 {
		return false
	}
	r.steps--
	r.add("step")
	return true
}

// rig is a running shard on a recorder.
type rig struct {
	*shard.Shard
	t     testing.TB
	index *recorder
}

func start(t testing.TB, ringBytes int) *rig {
	g := &rig{t: t, index: &recorder{}}
	g.Shard = shard.New(shard.Options{Index: g.index, RingBytes: ringBytes})
	g.Start(context.Background())
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return g
}

func (g *rig) port() *shard.Port {
	g.t.Helper()
	p, err := g.OpenPort(within(g.t))
	if err != nil {
		g.t.Fatalf("OpenPort: %v", err)
	}
	return p
}

// do runs fn on the writer.
func (g *rig) do(fn func(w tree.Writer)) {
	g.t.Helper()
	if err := g.Do(within(g.t), fn); err != nil {
		g.t.Fatalf("Do: %v", err)
	}
}

// wantLog compares what the index was told since the last wantLog.
func (g *rig) wantLog(want ...string) {
	g.t.Helper()
	var got []string
	g.do(func(tree.Writer) { got, g.index.log = g.index.log, nil })
	if !slices.Equal(got, want) {
		g.t.Errorf("the index was told\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// hold stops the writer until the returned function is called, or the test
// has failed.
func (g *rig) hold() (release func()) {
	g.t.Helper()
	held, let, end := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		end <- g.Do(context.Background(), func(tree.Writer) { close(held); <-let })
	}()
	<-held
	release = sync.OnceFunc(func() {
		close(let)
		if err := <-end; err != nil {
			g.t.Errorf("Do: %v", err)
		}
	})
	g.t.Cleanup(release) // before start's, which waits for the writer
	return release
}

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// store adds a store of the given pairs, one unit per block.
func store(t testing.TB, p *shard.Port, h shard.Head, s shard.StoreHead, pairs ...uint64) {
	t.Helper()
	if s.Span == 0 {
		s.Span = 1
	}
	to, err := p.Store(within(t), h, s, len(pairs)/(1+s.Span))
	must(t, err)
	if len(to) != len(pairs) {
		t.Fatalf("Store gave %d words, want %d", len(to), len(pairs))
	}
	copy(to, pairs)
}

// waitSeq waits for a batch of the first incarnation.
func waitSeq(t testing.TB, p *shard.Port, seq uint64) {
	t.Helper()
	if err := p.WaitApplied(within(t), shard.Position{Seq: seq, Any: true}); err != nil {
		t.Fatalf("WaitApplied(%d): %v, applied %+v", seq, err, p.Applied())
	}
}
