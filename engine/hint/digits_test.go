package hint

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestDigits compares with the standard library: everything of few digits, the
// edges of every length, and numbers of every length at random.
func TestDigits(t *testing.T) {
	buf := make([]byte, 0, 128)
	one := make([]uint64, 1)
	check := func(v uint64) {
		one[0] = v
		if got, want := string(AppendNames(buf, one, Numbers)), "["+strconv.FormatUint(v, 10)+"]"; got != want {
			t.Fatalf("%d is written %s", v, got)
		}
	}
	for v := range uint64(200_000) {
		check(v)
	}
	for p := uint64(1); ; p *= 10 {
		for _, v := range []uint64{p - 1, p, p + 1, 9 * p / 2, p / 2} {
			check(v)
		}
		if p > math.MaxUint64/10 {
			break
		}
	}
	for _, v := range exact {
		check(v)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		check(rng.Uint64() >> rng.UintN(64))
	}
}

// TestNamesGrowTheBuffer: from nothing, and behind what stands there.
func TestNamesGrowTheBuffer(t *testing.T) {
	names := make([]uint64, 1000)
	for i := range names {
		names[i] = math.MaxUint64 - uint64(i)
	}
	for _, form := range []Form{Numbers, Strings} {
		got := AppendNames([]byte("x"), names, form)
		want := []byte("x[")
		for i, n := range names {
			if i > 0 {
				want = append(want, ',')
			}
			if form == Strings {
				want = strconv.AppendQuote(want, strconv.FormatUint(n, 10))
			} else {
				want = strconv.AppendUint(want, n, 10)
			}
		}
		if string(got) != string(want)+"]" {
			t.Errorf("form %d differs", form)
		}
	}
	if got := string(AppendNames(nil, nil, Numbers)); got != "[]" {
		t.Errorf("nothing is %s", got)
	}
}

func BenchmarkAppendNames(b *testing.B) {
	names := make([]uint64, 512)
	for i := range names {
		names[i] = mix(uint64(i))
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendNames(buf[:0], names, Numbers)
	}
}
