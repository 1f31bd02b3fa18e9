package tree

import "math/bits"

// fewNames is up to how many names of an event are compared each with each.
const fewNames = 6

// duplicates looks for a name twice in the event, or the parent in it. The event
// is refused as a whole then, so this comes before anything else.
func (x *Index) duplicates(n int, hasParent bool, parent uint64) Reason {
	switch {
	case !x.meet(n, hasParent, parent):
		return Accepted
	case hasParent && x.among(n, parent):
		return SelfParent
	}
	return DuplicateName
}

// meet reports whether two of n names and the parent are the same. It sets three
// bits of a filter for each, in a word that the name's hash chooses; where they
// are set already, it looks whether the name is among those before it. There is
// a word for every name at least, so that hardly any is sought in vain.
func (x *Index) meet(n int, hasParent bool, parent uint64) bool {
	pairs, stride := x.op.pairs, x.op.stride
	if n <= fewNames {
		for i := range n {
			if name := pairs[i*stride]; hasParent && name == parent || x.among(i, name) {
				return true
			}
		}
		return false
	}
	size := 1 << bits.Len(uint(n))
	if len(x.seen) < size {
		x.seen = make([]uint64, size)
	}
	seen, mask := x.seen[:size], uint64(size-1)
	clear(seen)
	if hasParent {
		h := x.names.hash(parent)
		seen[h>>32&mask] = seenBits(h)
	}
	for i := range n {
		name := pairs[i*stride]
		h := x.names.hash(name)
		w, b := &seen[h>>32&mask], seenBits(h)
		if *w&b == b && (hasParent && name == parent || x.among(i, name)) {
			return true
		}
		*w |= b
	}
	return false
}

// seenBits is the bits of a name in its word of the filter.
func seenBits(h uint64) uint64 { return 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) }

// among reports whether a name is one of the event's first n.
func (x *Index) among(n int, name uint64) bool {
	pairs, stride := x.op.pairs, x.op.stride
	for k := 0; k < n; k++ {
		if pairs[k*stride] == name {
			return true
		}
	}
	return false
}
