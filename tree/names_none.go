//go:build !amd64 || purego || race

package tree

import "unsafe"

// Nothing is put or taken ahead of what does it all, name by name: see names_amd64.go.

func putNames(*segment, *uint64, int, uint64) int { return 0 }

func takeNames(*segment, *uint64, int, uint64) int { return 0 }

func putOwn(*segment, *uint64, int, uint64) int { return 0 }

func takeOwn(*segment, *uint64, int, uint64) int { return 0 }

func spread(*segment, *uint64, int) int { return -1 }

func askNames(s *segment, seed uint64, names *uint64, stride, n int) {
	segs, all := unsafe.Slice(s, nameSegments), unsafe.Slice(names, (n-1)*stride+1)
	for i := range n {
		h := hashName(seed, all[i*stride])
		line := segs[h>>(64-nameCut)].line(h<<nameCut, 0)
		fetchLines(&line, 1)
	}
}

func askOwn(s *segment, seed uint64, names *uint64, stride, n int) {
	all := unsafe.Slice(names, (n-1)*stride+1)
	for i := range n {
		line := s.line(hashName(seed, all[i*stride]), 0)
		fetchLines(&line, 1)
	}
}
