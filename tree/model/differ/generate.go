package differ

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/cairn-kv/cairn/tree"
)

// Generate makes n ops, queries not counted, and ends with a drain, more ops
// and another drain. The same profile, seed and n give the same list.
func Generate(p Profile, seed uint64, n int) []Op {
	g := newGenerator(p, seed)
	for range g.between(p.Holders[0], p.Holders[1]) {
		g.addHolder()
	}
	g.run(n - n/4)
	g.drain()
	g.run(n / 4)
	g.drain()
	return g.ops
}

type generator struct {
	Profile
	r      *rand.Rand
	ops    []Op
	chains []chain
	ids    int
	all    []*genHolder
	labels int
	steps  int
	last   int // chain touched last
}

// chain is a path that stores and queries are cut from. Two chains share the
// ids of the positions they share, so that shared blocks get shared names.
type chain struct {
	root     tree.Root
	contents []uint64
	ids      []int
}

// genHolder is what the generator thinks a holder has. It need not be right:
// the model is.
type genHolder struct {
	label   int
	private bool
	small   bool
	span    int
	shards  []genShard
}

type genShard struct {
	blocks  []genBlock
	pending []Op // events that lag behind those of shard 0, or children first
}

type genBlock struct {
	name  uint64
	chain int
	end   int // units up to its end
	tier  tree.Tier
}

func newGenerator(p Profile, seed uint64) *generator {
	h := fnv.New64a()
	h.Write([]byte(p.Name)) // a hash.Hash never fails
	g := &generator{Profile: p, r: rand.New(rand.NewPCG(seed, h.Sum64()))}
	for i := range p.Prefixes {
		g.addChain(i, g.between(p.Length[0], p.Length[1]))
	}
	if p.Long > 0 {
		g.addChain(1, p.Long)
	}
	return g
}

func (g *generator) chance(p float64) bool { return p > 0 && g.r.Float64() < p }

func (g *generator) between(from, to int) int { return from + g.r.IntN(to-from+1) }

// addChain makes a chain of n units: a fork of an earlier one or a new one,
// with few different contents, 0 among them, sometimes many equal in a row.
func (g *generator) addChain(i, n int) {
	c := chain{root: tree.Root(g.r.IntN(g.Roots))}
	if len(g.chains) > 0 && i > 0 && g.chance(.6) {
		from := g.chains[g.r.IntN(len(g.chains))]
		k := g.r.IntN(len(from.ids) + 1)
		c = chain{from.root, slices.Clone(from.contents[:k]), slices.Clone(from.ids[:k])}
	}
	alphabet := []int{1, 2, 6, 1 << 30}[g.r.IntN(4)]
	for len(c.ids) < n {
		c.contents = append(c.contents, uint64(g.r.IntN(alphabet)))
		c.ids = append(c.ids, g.identify(c))
	}
	g.chains = append(g.chains, c)
}

// identify gives the position just added to c an id: that of the same position
// in an earlier chain if the two agree so far.
func (g *generator) identify(c chain) int {
	i := len(c.contents) - 1
	for _, d := range g.chains {
		if d.root == c.root && len(d.ids) > i && d.contents[i] == c.contents[i] && (i == 0 || d.ids[i-1] == c.ids[i-1]) {
			return d.ids[i]
		}
	}
	g.ids++
	return g.ids
}

func (g *generator) addHolder() *genHolder {
	g.labels++
	h := &genHolder{label: g.labels, private: g.chance(g.Private), small: g.chance(g.Small), span: g.between(1, g.Spans)}
	h.shards = make([]genShard, g.between(1, g.TP))
	op := Op{Kind: Add, Holder: h.label, Shards: len(h.shards)}
	if g.chance(g.Set) {
		op.Policy = tree.Set
	}
	g.ops = append(g.ops, op)
	g.all = append(g.all, h)
	return h
}

// name is what a holder calls the block of a span that ends at unit end.
func (g *generator) name(h *genHolder, c *chain, end, span, variant int) uint64 {
	x := uint64(c.ids[end-1])*64 + uint64(span)*8 + uint64(variant)
	if h.small {
		return x / 8 % 50
	}
	if h.private {
		x += uint64(h.label) << 40
	}
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // splitmix64
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (g *generator) run(n int) {
	for range n {
		g.step()
		if g.steps++; g.steps%max(g.QueryEvery, 1) == 0 {
			g.query()
		}
		if g.chance(.05) {
			g.ops = append(g.ops, Op{Kind: Step})
		}
	}
	for _, h := range g.all { // what still lags
		for s := range h.shards {
			for len(h.shards[s].pending) > 0 {
				g.flush(h, s)
			}
		}
	}
	g.query()
}

func (g *generator) drain() {
	g.ops = append(g.ops, Op{Kind: Drain})
	for i, h := range g.all {
		clear(h.shards)
		if h.label%4 == 2 { // drained by a drop
			g.all[i] = nil
		}
	}
	g.all = slices.DeleteFunc(g.all, func(h *genHolder) bool { return h == nil })
	for range g.between(1, g.Holders[0]) {
		g.addHolder()
	}
}

// step makes one op, or brings one that lagged.
func (g *generator) step() {
	h := g.all[g.r.IntN(len(g.all))]
	s := g.r.IntN(len(h.shards))
	if len(h.shards[s].pending) > 0 && g.chance(.6) {
		g.flush(h, s)
		return
	}
	x := g.r.Float64()
	for _, c := range []struct {
		p  float64
		do func(*genHolder, int)
	}{
		{g.Clear, g.clear}, {g.Drop, g.drop}, {g.Hide, g.hide}, {g.Place, g.place}, {g.Bad, g.bad},
		{.42, g.remove}, {.12, g.extend},
	} {
		if x -= c.p; x < 0 {
			c.do(h, s)
			return
		}
	}
	g.store(h, s)
}

// store stores a stretch of a chain: from the root, or behind a known block.
func (g *generator) store(h *genHolder, s int) {
	ci := g.r.IntN(len(g.chains))
	if g.chance(g.Orphans) {
		g.pieces(h, s, ci)
		return
	}
	n := g.count(len(g.chains[ci].ids))
	if b, ok := g.known(h, s); ok && g.chance(.4) {
		g.event(h, s, b.chain, b.end, b.name, n)
		return
	}
	g.event(h, s, ci, 0, 0, n)
}

// extend goes on behind the deepest of a few known blocks.
func (g *generator) extend(h *genHolder, s int) {
	best, ok := g.known(h, s)
	for range 4 {
		if b, _ := g.known(h, s); ok && b.end > best.end {
			best = b
		}
	}
	if !ok {
		g.store(h, s)
		return
	}
	g.event(h, s, best.chain, best.end, best.name, g.between(1, 3))
}

func (g *generator) known(h *genHolder, s int) (genBlock, bool) {
	if list := h.shards[s].blocks; len(list) > 0 {
		return list[g.r.IntN(len(list))], true
	}
	return genBlock{}, false
}

// count draws how many units an event touches: few, or many.
func (g *generator) count(most int) int {
	if g.chance(.5) {
		return g.between(1, min(most, 4))
	}
	return g.between(1, most)
}

// event makes the store of up to n units of chain ci behind unit from.
func (g *generator) event(h *genHolder, s, ci, from int, parent uint64, n int) {
	if op, ok := g.stored(h, s, ci, from, parent, n); ok {
		g.send(h, s, op)
	}
}

func (g *generator) stored(h *genHolder, s, ci, from int, parent uint64, n int) (Op, bool) {
	c := &g.chains[ci]
	span := h.span
	if g.Spans > 1 && g.chance(.1) {
		span = g.between(1, g.Spans)
	}
	op := Op{Kind: Store, Holder: h.label, Shard: uint8(s), Tier: g.tier(), Root: c.root, Span: span}
	if from > 0 || g.chance(.05) { // parent 0 at the root means none
		op.HasParent, op.Parent = true, parent
	}
	variant := 0
	if g.chance(g.Twins) {
		variant = g.between(1, 3)
	}
	if g.chance(g.Keep) {
		op.KeepMeaning, op.SkipUnknown = true, g.chance(.3)
	}
	taken := map[uint64]bool{op.Parent: op.HasParent}
	for end := from + span; end <= len(c.ids) && end-from <= max(n, span); end += span {
		name := g.name(h, c, end, span, variant)
		if b, ok := g.known(h, s); ok && g.chance(g.Reuse/4) {
			name = b.name
		} else if g.chance(g.Reuse / 8) {
			name = uint64(g.r.IntN(5))
		}
		if taken[name] {
			break
		}
		taken[name] = true
		op.Names = append(op.Names, name)
		op.Contents = append(op.Contents, c.contents[end-span:end]...)
		if op.KeepMeaning && g.chance(.2) { // contents without their keys
			op.Contents[len(op.Contents)-1]++
		}
		h.shards[s].blocks = append(h.shards[s].blocks, genBlock{name, ci, end, op.Tier})
	}
	g.last = ci
	return op, len(op.Names) > 0
}

func (g *generator) tier() tree.Tier { return g.Tiers[g.r.IntN(len(g.Tiers))] }

// pieces cuts a stretch of a chain in events that come in a random order.
func (g *generator) pieces(h *genHolder, s, ci int) {
	var events []Op
	from, parent := 0, uint64(0)
	for range g.between(2, 6) {
		op, ok := g.stored(h, s, ci, from, parent, g.between(1, 6))
		if !ok {
			break
		}
		from += len(op.Contents)
		parent = op.Names[len(op.Names)-1]
		events = append(events, op)
	}
	if g.chance(.5) {
		slices.Reverse(events)
	} else {
		g.r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	}
	if len(events) > 1 && g.chance(.3) {
		events = events[:len(events)-1] // the parent never comes
	}
	h.shards[s].pending = append(h.shards[s].pending, events...)
}

// send emits an event and lets it lag behind on the holder's other shards.
func (g *generator) send(h *genHolder, s int, op Op) {
	g.ops = append(g.ops, op)
	for i := range h.shards {
		if i == s || g.chance(.03) {
			continue
		}
		c := op
		c.Shard = uint8(i)
		if g.chance(.02) && len(c.Names) > 1 {
			c = c.without(len(c.Names)-1, 1)
		}
		if g.chance(g.Waits) {
			h.shards[i].pending = append(h.shards[i].pending, c)
			continue
		}
		g.ops = append(g.ops, c)
		g.note(h, i, c)
	}
}

// flush brings the oldest event that lags.
func (g *generator) flush(h *genHolder, s int) {
	op := h.shards[s].pending[0]
	h.shards[s].pending = h.shards[s].pending[1:]
	g.ops = append(g.ops, op)
	g.note(h, s, op)
}

// note remembers the names of a store for later removals.
func (g *generator) note(h *genHolder, s int, op Op) {
	if op.Kind != Store {
		return
	}
	from := h.shards[0].blocks // where the names' places are known, mostly
	for _, name := range op.Names {
		if i := slices.IndexFunc(from, func(b genBlock) bool { return b.name == name }); i >= 0 && s != 0 {
			b := from[i]
			b.tier = op.Tier
			h.shards[s].blocks = append(h.shards[s].blocks, b)
		}
	}
}

// remove makes one removed event in one of many manners.
func (g *generator) remove(h *genHolder, s int) {
	b, ok := g.known(h, s)
	if !ok {
		g.store(h, s)
		return
	}
	list := h.shards[s].blocks
	var pick []genBlock
	manner := g.r.IntN(6)
	if g.LeafFirst {
		manner = 0
	}
	if manner <= 2 || manner == 4 {
		seen := map[uint64]bool{}
		for _, x := range list {
			if x.chain == b.chain && x.tier == b.tier && !seen[x.name] {
				seen[x.name] = true
				pick = append(pick, x)
			}
		}
		slices.SortStableFunc(pick, func(x, y genBlock) int { return y.end - x.end })
	}
	k := g.count(max(len(pick), 1))
	switch manner {
	case 0: // tail
		pick = pick[:k]
	case 1: // head
		pick = pick[len(pick)-k:]
		if g.chance(.5) {
			slices.Reverse(pick)
		}
	case 2: // some in the middle
		at := g.r.IntN(len(pick) - k + 1)
		pick = pick[at : at+k]
	case 3: // one
		pick = append(pick, b)
	case 4: // any of the chain, shuffled
		g.r.Shuffle(len(pick), func(i, j int) { pick[i], pick[j] = pick[j], pick[i] })
		pick = pick[:k]
	case 5: // across chains
		for range g.between(1, 8) {
			x, _ := g.known(h, s)
			pick = append(pick, x)
		}
	}
	op := Op{Kind: Remove, Holder: h.label, Shard: uint8(s), Tier: b.tier}
	gone := map[genBlock]bool{}
	for _, x := range pick {
		op.Names = append(op.Names, x.name)
		gone[genBlock{name: x.name, tier: b.tier}] = true
	}
	if g.chance(.1) {
		op.Names = slices.Insert(op.Names, g.r.IntN(len(op.Names)+1), uint64(g.r.IntN(60)))
	}
	g.last = b.chain
	g.send(h, s, op)
	for i := range h.shards {
		if i == s || g.chance(.9) {
			g.lose(&h.shards[i], gone)
		}
	}
}

// lose forgets one copy of each block in gone.
func (g *generator) lose(sh *genShard, gone map[genBlock]bool) {
	lost := map[genBlock]bool{}
	sh.blocks = slices.DeleteFunc(sh.blocks, func(x genBlock) bool {
		k := genBlock{name: x.name, tier: x.tier}
		if !gone[k] || lost[k] {
			return false
		}
		lost[k] = true
		return true
	})
}

func (g *generator) clear(h *genHolder, s int) {
	if g.chance(.3) {
		g.ops = append(g.ops, Op{Kind: ClearShard, Holder: h.label, Shard: uint8(s)})
		h.shards[s].blocks = nil
		return
	}
	g.ops = append(g.ops, Op{Kind: Clear, Holder: h.label})
	for i := range h.shards {
		h.shards[i].blocks = nil
	}
}

// drop takes a holder away; another one comes in its place. Its late events
// may still arrive.
func (g *generator) drop(h *genHolder, _ int) {
	g.ops = append(g.ops, Op{Kind: Drop, Holder: h.label})
	g.all = slices.DeleteFunc(g.all, func(x *genHolder) bool { return x == h })
	if g.chance(.1) {
		g.ops = append(g.ops, Op{Kind: Store, Holder: h.label, Span: 1, Names: []uint64{1}, Contents: []uint64{1}})
	}
	g.addHolder()
}

func (g *generator) hide(h *genHolder, _ int) {
	kind := Show
	if g.chance(.35) {
		kind = Hide
	}
	g.ops = append(g.ops, Op{Kind: kind, Holder: h.label})
}

func (g *generator) place(h *genHolder, s int) {
	op := Op{Kind: Place, Holder: h.label, Shard: uint8(s), Tier: g.tier()}
	for range g.between(1, 6) {
		b, ok := g.known(h, s)
		if !ok || g.chance(.1) {
			op.Names = append(op.Names, uint64(g.r.IntN(60)))
			continue
		}
		op.Names = append(op.Names, b.name)
		b.tier = op.Tier
		h.shards[s].blocks = append(h.shards[s].blocks, b)
	}
	g.send(h, s, op)
}

// bad makes an event that the index must reject as a whole.
func (g *generator) bad(h *genHolder, s int) {
	n := len(g.ops)
	g.event(h, s, g.r.IntN(len(g.chains)), 0, 0, 4)
	if len(g.ops) == n {
		return
	}
	g.ops = g.ops[:n+1]
	op := &g.ops[n]
	switch g.r.IntN(7) {
	case 0:
		op.HasParent, op.Parent = true, op.Names[len(op.Names)-1]
	case 1:
		op.Names = append(op.Names, op.Names[0])
		op.Contents = append(op.Contents, op.Contents[:op.Span]...)
		op.HasParent = false
	case 2:
		op.Holder = Nobody
	case 3:
		op.Tier = tree.NumTiers
	case 4:
		op.Shard = tree.MaxShards
	case 5:
		op.Span = 0
	case 6:
		op.Contents = append(op.Contents, 7)
	}
}

// query asks for the chain touched last, or any, whole or in part, sometimes
// going on with something else.
func (g *generator) query() {
	c := &g.chains[g.last]
	if g.chance(.3) {
		c = &g.chains[g.r.IntN(len(g.chains))]
	}
	op := Op{Kind: Query, Root: c.root, Contents: slices.Clone(c.contents)}
	if g.chance(.3) {
		op.Contents = op.Contents[:g.r.IntN(len(op.Contents)+1)]
	}
	if g.chance(.2) {
		op.Contents = append(op.Contents, uint64(g.r.IntN(3)), uint64(g.r.IntN(3)))
	}
	if g.chance(.1) && g.Roots > 1 {
		op.Root = tree.Root(g.r.IntN(g.Roots))
	}
	if g.chance(.3) {
		op.Depth = 1 + g.r.IntN(len(op.Contents)+2)
	}
	g.ops = append(g.ops, op)
}
