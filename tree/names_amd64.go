//go:build !purego && !race

package tree

import "unsafe"

// segmentShift is log2 of the bytes of a segment.
const segmentShift = 5

var _ [1 << segmentShift]struct{} = [unsafe.Sizeof(segment{})]struct{}{}

// What follows does for names side by side, from the first on, what putStrange and take
// do where the line that a hash leads to tells all: that the name is strange, or that
// its entry is there. They return before the first that wants more than that, a segment
// that is to grow included, and how many they have done; what comes then does it all.
// block is the first's entry without its hash; n is not 0.

// putNames puts names into the segments of a nameTable.
//
//go:noescape
func putNames(s *segment, hashes *uint64, n int, block uint64) int

// takeNames takes them out.
//
//go:noescape
func takeNames(s *segment, hashes *uint64, n int, block uint64) int

// putOwn puts names into one segment that has lines, and room for all.
//
//go:noescape
func putOwn(s *segment, hashes *uint64, n int, block uint64) int

// takeOwn takes them out of one that has lines, and need not become smaller.
//
//go:noescape
func takeOwn(s *segment, hashes *uint64, n int, block uint64) int

// askNames asks for the lines of a nameTable to which the hashes of n names lead, each
// stride words behind the one before, and waits for none of them; n is not 0.
//
//go:noescape
func askNames(s *segment, seed uint64, names *uint64, stride, n int)

// askOwn is askNames for one segment.
//
//go:noescape
func askOwn(s *segment, seed uint64, names *uint64, stride, n int)

// spread puts the entries of n lines into a segment that has room for all and whose
// place in its table their hashes do not say (told is 0), as put does, but for the
// count of entries; returns how many they are, or below 0 if it has not. n is not 0.
//
//go:noescape
func spread(s *segment, old *uint64, n int) int
