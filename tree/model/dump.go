package model

import "github.com/cairn-kv/cairn/tree"

var _ tree.Dumper = (*Model)(nil)

// Dump implements tree.Dumper.
func (m *Model) Dump(chain func(parent, content uint64) uint64, visit func(tree.Block)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ends := map[*place]end{} // every place: where it is
	for r, p := range m.roots {
		follow(ends, p, end{root: r}, chain)
	}
	for i, h := range m.holders {
		if h == nil {
			continue
		}
		for s, sh := range h.shards {
			for _, set := range []map[uint64]*block{sh.blocks, sh.aside} {
				for name, b := range set {
					out := tree.Block{Name: name, Span: len(b.contents)}
					out.Holder, out.Shard = tree.Holder(i+1), uint8(s)
					if b.at == nil {
						out.Waiting, out.Parent = true, b.parent
						out.Chain = b.contents[0]
						for _, c := range b.contents[1:] {
							out.Chain = chain(out.Chain, c)
						}
					} else {
						e := ends[b.at]
						out.Root, out.End, out.Chain = e.root, e.units, e.chain
					}
					for t, n := range b.copies {
						if n > 0 {
							out.Tier, out.Copies = tree.Tier(t), n
							visit(out)
						}
					}
				}
			}
		}
	}
}

// end is where a chain of contents ends.
type end struct {
	root  tree.Root
	units int
	chain uint64
}

// follow notes where the places behind p are.
func follow(ends map[*place]end, p *place, at end, chain func(parent, content uint64) uint64) {
	type step struct {
		*place
		at end
	}
	for open := []step{{p, at}}; len(open) > 0; {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		for c, q := range s.next {
			e := end{s.at.root, s.at.units + 1, c}
			if s.at.units > 0 {
				e.chain = chain(s.at.chain, c)
			}
			ends[q] = e
			open = append(open, step{q, e})
		}
	}
}
