//go:build amd64 && !purego && !race

package wire

// Where a token begins is known only when the one before has been looked at: a
// loop over tokens of one, two, three and five bytes waits for one load after
// the other, and cannot be foretold. tokenGroups (groups_amd64.s) first looks at
// 32 bytes at once as if a token began at each of them, and at the two tokens
// behind it; then it steps from three tokens to the next three:
//
//	payload        ce 00 01 86 a0   cd 12 34   07   cd …
//	form            3  !  0  !  !    2  0  0    0    2      ! begins no token
//	group of 3      3 2 0  = 001011, size 9
//	places[001011]  4 3 2 1 . . . .  7 6 . .  8 . . .       bytes to shuffle
//
// It takes groups of three that are all fixint, uint8, uint16 or uint32, as
// engines write token ids. The simple loop in numbers takes everything else,
// and does the same.

const (
	groupRoom  = 16 // tokens that are worth a look
	groupAhead = 64 // bytes it must be able to look at
	groupBytes = 1 << 16
)

var hasGroups = avx2()

// tokenGroups decodes whole groups of three token ids from the left bytes at
// src to the n places at dst, and returns how many tokens they are and their
// size. It stops before a group that holds something else, near the end of
// either, and looks at and writes to nothing beyond. n is at least 4.
//
//go:noescape
func tokenGroups(dst *uint32, n int, src *byte, left int, places *[64][16]byte) (tokens, size int)

func avx2() bool

// groups decodes what it can of the token ids at the beginning of b to the
// beginning of out: how many, of how many bytes.
func groups(out []uint32, b []byte) (tokens, size int) {
	if !hasGroups || len(out) < groupRoom || len(b) < groupAhead {
		return 0, 0
	}
	// It looks at all it is given before it takes the first, so it gets what so
	// many tokens need as a rule; and it gets that in parts, for the runtime cannot
	// stop a goroutine in the middle of one.
	left := min(len(b), groupBytes, 4*len(out)+groupAhead)
	return tokenGroups(&out[0], len(out), &b[0], left, &groupPlaces)
}

// groupPlaces tells by the forms of three tokens where their bytes lie, in the
// order of a little-endian word each.
var groupPlaces = func() (places [64][16]byte) {
	const none = 0x80
	for forms := range places {
		p := &places[forms]
		for i := range p {
			p[i] = none
		}
		at := 0
		for k := range 3 {
			size := 1 // with the header, which is the token if it is alone
			if form := forms >> (2 * k) & 3; form > 0 {
				size += 1 << (form - 1)
			}
			at += size
			for i := range max(1, size-1) {
				p[4*k+i] = byte(at - 1 - i)
			}
		}
	}
	return
}()
