//go:build amd64 && unix && !purego && !race

package wire

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// guarded returns n bytes with memory behind them, and in front of them, that
// must not be touched.
func guarded(t *testing.T, n int) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	size := (n+page-1)/page*page + 2*page
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	for _, p := range [][]byte{b[:page], b[size-page:]} {
		if err := unix.Mprotect(p, unix.PROT_NONE); err != nil {
			t.Skip(err)
		}
	}
	return b[size-page-n : size-page : size-page]
}

func appendToken(b []byte, v uint32) []byte {
	switch {
	case v < fixMap:
		return append(b, byte(v))
	case v < 1<<8:
		return append(b, mUint8, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, mUint16), uint16(v))
	}
	return binary.BigEndian.AppendUint32(append(b, mUint32), v)
}

// TestGroups compares groups with the simple loop on every mixture of forms,
// and holds it to its bounds.
func TestGroups(t *testing.T) {
	if !hasGroups {
		t.Skip("no AVX2")
	}
	rng := rand.New(rand.NewPCG(4, 2))
	odd := []func([]byte) []byte{
		func(b []byte) []byte { return append(b, mNil) },
		func(b []byte) []byte { return append(b, fixStr+2, 'a', 'b') },
		func(b []byte) []byte { return append(b, 0xff) },
		func(b []byte) []byte { return append(b, mUint64, 0, 0, 0, 0, 0, 0, 0, 7) },
		func(b []byte) []byte { return append(b, mInt16, 0, 7) },
		func(b []byte) []byte { return append(b, fixArray+2, 1, 2) },
	}
	took, stopped := 0, 0
	for round := range 3000 {
		n := rng.IntN(700)
		chance := []int{0, 0, 0, 5, 40, 400}[rng.IntN(6)]
		var text []byte
		var tokens []uint32
		var starts []int
		first := n // the first that is no plain token
		for k := range n {
			starts = append(starts, len(text))
			if chance > 0 && rng.IntN(1000) < chance {
				first = min(first, k)
				text = odd[rng.IntN(len(odd))](text)
				tokens = append(tokens, 0)
				continue
			}
			v := rng.Uint32() >> rng.IntN(32)
			tokens = append(tokens, v)
			if rng.IntN(50) == 0 { // a longer form than it needs
				text = binary.BigEndian.AppendUint32(append(text, mUint32), v)
				continue
			}
			text = appendToken(text, v)
		}
		starts = append(starts, len(text))
		in := guarded(t, len(text))
		copy(in, text)
		room := guarded(t, 4*n)
		out := make([]uint32, n)
		if n > 0 {
			out = wordsOf(room)
		}
		k, size := groups(out, in)
		if k > first || k%3 != 0 || size != starts[k] {
			t.Fatalf("round %d: %d tokens of %d bytes, want at most %d, of %d", round, k, size, first, starts[k])
		}
		if !slices.Equal(out[:k], tokens[:k]) {
			t.Fatalf("round %d: %v, want %v", round, out[:k], tokens[:k])
		}
		// It goes on to the last group that it may: near the end, or the odd one.
		if len(text)-size >= groupAhead && n-k >= groupRoom && first-k >= 3 {
			t.Fatalf("round %d: stopped at token %d of %d, byte %d of %d, long before %d", round, k, n, size, len(text), first)
		}
		took += k
		if first < n {
			stopped++
		}
	}
	if took < 100_000 || stopped < 300 {
		t.Errorf("took %d tokens, stopped %d times", took, stopped)
	}
}

// TestGroupsOfEveryByte has each byte stand where a token begins.
func TestGroupsOfEveryByte(t *testing.T) {
	if !hasGroups {
		t.Skip("no AVX2")
	}
	for b := range 256 {
		for place := range 3 {
			text := make([]byte, 0, 200)
			for k := range 120 {
				if k == 60+place {
					text = append(text, byte(b), 1, 2, 3, 4)
					continue
				}
				text = append(text, byte(k))
			}
			text = append(text, make([]byte, 200)...)
			out := make([]uint32, 120)
			k, _ := groups(out, text)
			token := b < fixMap || b >= mUint8 && b <= mUint32
			if !token && k != 60 || token && k <= 63 {
				t.Fatalf("%#x at place %d: %d tokens", b, place, k)
			}
			if token {
				want := [...]uint32{1, 0x0102, 0x01020304}
				v := uint32(b)
				if b >= mUint8 {
					v = want[b-mUint8]
				}
				if out[60+place] != v {
					t.Fatalf("%#x at place %d: %d, want %d", b, place, out[60+place], v)
				}
			}
		}
	}
}
