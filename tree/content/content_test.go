package content

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func seq(from, to uint32) []uint32 {
	var t []uint32
	for v := from; v <= to; v++ {
		t = append(t, v)
	}
	return t
}

func repeat(v uint32, n int) []uint32 {
	return slices.Repeat([]uint32{v}, n)
}

// plain hashes without keys along both paths, which must agree.
func plain(t *testing.T, tokens []uint32, unit, lookahead int, s Seeds) []uint64 {
	t.Helper()
	got := Append(nil, tokens, unit, lookahead, s.First, s.Rest, nil)
	seed := s.First
	for i, h := range got {
		if p := hashPortable(tokens[i*unit:i*unit+unit+lookahead], seed); p != h {
			t.Errorf("unit %d: in place %d, portable %d", i, h, p)
		}
		seed = s.Rest
	}
	return got
}

func TestPlainAndChain(t *testing.T) {
	got := plain(t, seq(1, 14), 4, 0, MakeSeeds("", ""))
	want := []uint64{14643705804678351452, 16777012769546811212, 483935686894639516}
	if !slices.Equal(got, want) {
		t.Fatalf("content = %d, want %d", got, want)
	}
	chain := got[0]
	for i, want := range []uint64{4945711292740353085, 12583592247330656132} {
		if chain = Chain(chain, got[i+1]); chain != want {
			t.Errorf("chain[%d] = %d, want %d", i+1, chain, want)
		}
	}
}

func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		name, adapter, salt string
		first, c0, c1       uint64
	}{
		{"base", "", "", 1337, 14643705804678351452, 16777012769546811212},
		{"adapter", "my-lora", "", 12827409268353072861, 15671544057904749233, 7919241211032067838},
		{"salt acts on block 0 alone", "", "tenant-a", 1948188790972764086, 5738685477468498325, 16777012769546811212},
		{"both", "my-lora", "tenant-a", 14775598059325835610, 6157910915076630503, 7919241211032067838},
		{"adapter with the salt's name", "tenant-a", "", 7159698576361520314, 7047804956937870972, 1048454595658368535},
		{"salt with the adapter's name", "", "my-lora", 16715142698260659138, 15329922921023334132, 16777012769546811212},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := MakeSeeds(c.adapter, c.salt)
			if b := MakeSeedsBytes([]byte(c.adapter), []byte(c.salt)); b != s {
				t.Errorf("from bytes %v, from strings %v", b, s)
			}
			if s.First != c.first {
				t.Errorf("First = %d, want %d", s.First, c.first)
			}
			if got := plain(t, seq(1, 8), 4, 0, s); !slices.Equal(got, []uint64{c.c0, c.c1}) {
				t.Errorf("content = %d, want [%d %d]", got, c.c0, c.c1)
			}
		})
	}
}

func TestWindowsAndSizes(t *testing.T) {
	for _, c := range []struct {
		name            string
		tokens          []uint32
		unit, lookahead int
		want            []uint64
		chain1          uint64
	}{
		{"eagle", seq(1, 9), 4, 1, []uint64{1914873892905420881, 1929047464662796003}, 13136491855314414045},
		{"size 16", seq(1, 32), 16, 0, []uint64{16863443419780771464, 2287610619914608821}, 12466389667045779788},
		{"size 16 and a tail", append(seq(1, 32), seq(1, 15)...), 16, 0, []uint64{16863443419780771464, 2287610619914608821}, 12466389667045779788},
		{"size 1", seq(1, 2), 1, 0, []uint64{14426539925402682893, 132880511001376177}, 12095906288214270103},
		{"size 128, equal blocks", repeat(7, 256), 128, 0, []uint64{16733376827091874706, 16733376827091874706}, 9483249257757458575},
		{"zeros", repeat(0, 4), 4, 0, []uint64{13277122834585657784}, 0},
		{"largest ids", repeat(1<<32-1, 4), 4, 0, []uint64{12410542959481710713}, 0},
		{"eagle, 4 tokens", seq(1, 4), 4, 1, nil, 0},
		{"eagle, 5 tokens", seq(1, 5), 4, 1, []uint64{1914873892905420881}, 0},
		{"eagle, 8 tokens", seq(1, 8), 4, 1, []uint64{1914873892905420881}, 0},
		{"no tokens", nil, 4, 0, nil, 0},
		{"unit 0", seq(1, 4), 0, 0, nil, 0},
		{"negative unit", seq(1, 4), -1, 0, nil, 0},
		{"negative look-ahead", seq(1, 4), 4, -1, nil, 0},
		{"look-ahead longer than the prompt", seq(1, 4), 1, 9, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := plain(t, c.tokens, c.unit, c.lookahead, MakeSeeds("", ""))
			if !slices.Equal(got, c.want) {
				t.Fatalf("content = %d, want %d", got, c.want)
			}
			if n := Count(len(c.tokens), c.unit, c.lookahead); n != len(got) {
				t.Errorf("Count = %d, made %d", n, len(got))
			}
			if c.chain1 != 0 {
				if got := Chain(got[0], got[1]); got != c.chain1 {
					t.Errorf("chain[1] = %d, want %d", got, c.chain1)
				}
			}
		})
	}
}

func TestKeys(t *testing.T) {
	base := MakeSeeds("", "")
	for _, c := range []struct {
		name string
		keys *Keys
		s    Seeds
		want uint64
	}{
		{"two", &Keys{Hashes: []uint64{42, 0xDEADBEEF}, Ends: []int{2}}, base, 2511446804913840765},
		{"two, the other way round", &Keys{Hashes: []uint64{0xDEADBEEF, 42}, Ends: []int{2}}, base, 2511446804913840765},
		{"one", &Keys{Hashes: []uint64{42}, Ends: []int{1}}, base, 14000361058806882387},
		{"duplicates are kept", &Keys{Hashes: []uint64{42, 42}, Ends: []int{2}}, base, 8640070372475032416},
		{"under an adapter", &Keys{Hashes: []uint64{42}, Ends: []int{1}}, MakeSeeds("my-lora", ""), 3798880685655276273},
		{"none", &Keys{Ends: []int{0}}, base, 14643705804678351452},
		{"empty", &Keys{}, base, 14643705804678351452},
		{"nil", nil, base, 14643705804678351452},
		{"end outside the hashes", &Keys{Hashes: []uint64{42}, Ends: []int{9}}, base, 14000361058806882387},
		{"negative end", &Keys{Hashes: []uint64{42}, Ends: []int{-1}}, base, 14643705804678351452},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Append(nil, seq(1, 4), 4, 0, c.s.First, c.s.Rest, c.keys)
			if len(got) != 1 || got[0] != c.want {
				t.Errorf("content = %d, want %d", got, c.want)
			}
		})
	}
	k := &Keys{Hashes: []uint64{3, 1, 2}, Ends: []int{3}}
	Append(nil, seq(1, 4), 4, 0, base.First, base.Rest, k)
	if !slices.Equal(k.Hashes, []uint64{3, 1, 2}) {
		t.Errorf("the caller's keys were sorted: %d", k.Hashes)
	}
}

func TestMultimodalID(t *testing.T) {
	for _, c := range []struct {
		name, id string
		want     uint64
		ok       bool
	}{
		{"text", "image-1", 9764656481613128169, true},
		{"64 digits", strings.Repeat("00112233445566778899aabbccddeeff", 2), 0x0011223344556677, true},
		{"64 digits, upper case", strings.Repeat("00112233445566778899AABBCCDDEEFF", 2), 0x0011223344556677, true},
		{"empty", "", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, ok := MultimodalID([]byte(c.id))
			if ok != c.ok || ok && v != c.want {
				t.Errorf("MultimodalID = %d, %v, want %d, %v", v, ok, c.want, c.ok)
			}
			if sv, sok := MultimodalIDString(c.id); sok != ok || ok && sv != v {
				t.Errorf("of a string %d, %v, of bytes %d, %v", sv, sok, v, ok)
			}
		})
	}
	for _, id := range []string{strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("a", 63) + "g", strings.Repeat("a", 63) + "@"} {
		if IsHexID([]byte(id)) {
			t.Errorf("%q is taken for a hexadecimal id", id)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	id, _ := MultimodalID([]byte("image-1"))
	for mm, want := range map[uint64]uint32{42: 1000042, 0xDEADBEEF: 515703087, id: 743662633} {
		if got := Placeholder(mm); got != want {
			t.Errorf("Placeholder(%d) = %d, want %d", mm, got, want)
		}
	}
}

// TestOpaque: a key that is not understood must not fall together with a
// multimodal identifier of the same bytes.
func TestOpaque(t *testing.T) {
	mm, _ := MultimodalID([]byte("x"))
	if Opaque([]byte("x")) == mm || Opaque([]byte("x")) == Opaque([]byte("y")) {
		t.Error("Opaque does not tell keys apart")
	}
}

// TestUpstreamVectors compares with what upstream's own code gives. Upstream
// salts every block; ours is the same function with the salted seed twice.
func TestUpstreamVectors(t *testing.T) {
	f, err := os.Open("testdata/hashes.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for sc := bufio.NewScanner(f); sc.Scan(); n++ {
		var v struct {
			ID         string     `json:"id"`
			Tokens     []uint32   `json:"tokens"`
			BlockSize  int        `json:"block_size"`
			Lora, Salt string     `json:"-"`
			RawLora    *string    `json:"lora"`
			RawSalt    *string    `json:"salt"`
			MM         [][]string `json:"mm"`
			Eagle      bool       `json:"eagle"`
			Content    []string   `json:"content"`
		}
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		t.Run(v.ID, func(t *testing.T) {
			if v.RawLora != nil {
				v.Lora = *v.RawLora
			}
			if v.RawSalt != nil {
				v.Salt = *v.RawSalt
			}
			lookahead := 0
			if v.Eagle {
				lookahead = 1
			}
			var keys Keys
			for _, block := range v.MM {
				for _, k := range block {
					keys.Hashes = append(keys.Hashes, number(t, k))
				}
				keys.Ends = append(keys.Ends, len(keys.Hashes))
			}
			var want []uint64
			for _, c := range v.Content {
				want = append(want, number(t, c))
			}
			s := MakeSeeds(v.Lora, v.Salt)
			got := Append(nil, v.Tokens, v.BlockSize, lookahead, s.First, s.First, &keys)
			if !slices.Equal(got, want) {
				t.Errorf("content = %d, want %d", got, want)
			}
		})
	}
	if n != 59 {
		t.Errorf("%d vectors, want 59", n)
	}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// vLLM pads identifiers that are small numbers with zeros to 64 digits: two
// images must not become one (seen in a capture of vLLM 0.32.0).
func TestMultimodalPaddedNumbersDiffer(t *testing.T) {
	ids := []string{fmt.Sprintf("%064x", 0x1d9061e), fmt.Sprintf("%064x", 0x1d90622)}
	seen := map[uint64]bool{}
	for _, id := range ids {
		a, ok := MultimodalID([]byte(id))
		b, _ := MultimodalIDString(id)
		if !ok || a != b || a == 0 || seen[a] {
			t.Errorf("%s: %d and %d, %v; seen %v", id, a, b, ok, seen)
		}
		seen[a] = true
	}
}

// TestSixteens compares the way of the commonest unit with the general one.
func TestSixteens(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 64))
	for range 200 {
		tokens := make([]uint32, rng.IntN(200))
		for i := range tokens {
			tokens[i] = rng.Uint32() >> rng.IntN(32)
		}
		plain(t, tokens, 16, 0, Seeds{First: rng.Uint64(), Rest: rng.Uint64()})
	}
}
