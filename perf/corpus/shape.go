package corpus

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cairn-kv/cairn/perf/fleet"
)

// Shape says which engines play which trace. The zero value of a field that has
// a default means the default.
type Shape struct {
	Name     string
	About    string         // one line for people
	Trace    func() []Trace // where the requests come from
	Requests int            // at most so many of them; 0: all
	Engines  int
	Capacity int    // blocks an engine keeps
	Host     int    // blocks it keeps on its host tier behind that; 0: no such tier
	Replicas int    // holders that do what an engine does, a little later each; 0: 1
	Length   int    // blocks one id of the trace stands for; 0: 1. Unit is 512 / Length tokens
	Worlds   int    // disjoint copies of the trace at the same time; 0: 1
	Affine   bool   // a request mostly goes where its prefix was last, else anywhere
	Private  bool   // every holder has names of its own
	Copies   bool   // what an engine computed twice is announced twice
	Holes    bool   // engines do not evict strictly from the leaves
	Equal    bool   // an id stands for Length equal blocks
	Clears   int    // after so many requests an engine, in turn, loses all; 0: never
	Seed     uint64 // of all choices
}

// Trace is one request of a trace: see fleet.Arrival.
type Trace = fleet.Arrival

// TokensPerID is how many tokens an id of a trace stands for.
const TokensPerID = 512

func (s Shape) defaults() (Shape, error) {
	s.Replicas, s.Length, s.Worlds = max(s.Replicas, 1), max(s.Length, 1), max(s.Worlds, 1)
	for _, f := range []struct {
		name     string
		v, least int
		most     int
	}{
		{"engines", s.Engines, 1, 1 << 20}, {"capacity", s.Capacity, 1, 1 << 26}, {"host", s.Host, 0, 1 << 26},
		{"replicas", s.Replicas, 1, 1 << 10}, {"length", s.Length, 1, TokensPerID}, {"worlds", s.Worlds, 1, 1 << 15},
		{"requests", s.Requests, 0, 1 << 30}, {"clears", s.Clears, 0, 1 << 30},
	} {
		if f.v < f.least || f.v > f.most {
			return s, fmt.Errorf("corpus: %s %d; want %d … %d", f.name, f.v, f.least, f.most)
		}
	}
	return s, nil
}

// Header is the header of the corpus that a shape makes.
func (s Shape) Header() Header {
	s, _ = s.defaults()
	h := Header{
		Name: s.Name, Unit: TokensPerID / s.Length, Holders: s.Engines * s.Replicas, Engines: s.Engines,
		Capacity: s.Capacity, Host: s.Host, Replicas: s.Replicas, Length: s.Length, Worlds: s.Worlds, Seed: s.Seed,
	}
	for f, on := range map[Factors]bool{Private: s.Private, Copies: s.Copies, Holes: s.Holes, Tiers: s.Host > 0, Equal: s.Equal, Clears: s.Clears > 0} {
		if on {
			h.Factors |= f
		}
	}
	return h
}

// Shapes are the named shapes, in the order of their names' meaning: those that
// the figures of index.md are about first.
var Shapes = []Shape{
	{Name: "conversation-8", About: "the conversation trace on 8 engines, blocks of 512 tokens", Trace: conversation, Engines: 8, Capacity: 16384, Seed: 1},
	{Name: "conversation-128", About: "the same on 128 engines", Trace: conversation, Engines: 128, Capacity: 1024, Seed: 1},
	{Name: "conversation-1000", About: "the same on 1,000", Trace: conversation, Engines: 1000, Capacity: 256, Seed: 1},
	{Name: "conversation-7000", About: "the same, twice at the same time, on 7,000", Trace: conversation, Engines: 7000, Capacity: 128, Worlds: 2, Seed: 1},
	{Name: "16-token-8", About: "a third of the conversation trace on 8 engines, blocks of 16 tokens", Trace: conversation, Requests: 4000, Engines: 8, Capacity: 1 << 18, Length: 32, Seed: 1},
	{Name: "16-token-128", About: "the same on 128 engines", Trace: conversation, Requests: 4000, Engines: 128, Capacity: 1 << 14, Length: 32, Seed: 1},
	{Name: "synthetic-128", About: "the synthetic trace on 128 engines, blocks of 512 tokens", Trace: synthetic, Engines: 128, Capacity: 512, Seed: 1},
	{Name: "agent", About: "prompts of 142 K tokens, 96 % of them shared, on 64 engines; about 8,900 blocks of 16", Trace: agent, Engines: 64, Capacity: 12000, Length: 32, Seed: 1},
	{Name: "long-96", About: "prompts of 3,750 blocks of 17 tokens that all of 96 engines hold", Trace: long, Engines: 96, Capacity: 4000, Length: 30, Seed: 1},
	{Name: "turns", About: "conversations that grow turn by turn on 16 engines, three answers in ten asked for again; blocks of 16 tokens", Trace: turns, Engines: 16, Capacity: 8192, Length: 32, Affine: true, Seed: 1},
	{Name: "events-7", About: "the conversation trace on 128 engines, each with 7 holders that announce the same", Trace: conversation, Engines: 128, Capacity: 1024, Replicas: 7, Seed: 1},
	{Name: "private-7", About: "the same, every holder with names of its own", Trace: conversation, Engines: 128, Capacity: 1024, Replicas: 7, Private: true, Seed: 1},
	{Name: "holes", About: "conversation-8 with engines that leave holes in chains", Trace: conversation, Engines: 8, Capacity: 16384, Holes: true, Seed: 1},
	{Name: "churn", About: "128 small engines that evict all the time, one of which loses all after every 20 requests", Trace: conversation, Engines: 128, Capacity: 300, Clears: 20, Seed: 1},
	{Name: "equal", About: "a part of the conversation trace on 8 engines, blocks of 16 tokens, 32 equal ones in a row", Trace: conversation, Requests: 1000, Engines: 8, Capacity: 1 << 16, Length: 32, Equal: true, Seed: 1},
	{Name: "copies", About: "a part of agent on 8 engines, with what is computed twice announced twice and evicted by itself", Trace: agent, Requests: 500, Engines: 8, Capacity: 32000, Length: 32, Copies: true, Seed: 1},
	{Name: "tiers", About: "128 engines that evict to a host tier twice their size", Trace: conversation, Engines: 128, Capacity: 512, Host: 1024, Seed: 1},
	{Name: "affine-128", About: "conversation-128 with requests that follow their prefix", Trace: conversation, Engines: 128, Capacity: 1024, Affine: true, Seed: 1},
}

// Named finds a shape.
func Named(name string) (Shape, error) {
	i := slices.IndexFunc(Shapes, func(s Shape) bool { return s.Name == name })
	if i < 0 {
		var names []string
		for _, s := range Shapes {
			names = append(names, s.Name)
		}
		return Shape{}, fmt.Errorf("corpus: no shape is named %q; want one of %v", name, names)
	}
	return Shapes[i], nil
}

// byTime gives a trace sorted; requests of one millisecond stay in order.
func byTime(t []Trace) []Trace {
	t = slices.Clone(t)
	slices.SortStableFunc(t, func(a, b Trace) int { return cmp.Compare(a.Millis, b.Millis) })
	return t
}
