package bench

import (
	"math/rand/v2"

	"github.com/cairn-kv/cairn/perf/fleet"
)

// Kind is what an operation of a corpus does.
type Kind uint8

// The kinds of operations. Stores are told apart by what the index as a whole
// knows when they come.
const (
	Query      Kind = iota // Words are contents
	Remove                 // Words are names
	StoreNew               // Words are pairs of blocks that nobody holds
	StoreKnown             // Words are pairs of blocks that others hold, all of them
	StoreMixed             // Words are pairs, of which others hold the first few
	NumKinds
)

// Op is one operation. Words belong to the corpus and must not be changed.
type Op struct {
	Kind      Kind
	Holder    int // of 0 … Corpus.Holders-1; 0 for queries
	HasParent bool
	Parent    uint64
	Words     []uint64
}

// Blocks is how many blocks the operation is about.
func (o *Op) Blocks() int {
	if o.Kind >= StoreNew {
		return len(o.Words) / 2
	}
	return len(o.Words)
}

// Shape says which engines play the trace.
type Shape struct {
	Engines  int    // each a holder of the index
	Capacity int    // blocks an engine keeps, least recently used first to go
	Replicas int    // holders that do what each engine does, one behind the other; 0: one
	Apart    bool   // engines have prompts of their own, so nothing is stored twice but by replicas
	Length   int    // blocks that one id of the trace stands for; 0: one
	Window   int    // requests that are under way together; 0: 64
	Seed     uint64 // of the choice of engines, which is uniform
}

// Corpus is a list of operations, the same on every run.
type Corpus struct {
	Shape   Shape
	Holders int // of the index: Shape.Engines × Shape.Replicas
	Ops     []Op
	Warm    int // operations before the measured half
}

// Simulate plays requests on LRU engines with prefix caching. Window by window
// all requests are queried first; then, request by request, whatever has to go
// is removed, leaf side first; then, request by request, what its engine did
// not have is stored, as one event behind the last block it had.
//
// Names are those of engines that hash alike: a function of the path.
func Simulate(arrivals []fleet.Arrival, s Shape) *Corpus {
	s.Replicas, s.Length = max(s.Replicas, 1), max(s.Length, 1)
	if s.Window == 0 {
		s.Window = 64
	}
	c := &Corpus{Shape: s, Holders: s.Engines * s.Replicas}
	engines := make([]engine, s.Engines)
	for i := range engines {
		engines[i] = newEngine(s.Capacity)
	}
	random := rand.New(rand.NewPCG(s.Seed, uint64(s.Engines)))
	for from := 0; from < len(arrivals); from += s.Window {
		if from <= len(arrivals)/2 {
			c.Warm = len(c.Ops)
		}
		c.window(arrivals[from:min(from+s.Window, len(arrivals))], engines, random)
	}
	c.classify()
	return c
}

// window appends the operations of requests that are under way together.
func (c *Corpus) window(arrivals []fleet.Arrival, engines []engine, random *rand.Rand) {
	var removes, stores []Op
	for i := range engines {
		engines[i].window++
	}
	for _, a := range arrivals {
		h, world := random.IntN(len(engines)), uint64(0)
		if c.Shape.Apart {
			world = uint64(h)
		}
		names, contents := c.path(a.IDs, world)
		c.Ops = append(c.Ops, Op{Kind: Query, Words: contents})
		had, evicted, ok := engines[h].admit(names)
		if len(evicted) > 0 {
			removes = append(removes, Op{Kind: Remove, Holder: h, Words: evicted})
		}
		if !ok || had == len(names) {
			continue
		}
		o := Op{Kind: StoreNew, Holder: h, HasParent: had > 0}
		if o.HasParent {
			o.Parent = names[had-1]
		}
		for k := had; k < len(names); k++ {
			o.Words = append(o.Words, names[k], contents[k])
		}
		stores = append(stores, o)
	}
	c.Ops = append(c.Ops, removes...)
	c.replicate(removes)
	c.Ops = append(c.Ops, stores...)
	c.replicate(stores)
}

// replicate appends what the replicas of the engines do, all of one replica
// before the next, so that a window lies between equal events.
func (c *Corpus) replicate(ops []Op) {
	for r := 1; r < c.Shape.Replicas; r++ {
		for _, o := range ops {
			o.Holder += r * c.Shape.Engines
			c.Ops = append(c.Ops, o)
		}
	}
}

// path gives names and contents of a prompt. In another world all are others.
func (c *Corpus) path(ids []uint32, world uint64) (names, contents []uint64) {
	name := uint64(1)
	for _, id := range ids {
		for k := range c.Shape.Length {
			content := scramble(world<<48 | uint64(id)<<8 | uint64(k))
			name = scramble(name ^ content)
			names, contents = append(names, name), append(contents, content)
		}
	}
	return names, contents
}

// classify tells new blocks from known ones, by the order of the operations.
func (c *Corpus) classify() {
	holders := map[uint64]int{}
	for i := range c.Ops {
		o := &c.Ops[i]
		switch o.Kind {
		case Query:
			continue
		case Remove:
			for _, name := range o.Words {
				holders[name]--
			}
			continue
		}
		known := 0
		for k := 0; k < len(o.Words); k += 2 {
			if holders[o.Words[k]] > 0 {
				known++
			}
			holders[o.Words[k]]++
		}
		switch known {
		case 0:
		case o.Blocks():
			o.Kind = StoreKnown
		default:
			o.Kind = StoreMixed
		}
	}
}

// scramble is the finalizer of splitmix64: names and contents look like hashes.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
