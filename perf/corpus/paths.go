package corpus

// paths knows every block that a simulation has met, by number. Blocks are
// numbered from 0 as they are met; a block is a place on a path from the root.
type paths struct {
	shape    *Shape
	segments map[segment]uint32 // → its first block
	names    []uint64           // by block, those of engines that hash alike
	contents []uint64
	parents  []uint32 // noBlock for blocks at the root
}

const noBlock = ^uint32(0)

// segment is one id of a trace behind a block: Shape.Length blocks.
type segment struct {
	parent uint32
	id     uint32
	world  uint32
}

func newPaths(s *Shape) *paths { return &paths{shape: s, segments: map[segment]uint32{}} }

// of gives the blocks of a prompt. In another world all are others.
func (p *paths) of(ids []uint32, world int) []uint32 {
	blocks := make([]uint32, 0, len(ids)*p.shape.Length)
	parent := noBlock
	for _, id := range ids {
		s := segment{parent, id, uint32(world)}
		first, ok := p.segments[s]
		if !ok {
			first = p.extend(parent, p.shape.Length, func(k int) uint64 {
				if p.shape.Equal {
					k = 0
				}
				return uint64(world)<<48 | uint64(id)<<12 | uint64(k)
			})
			p.segments[s] = first
		}
		for k := range p.shape.Length {
			blocks = append(blocks, first+uint32(k))
		}
		parent = first + uint32(p.shape.Length) - 1
	}
	return blocks
}

// own makes n blocks behind parent that no other path has: what an engine
// generated. request tells them apart.
func (p *paths) own(parent uint32, n, request int) []uint32 {
	first := p.extend(parent, n, func(k int) uint64 { return 1<<63 | uint64(request)<<16 | uint64(k) })
	blocks := make([]uint32, n)
	for k := range blocks {
		blocks[k] = first + uint32(k)
	}
	return blocks
}

// extend makes n blocks behind parent, with contents made of what content says.
func (p *paths) extend(parent uint32, n int, content func(k int) uint64) (first uint32) {
	first = uint32(len(p.names))
	name := uint64(1)
	if parent != noBlock {
		name = p.names[parent]
	}
	for k := range n {
		c := mix(content(k))
		name = mix(name ^ c)
		p.names, p.contents, p.parents = append(p.names, name), append(p.contents, c), append(p.parents, parent)
		parent = first + uint32(k)
	}
	return first
}

// name is what a holder calls a block.
func (p *paths) name(holder int, block uint32) uint64 {
	if p.shape.Private {
		return mix(p.names[block] ^ mix(p.shape.Seed<<20|uint64(holder)))
	}
	return p.names[block]
}
