package shard_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// at writes a position as incarnation:sequence.
func at(p shard.Position) string {
	if !p.Any {
		return fmt.Sprintf("%d:-", p.Incarnation)
	}
	return fmt.Sprintf("%d:%d", p.Incarnation, p.Seq)
}

// TestBegun asks, from inside every store, how far the port says it is: the
// batch that is being applied is begun and the one before it is applied, in
// whatever pieces it comes.
func TestBegun(t *testing.T) {
	one := func(t *testing.T, p *shard.Port, name uint64) {
		store(t, p, h1, shard.StoreHead{}, name, 11)
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, p *shard.Port, hold func() func())
		want []string // per store: its name, begun, applied
		end  string   // begun and applied when all is done
	}{
		{"one record", func(t *testing.T, p *shard.Port, _ func() func()) {
			one(t, p, 1)
			must(t, p.Commit(0))
		}, []string{"1 0:0 0:-"}, "0:0"},
		{"several records", func(t *testing.T, p *shard.Port, _ func() func()) {
			one(t, p, 1)
			one(t, p, 2)
			must(t, p.Clear(within(t), h1))
			one(t, p, 3)
			must(t, p.Commit(5))
		}, []string{"1 0:5 0:-", "2 0:5 0:-", "3 0:5 0:-"}, "0:5"},
		{"batches, one missing", func(t *testing.T, p *shard.Port, _ func() func()) {
			for _, seq := range []uint64{1, 2, 4} {
				one(t, p, seq)
				must(t, p.Commit(seq))
			}
		}, []string{"1 0:1 0:-", "2 0:2 0:1", "4 0:4 0:2"}, "0:4"},
		{"empty batches", func(t *testing.T, p *shard.Port, _ func() func()) {
			must(t, p.Commit(3))
			one(t, p, 1)
			must(t, p.Commit(4))
			must(t, p.Commit(5))
			must(t, p.Commit(6))
			one(t, p, 2)
			must(t, p.Commit(7))
			must(t, p.Commit(8))
		}, []string{"1 0:4 0:3", "2 0:7 0:6"}, "0:8"},
		{"rolled back", func(t *testing.T, p *shard.Port, _ func() func()) {
			one(t, p, 1)
			p.Rollback()
			one(t, p, 2)
			must(t, p.Commit(1))
			one(t, p, 3)
			p.Rollback()
			must(t, p.Commit(2))
		}, []string{"2 0:1 0:-"}, "0:2"},
		{"in pieces", func(t *testing.T, p *shard.Port, _ func() func()) {
			must(t, p.Commit(6))
			one(t, p, 1)
			must(t, p.Flush(7))
			await(t, "the piece", func() bool { return p.Counters().Records == 1 })
			if got := at(p.Begun()) + " " + at(p.Applied()); got != "0:7 0:6" {
				t.Errorf("behind the piece: %s", got)
			}
			one(t, p, 2)
			one(t, p, 3)
			must(t, p.Flush(7))
			one(t, p, 4)
			must(t, p.Commit(7))
		}, []string{"1 0:7 0:6", "2 0:7 0:6", "3 0:7 0:6", "4 0:7 0:6"}, "0:7"},
		{"nothing behind the last piece", func(t *testing.T, p *shard.Port, _ func() func()) {
			one(t, p, 1)
			must(t, p.Flush(0))
			must(t, p.Flush(0))
			one(t, p, 2)
			p.Rollback()
			must(t, p.Commit(0))
		}, []string{"1 0:0 0:-"}, "0:0"},
		{"a new incarnation with the same sequence", func(t *testing.T, p *shard.Port, _ func() func()) {
			one(t, p, 1)
			must(t, p.Commit(3))
			waitSeq(t, p, 3)
			p.Restart()
			if got := at(p.Begun()) + " " + at(p.Applied()); got != "1:- 1:-" {
				t.Errorf("behind the restart: %s", got)
			}
			one(t, p, 2)
			must(t, p.Commit(3))
		}, []string{"1 0:3 0:-", "2 1:3 1:-"}, "1:3"},
		{"late batches of a past incarnation", func(t *testing.T, p *shard.Port, hold func() func()) {
			release := hold()
			one(t, p, 1)
			must(t, p.Commit(90))
			p.Restart()
			one(t, p, 2)
			must(t, p.Commit(1))
			p.Restart()
			must(t, p.Commit(0))
			one(t, p, 3)
			must(t, p.Commit(1))
			release()
		}, []string{"1 2:- 2:-", "2 2:- 2:-", "3 2:1 2:0"}, "2:1"},
		{"a piece whose batch never ends", func(t *testing.T, p *shard.Port, _ func() func()) {
			one(t, p, 1)
			must(t, p.Flush(9))
			one(t, p, 2)
			await(t, "the piece", func() bool { return p.Counters().Records == 1 })
			p.Restart()
			one(t, p, 3)
			must(t, p.Commit(0))
		}, []string{"1 0:9 0:-", "3 1:0 1:-"}, "1:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, 0)
			p := g.port()
			var told []string
			g.index.storing = func(name uint64) {
				told = append(told, fmt.Sprintf("%d %s %s", name, at(p.Begun()), at(p.Applied())))
			}
			if got := at(p.Begun()); got != "0:-" {
				t.Errorf("at first begun is %s", got)
			}
			c.do(t, p, g.hold)
			await(t, "the end at "+c.end, func() bool { return at(p.Applied()) == c.end })
			if got := at(p.Begun()); got != c.end {
				t.Errorf("at rest begun is %s, applied %s", got, c.end)
			}
			g.do(func(tree.Writer) {
				if fmt.Sprint(told) != fmt.Sprint(c.want) {
					t.Errorf("name, begun, applied: %q, want %q", told, c.want)
				}
			})
		})
	}
}

// TestNothingIsVisibleBeforeItIsBegun reads an index of one word, the last
// batch that it shows anything of, beside a stream that hurries, flushes,
// commits nothing and restarts.
func TestNothingIsVisibleBeforeItIsBegun(t *testing.T) {
	g := start(t, shard.MinRingBytes)
	p := g.port()
	// A place in the order of all batches: 24 bits are enough for sequences.
	place := func(p shard.Position) uint64 {
		n := uint64(p.Incarnation) << 24
		if p.Any {
			n |= p.Seq + 1
		}
		return n
	}
	var visible atomic.Uint64
	g.index.mute = true
	g.index.storing = func(name uint64) {
		visible.Store(name)
		runtime.Gosched() // a reader comes just now
	}
	incarnations := uint32(400)
	if testing.Short() || shard.RaceEnabled {
		incarnations = 60
	}
	end := make(chan struct{})
	var readers sync.WaitGroup
	var under atomic.Uint64 // reads in the middle of a batch
	for range 2 {
		readers.Go(func() {
			for ; ; runtime.Gosched() {
				before := place(p.Applied())
				seen := visible.Load()
				after := p.Begun()
				switch upTo := place(after); {
				case seen > upTo:
					t.Errorf("something of %#x is visible, begun is %#x", seen, upTo)
					return
				case before > upTo:
					t.Errorf("applied %#x, and then begun %#x", before, upTo)
					return
				case seen > before && seen == upTo:
					under.Add(1)
				}
				select {
				case <-end:
					return
				default:
				}
			}
		})
	}
	for i := range incarnations {
		for n := range uint64(1 + i%30) {
			seq := 2 * n // one is missing each time
			name := place(shard.Position{Incarnation: i, Seq: seq, Any: true})
			for range n % 4 { // none: the batch is empty
				store(t, p, h1, shard.StoreHead{}, name, 11)
				if n%3 == 0 {
					must(t, p.Flush(seq))
				}
			}
			must(t, p.Commit(seq))
		}
		p.Restart()
	}
	g.do(func(tree.Writer) {})
	close(end)
	readers.Wait()
	if under.Load() == 0 {
		t.Error("no reader came into the middle of a batch: nothing was shown")
	}
}
