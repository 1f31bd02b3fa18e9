package identity

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
)

// ownerPattern is the form the specification gives.
var ownerPattern = regexp.MustCompile(`^[0-9a-f]{32}:[0-9a-f]{32}/[0-9a-f]{16}/[0-9a-f]{32}$`)

const owner = "0102030405060708090a0b0c0d0e0f10:1112131415161718191a1b1c1d1e1f20/00000000000000ff/2122232425262728292a2b2c2d2e2f30"

func TestDerivedIDs(t *testing.T) {
	for _, c := range []struct {
		name string
		got  uint64
		want uint64
	}{
		{"attachment of publisher 41, generation 1", AttachmentRecord(41, 1), 6630049642736882},
		{"attachment of publisher 41, generation 2", AttachmentRecord(41, 2), 4743735865508233},
		{"host of connection 7", HostDiscovery(7), 2947631501151638},
		{"an id is never 0", mask(0), 1},
		{"bits over 53 go", mask(1 << 53), 1},
		{"53 bits stay", mask(1<<64 - 1), MaxID},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

func TestWorkerOwnerKey(t *testing.T) {
	k := WorkerOwnerKey(17, 3)
	if got, want := hex.EncodeToString(k[:]), "c2397c8746719d190ad0de14a12a7de6"; got != want {
		t.Errorf("worker 17 rank 3: %s, want %s", got, want)
	}
}

// TestCacheOwnerKeyTakesEveryPart has no vector to go by: the origin bytes are
// not known. It holds that every part of the id and every byte counts.
func TestCacheOwnerKeyTakesEveryPart(t *testing.T) {
	id, err := ParseCacheOwnerID(owner)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Key]string{}
	note := func(what string, id CacheOwnerID, o Origins) {
		t.Helper()
		k := CacheOwnerKey(id, o)
		if other, taken := seen[k]; taken {
			t.Errorf("%s gives the key of %s", what, other)
		}
		seen[k] = what
	}
	note("the id", id, Origins{})
	for _, c := range []struct {
		what   string
		change func(*CacheOwnerID, *Origins)
	}{
		{"semantics", func(id *CacheOwnerID, _ *Origins) { id.Semantics[15]++ }},
		{"scope", func(id *CacheOwnerID, _ *Origins) { id.Scope[0]++ }},
		{"data centre", func(id *CacheOwnerID, _ *Origins) { id.DataCenter++ }},
		{"slot", func(id *CacheOwnerID, _ *Origins) { id.Slot[15]++ }},
		{"origin of semantics", func(_ *CacheOwnerID, o *Origins) { o.Semantics = 1 }},
		{"origin of scope", func(_ *CacheOwnerID, o *Origins) { o.Scope = 1 }},
		{"origin of slot", func(_ *CacheOwnerID, o *Origins) { o.Slot = 1 }},
	} {
		changed, o := id, Origins{}
		c.change(&changed, &o)
		note(c.what, changed, o)
	}
}

func TestIncarnationsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for range 1000 {
		v := NewIncarnation()
		if v < 1 || v > MaxID || seen[v] {
			t.Fatalf("incarnation %d is out of 1 … %d or drawn twice", v, uint64(MaxID))
		}
		seen[v] = true
	}
}

func TestCacheOwnerIDText(t *testing.T) {
	id, err := ParseCacheOwnerID(owner)
	if err != nil {
		t.Fatal(err)
	}
	if id.String() != owner || !ownerPattern.MatchString(id.String()) {
		t.Errorf("%q prints as %q", owner, id)
	}
	if id.DataCenter != 255 || id.Semantics[0] != 1 || id.Scope[15] != 0x20 || id.Slot[0] != 0x21 {
		t.Errorf("parts are %+v", id)
	}
	if got, want := id.Domain().String(), owner[:65]; got != want {
		t.Errorf("domain %q, want %q", got, want)
	}
	if got, want := id.Pool().String(), owner[:82]; got != want {
		t.Errorf("pool %q, want %q", got, want)
	}
	d, err := ParseIndexerDomain(owner[:65])
	if err != nil || d != id.Domain() {
		t.Errorf("domain parses as %v, %v", d, err)
	}
	var back struct {
		Owner  CacheOwnerID
		Domain IndexerDomain
		Pool   Pool
	}
	text, err := json.Marshal(map[string]any{"Owner": id, "Domain": id.Domain()})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &back); err != nil || back.Owner != id || back.Domain != id.Domain() {
		t.Errorf("through JSON: %+v, %v", back, err)
	}
}

func TestCacheOwnerIDRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, why string }{
		{"empty", "", "0 bytes"},
		{"short", owner[1:], "114 bytes"},
		{"long", owner + "0", "116 bytes"},
		{"upper case", strings.ToUpper(owner), "at byte 19"},
		{"no hex digit", "g" + owner[1:], "'g' at byte 0"},
		{"second of a pair", "0g" + owner[2:], "'g' at byte 1"},
		{"slash for colon", strings.Replace(owner, ":", "/", 1), "'/' at byte 32, not ':'"},
		{"colon for slash", strings.Replace(owner, "/", ":", 1), "':' at byte 65, not '/'"},
		{"second separator", owner[:82] + ":" + owner[83:], "':' at byte 82, not '/'"},
		{"line end", owner[:114] + "\n", `'\n' at byte 114`},
		{"very long", strings.Repeat("0", 1<<16), "65536 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseCacheOwnerID(c.text)
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("error is %v", err)
			}
			if !strings.Contains(syntax.Why, c.why) || !strings.Contains(err.Error(), "semantics:scope/dc/slot") {
				t.Errorf("%v does not say %q and the form", err, c.why)
			}
			if len(err.Error()) > 600 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	if _, err := ParseIndexerDomain(owner); err == nil {
		t.Error("an owner id passes for a domain")
	}
}

func FuzzCacheOwnerID(f *testing.F) {
	f.Add(owner)
	f.Add(strings.ToUpper(owner))
	f.Add(owner + "\n")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseCacheOwnerID(s)
		if want := ownerPattern.MatchString(s); (err == nil) != want {
			t.Fatalf("%q: error %v, but the pattern says %v", s, err, want)
		}
		if err == nil && id.String() != s {
			t.Fatalf("%q prints as %q", s, id)
		}
	})
}

func TestProtocols(t *testing.T) {
	for _, c := range []struct {
		text               string
		want               Protocol
		ok                 bool
		owned, engineLocal bool
	}{
		{"framework_v1", Framework, true, false, false},
		{"vllm_residency_v1", VLLMResidency, true, true, false},
		{"sglang_hicache_v1", HiCache, true, true, true},
		{"sglang_hi_cache_v1", HiCache, true, true, true},
		{"", Framework, false, false, false},
		{"HiCache", Framework, false, false, false},
	} {
		p, ok := ParseProtocol(c.text)
		if p != c.want || ok != c.ok || p.Owned() != c.owned || p.EngineLocal() != c.engineLocal {
			t.Errorf("%q is %v, %v", c.text, p, ok)
		}
		if back, again := ParseProtocol(p.String()); !again || back != p {
			t.Errorf("%v prints as %q, which is %v", uint8(p), p, back)
		}
	}
	for _, text := range OwnedProtocols() {
		if p, ok := ParseProtocol(text); !ok || !p.Owned() {
			t.Errorf("%q is listed as owned and is not", text)
		}
	}
}

// TestSpellingsAreWhole holds the table: no row forgotten, and no text that two
// rows which stand for alternatives of one another share.
func TestSpellingsAreWhole(t *testing.T) {
	for s := range numSpellings {
		if s.Text() == "" || !s.Is(s.Text()) || s.Is("") {
			t.Errorf("row %d is not filled in", s)
		}
		for _, text := range s.All() {
			if !s.Is(text) {
				t.Errorf("row %d lists %q and does not accept it", s, text)
			}
		}
	}
	seen := map[string]Protocol{}
	for p, s := range protocols {
		for _, text := range s.All() {
			if other, taken := seen[text]; taken {
				t.Errorf("%q is both %v and %v", text, other, Protocol(p))
			}
			seen[text] = Protocol(p)
		}
	}
}
