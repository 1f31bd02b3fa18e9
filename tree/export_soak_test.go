package tree

import "fmt"

// NameHash is where the name table puts a name, for tests that aim at one place.
func (x *Index) NameHash(name uint64) uint64 { return x.names.hash(name) }

// Left names what an index without residencies still has of what only
// residencies need: arenas' cells in use, entries of tables and lists. Logs of
// holders that live may keep stale entries.
func (x *Index) Left() (left []string) {
	note := func(what string, n int) {
		if n != 0 {
			left = append(left, fmt.Sprintf("%d %s", n, what))
		}
	}
	for c := range x.runs {
		note(fmt.Sprintf("runs of %d", capOf(uint32(c))), x.runs[c].live)
		note(fmt.Sprintf("name arrays of %d", capOf(uint32(c))), x.nameArrays[c].live)
	}
	for k := range x.cells {
		note(fmt.Sprintf("cells of %d lanes", 8<<k), x.cells[k].live)
	}
	for k := range x.planes {
		note(fmt.Sprintf("planes of %d words", 1<<k), x.planes[k].live)
	}
	note("side records", x.sides.live)
	note("shared names", x.names.live)
	note("own names", x.ownNamesLive)
	note("links", x.links.live)
	note("exceptions", x.exceptions.live)
	note("supports", x.supports.live)
	note("sibling counts", x.siblings.live)
	note("parents waited for", x.waitParents.live)
	note("waiting names", x.waitNames.live)
	note("waiting blocks", x.waitingAll)
	note("retired ids", len(x.retired))
	if x.holdersLive == 0 {
		note("blocks of logs", x.logs.live)
		note("ids", len(x.lanes)-1-len(x.lanesFree))
	}
	return left
}

// Tables is the memory of all tables.
func (x *Index) Tables() int {
	n := x.names.bytes() + x.links.bytes()
	for _, t := range []*table{&x.exceptions, &x.siblings, &x.waitParents, &x.waitNames} {
		n += t.bytes()
	}
	for i := range x.lanes {
		if t := x.lanes[i].own; t != nil {
			n += t.bytes()
		}
	}
	return n
}
