package fleet

import (
	"errors"
	"slices"
	"testing"
)

// scene makes a rank with hand-written batches per TP shard over a prompt of n
// blocks.
func scene(t *testing.T, n int, shards [][][]event, pool bool) (*Fleet, *Prompt) {
	t.Helper()
	e := Engine{ID: "a", Model: "m", BlockSize: 16, Device: 10, Shards: len(shards)}
	if pool {
		e.Pool, e.Protocol, e.Dialect = 10, HiCache, SGLangMap
	}
	f, err := New(Config{Engines: []Engine{e}})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uint32, (n+1)/2)
	for i := range ids {
		ids[i] = uint32(i)
	}
	p := f.Prompt("", ids)
	p.Tokens, p.path = p.Tokens[:n*Chunk], p.path[:n]
	for i, batches := range shards {
		for _, b := range batches {
			f.all[i].history.append(b)
		}
	}
	return f, p
}

// ev makes an event about blocks from … to-1 of the only prompt there is. Its
// prefixes are numbered from 2: 1 is the root.
func ev(k kind, s slot, from, to int) event {
	e := event{kind: k, slot: s}
	for i := from; i < to; i++ {
		e.blocks = append(e.blocks, block{id: prefix(i + 2)})
	}
	if k == removed {
		slices.Reverse(e.blocks)
	}
	return e
}

func set(a *Allowed) (whole, inside []int) {
	for d := range 64 {
		switch a.Match(d) {
		case Whole:
			whole = append(whole, d)
		case Inside:
			inside = append(inside, d)
		}
	}
	return whole, inside
}

func TestTruth(t *testing.T) {
	one := [][][]event{{
		{ev(stored, onDevice, 0, 4)},                                 // 1: device 4
		{ev(removed, onDevice, 2, 4)},                                // 2: device 2
		{ev(stored, onHost, 2, 3), ev(stored, onHost, 3, 4)},         // 3: host behind it
		{ev(removed, onDevice, 0, 1)},                                // 4: a hole in front
		{ev(stored, onDevice, 0, 1), ev(stored, onDevice, 0, 1)},     // 5: refilled, twice
		{ev(removed, onDevice, 0, 1)},                                // 6: one copy less
		{event{kind: cleared, slot: onDevice}},                       // 7: nothing
		{ev(stored, onDevice, 0, 2), ev(stored, onDisk, 2, 4)},       // 8: disk behind it
		{ev(stored, onHost, 0, 2), ev(removed, onDevice, 0, 2)},      // 9: moved
		{ev(stored, poolMemory, 0, 3), ev(stored, poolMemory, 0, 3)}, // 10: a pool counts no copies
		{ev(removed, poolMemory, 1, 3)},                              // 11
		{event{kind: cleared, slot: poolMemory}},                     // 12
	}}
	skew := [][][]event{
		{{ev(stored, onDevice, 0, 4)}, {ev(removed, onDevice, 3, 4)}, {ev(stored, onHost, 3, 4)}},
		{{ev(stored, onDevice, 0, 3)}, {ev(stored, onHost, 3, 4)}},
	}
	cases := []struct {
		name          string
		scene         [][][]event
		domain        Domain
		view          View
		from, to      []uint64
		whole, inside []int
	}{
		{"nothing came", one, Worker, OnAny, []uint64{0}, []uint64{0}, []int{0}, nil},
		{"after a store", one, Worker, OnDevice, []uint64{1}, []uint64{1}, []int{4}, nil},
		{"while it is stored", one, Worker, OnDevice, []uint64{0}, []uint64{1}, []int{0, 4}, []int{1, 2, 3}},
		{"store and removal", one, Worker, OnDevice, []uint64{1}, []uint64{2}, []int{2, 4}, []int{3}},
		{"three sequences", one, Worker, OnDevice, []uint64{0}, []uint64{3}, []int{0, 2, 4}, []int{1, 3}},
		{"host alone does not begin", one, Worker, OnHost, []uint64{3}, []uint64{3}, []int{0}, nil},
		{"extension", one, Worker, Extension, []uint64{3}, []uint64{3}, []int{4}, nil},
		{"extension grows", one, Worker, Extension, []uint64{2}, []uint64{3}, []int{2, 4}, []int{3}},
		{"hole", one, Worker, OnAny, []uint64{4}, []uint64{4}, []int{0}, nil},
		{"hole refilled", one, Worker, OnAny, []uint64{4}, []uint64{5}, []int{0, 4}, nil},
		{"a copy is left", one, Worker, OnDevice, []uint64{5}, []uint64{6}, []int{2}, nil},
		{"clear is one instant", one, Worker, OnAny, []uint64{6}, []uint64{7}, []int{0, 4}, nil},
		{"disk counts in any", one, Worker, OnAny, []uint64{8}, []uint64{8}, []int{4}, nil},
		{"disk does not extend", one, Worker, Extension, []uint64{8}, []uint64{8}, []int{2}, nil},
		{"a move is never seen half", one, Worker, OnDeviceHost, []uint64{8}, []uint64{9}, []int{2}, nil},
		{"a move empties the device", one, Worker, OnDevice, []uint64{8}, []uint64{9}, []int{0, 2}, []int{1}},
		{"the pool is apart", one, CacheOwner, OnHost, []uint64{9}, []uint64{9}, []int{0}, nil},
		{"the pool counts no copies", one, CacheOwner, OnHost, []uint64{10}, []uint64{11}, []int{1, 3}, []int{2}},
		{"the pool has no device", one, CacheOwner, OnDevice, []uint64{10}, []uint64{10}, []int{0}, nil},
		{"the pool is cleared alone", one, CacheOwner, OnAny, []uint64{12}, []uint64{12}, []int{0}, nil},
		{"the worker is not", one, Worker, OnAny, []uint64{12}, []uint64{12}, []int{4}, nil},
		{"shards agree", skew, Worker, OnDevice, []uint64{1, 1}, []uint64{1, 1}, []int{3}, nil},
		{"one shard has nothing", skew, Worker, OnDevice, []uint64{3, 0}, []uint64{3, 0}, []int{0}, nil},
		{"tiers differ between shards", skew, Worker, OnDeviceHost, []uint64{2, 2}, []uint64{2, 2}, []int{3}, nil},
		{"both on the host", skew, Worker, OnDeviceHost, []uint64{3, 2}, []uint64{3, 2}, []int{4}, nil},
		{"skew within the interval", skew, Worker, OnDevice, []uint64{0, 0}, []uint64{1, 1}, []int{0, 3}, []int{1, 2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, p := scene(t, 4, c.scene, true)
			a, err := f.Judge().Truth(Holder{"a", 0, c.domain}, p, c.from, c.to)
			if err != nil {
				t.Fatal(err)
			}
			whole, inside := set(&a[c.view])
			if !slices.Equal(whole, c.whole) || !slices.Equal(inside, c.inside) {
				t.Errorf("whole %v, inside %v; want %v, %v", whole, inside, c.whole, c.inside)
			}
			// Bounds allow all that is exact, and no more at the ends.
			j := f.Judge()
			j.work = 0
			b, err := j.Truth(Holder{"a", 0, c.domain}, p, c.from, c.to)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range append(whole, inside...) {
				if b[c.view].Match(d) == False {
					t.Errorf("bounds %d to %d leave out %d", b[c.view].Min(), b[c.view].Max(), d)
				}
			}
			if !b[c.view].Bounds || b[c.view].Max() > 4 {
				t.Errorf("bounds reach %d", b[c.view].Max())
			}
		})
	}
}

func TestTruthErrors(t *testing.T) {
	f, p := scene(t, 4, [][][]event{{{ev(stored, onDevice, 0, 1)}}}, false)
	h := Holder{"a", 0, Worker}
	j := f.Judge()
	if _, err := j.Truth(h, p, []uint64{0}, []uint64{2}); !errors.Is(err, ErrFuture) {
		t.Errorf("a sequence that was never published: %v", err)
	}
	if _, err := j.Truth(Holder{"b", 0, Worker}, p, []uint64{0}, []uint64{0}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an engine that is not there: %v", err)
	}
	if _, err := j.Truth(Holder{"a", 0, CacheOwner}, p, []uint64{0}, []uint64{0}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an engine without pool: %v", err)
	}
}

// TestHistoryForgets keeps few sequences and checks that what is kept stays
// right and that memory goes.
func TestHistoryForgets(t *testing.T) {
	f, p := scene(t, 4, [][][]event{nil}, false)
	h := newHistory(8)
	f.all[0].history = h
	for i := range 5000 {
		h.append([]event{ev(stored, onDevice, 0, 4)})
		h.append([]event{ev(removed, onDevice, i%4, 4), ev(removed, onDevice, 0, i%4)})
	}
	if len(h.aging)-h.oldest > 8*8 || len(h.aging) > 4096 {
		t.Errorf("%d changes kept of 8 sequences", len(h.aging)-h.oldest)
	}
	j := f.Judge()
	if _, err := j.Truth(Holder{"a", 0, Worker}, p, []uint64{9000}, []uint64{10000}); !errors.Is(err, ErrForgotten) {
		t.Errorf("an interval long ago: %v", err)
	}
	for pos := uint64(9993); pos <= 10000; pos++ {
		a, err := j.Truth(Holder{"a", 0, Worker}, p, []uint64{pos}, []uint64{pos})
		if want := 4 * int(pos%2); err != nil || a[OnDevice].Match(want) != Whole {
			t.Errorf("position %d: %v, want %d", pos, err, want)
		}
	}
	h.append(nil)
	for range 8 {
		h.append(nil)
	}
	if len(h.blocks) != 0 {
		t.Errorf("%d blocks are remembered that nobody holds", len(h.blocks))
	}
}
