package content

import "testing"

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	tokens := seq(1, 4097)
	dst := make([]uint64, 0, 4096)
	keys := &Keys{Hashes: []uint64{9, 3, 7}, Ends: []int{1, 1, 3}}
	adapter, salt := []byte("sql-adapter"), []byte("tenant-a")
	id := []byte("image-1")
	for _, c := range []struct {
		name string
		fn   func()
	}{
		{"plain", func() { Append(dst, tokens, 16, 0, 1, 2, nil) }},
		{"look-ahead", func() { Append(dst, tokens, 16, 1, 1, 2, nil) }},
		{"keys", func() { Append(dst, tokens, 16, 0, 1, 2, keys) }},
		{"keys of a large unit", func() { Append(dst, tokens, 2048, 0, 1, 2, keys) }},
		{"large unit", func() { Append(dst, tokens, 1024, 0, 1, 2, nil) }},
		{"portable", func() { hashPortable(tokens[:16], 1) }},
		{"chain", func() { Chain(1, 2) }},
		{"seeds", func() { MakeSeeds("sql-adapter", "tenant-a") }},
		{"seeds from bytes", func() { MakeSeedsBytes(adapter, salt) }},
		{"multimodal", func() { MultimodalID(id) }},
		{"opaque", func() { Opaque(id) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n := testing.AllocsPerRun(100, c.fn); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name            string
		unit, lookahead int
	}{{"unit=16", 16, 0}, {"unit=16/lookahead=1", 16, 1}, {"unit=64", 64, 0}} {
		b.Run(c.name, func(b *testing.B) {
			tokens := seq(1, uint32(256*c.unit+c.lookahead))
			dst := make([]uint64, 0, 256)
			b.ReportAllocs()
			for b.Loop() {
				dst = Append(dst[:0], tokens, c.unit, c.lookahead, 1337, 1337, nil)
			}
		})
	}
}

func BenchmarkAppendAndChain(b *testing.B) {
	tokens := seq(1, 256*16)
	dst := make([]uint64, 0, 256)
	for b.Loop() {
		dst = Append(dst[:0], tokens, 16, 0, 1337, 1337, nil)
		c := dst[0]
		for i := 1; i < len(dst); i++ {
			c = Chain(c, dst[i])
			dst[i] = c
		}
	}
}
