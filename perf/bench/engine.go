package bench

import "container/list"

// engine is the cache of one engine: blocks by name, least recently used at the
// front. Of one request the deeper blocks are older, so leaves go first and
// what is left are always whole prefixes.
type engine struct {
	capacity int
	window   int // the present one; blocks it touched stay
	blocks   map[uint64]*list.Element
	used     *list.List // of *cached
}

type cached struct {
	name   uint64
	window int // that touched it last
}

func newEngine(capacity int) engine {
	return engine{capacity: capacity, blocks: map[uint64]*list.Element{}, used: list.New()}
}

// admit makes room for a request and caches it. had is how many leading blocks
// were there already, evicted what had to go for the rest, in order. A request
// that does not fit beside those of its window is not cached: ok is false, and
// what it evicted is gone all the same.
func (e *engine) admit(names []uint64) (had int, evicted []uint64, ok bool) {
	for had < len(names) && e.blocks[names[had]] != nil {
		e.blocks[names[had]].Value.(*cached).window = e.window
		had++
	}
	for e.used.Len()+len(names)-had > e.capacity {
		oldest := e.used.Front()
		if oldest == nil || oldest.Value.(*cached).window == e.window {
			return had, evicted, false
		}
		name := oldest.Value.(*cached).name
		e.used.Remove(oldest)
		delete(e.blocks, name)
		evicted = append(evicted, name)
	}
	for i := len(names) - 1; i >= 0; i-- {
		if i < had {
			e.used.MoveToBack(e.blocks[names[i]])
		} else {
			e.blocks[names[i]] = e.used.PushBack(&cached{names[i], e.window})
		}
	}
	return had, evicted, true
}
