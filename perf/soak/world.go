package soak

import "math/rand/v2"

// world is every path a soak knows. A node is one position of one path: two
// paths share the nodes of the contents they share from the root.
type world struct {
	paths   []path
	content []uint64 // by node
	parent  []int32  // by node, -1 at a root
}

type path struct {
	nodes    []int32
	contents []uint64
}

func newWorld(p Profile, seed uint64) *world {
	w := &world{}
	r := rand.New(rand.NewPCG(seed, 1))
	next := map[[2]uint64]int32{} // (parent+1, content) → node
	draw := func() uint64 {
		if p.Alphabet > 0 {
			return uint64(r.IntN(p.Alphabet))
		}
		return r.Uint64()
	}
	for range p.Families {
		var trunk []uint64
		for range p.Shared {
			trunk = append(trunk, draw())
		}
		for range p.Paths {
			var q path
			at := int32(-1)
			for i := range p.Shared + 1 + r.IntN(p.Length-p.Shared) {
				c := uint64(0)
				if i < p.Shared {
					c = trunk[i]
				} else {
					c = draw()
				}
				key := [2]uint64{uint64(at + 1), c}
				n, ok := next[key]
				if !ok {
					n = int32(len(w.content))
					next[key] = n
					w.content = append(w.content, c)
					w.parent = append(w.parent, at)
				}
				q.nodes, q.contents = append(q.nodes, n), append(q.contents, c)
				at = n
			}
			w.paths = append(w.paths, q)
		}
	}
	return w
}

// scramble spreads a number over 64 bits, one to one.
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
