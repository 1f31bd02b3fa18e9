package conformance

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/cairn-kv/cairn/ingest/wire"
)

// TestIntegersAreExact holds the values that a float64 would bend.
func TestIntegersAreExact(t *testing.T) {
	for in, want := range map[string]name{
		"0":                    {},
		"1":                    {value: 1},
		"9007199254740991":     {value: 1<<53 - 1},
		"9007199254740993":     {value: 1<<53 + 1},
		"9223372036854775807":  {value: 1<<63 - 1},
		"9223372036854775808":  {value: 1 << 63},
		"18446744073709551615": {value: 1<<64 - 1},
		"-1":                   {value: 1<<64 - 1, negative: true},
		"-9223372036854775808": {value: 1 << 63, negative: true},
		`"00ff"`:               {bytes: []byte{0, 255}},
		`"000102030405060708"`: {bytes: []byte{0, 1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		var got name
		if err := json.Unmarshal([]byte(in), &got); err != nil || got.value != want.value || got.negative != want.negative || !bytes.Equal(got.bytes, want.bytes) {
			t.Errorf("%s: got %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"1.0", "1e3", "18446744073709551616", "-9223372036854775809", "true", "{}", `"xyz"`, `"0"`} {
		var got name
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s is taken for %+v", in, got)
		}
	}
}

func TestOlder(t *testing.T) {
	releases := []string{"0.4.6.post5", "0.4.7", "0.4.10", "0.5.5.post3", "0.5.6", "0.9.0.1", "0.9.2", "0.17.1", "1.0"}
	for i, a := range releases {
		for j, b := range releases {
			if got := older(a, b); got != (i < j) {
				t.Errorf("older(%s, %s) = %v", a, b, got)
			}
		}
	}
}

func TestScriptsThatAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "live", "live 0", "live x: +a", "live 0: a", "live 0: +e", "live 0: +a^e", "live 0: -b^a", "live 0: ",
		"live 2^64: +a", "live 2^200: +a", "live 1..0: empty", "live 0..9999999: empty", "frames head", "? 1..4", "? 1..4 -> x", "gaps many", "frob",
		"live 0: *#", "live 0: +#x", "request x", "rp 2", "rp 2..1: empty",
	} {
		if m, err := parseMove(text); err == nil {
			t.Errorf("%q is taken for %+v", text, m)
		}
	}
	m, err := parseMove("live 2^64-1: +a +c^b -x")
	if err != nil || m.first != 1<<64-1 || m.last != m.first || len(m.events) != 3 || m.events[1].parent.value != 102 {
		t.Errorf("got %+v, %v", m, err)
	}
}

func TestScriptsOfTheChain(t *testing.T) {
	m, err := parseMove("rp 4..6: +# -#3 -x")
	if err != nil || m.verb != "rp" || m.first != 4 || m.last != 6 || len(m.events) != 1 || len(m.chain) != 2 {
		t.Fatalf("got %+v, %v", m, err)
	}
	own, other := m.chain[0].event(5), m.chain[1].event(5)
	if own.op != "store" || own.hashes[0].value != 1006 || own.parent.value != 1005 || own.tokens[0] != 21 || len(own.tokens) != 4 {
		t.Errorf("the batch's own block is %+v", own)
	}
	if other.op != "remove" || other.hashes[0].value != 1004 || other.tokens != nil {
		t.Errorf("block 3 is removed by %+v", other)
	}
	if root := m.chain[0].event(0); root.parent != nil {
		t.Errorf("block 0 has the parent %+v", root.parent)
	}
}

// TestBoundsOfFiles refuses what would make the runner hold too much.
func TestBoundsOfFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(base string, data []byte) string {
		name := filepath.Join(dir, base)
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	long := bytes.Repeat([]byte("x"), maxLine+1)
	if _, err := readLines(write("long.jsonl", long)); err == nil || !strings.Contains(err.Error(), "a line of more than") {
		t.Errorf("a long line: %v", err)
	}
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed, zstd.WithWindowSize(2*maxWindow), zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxWindow / len(long) {
		w.Write(long[:1<<20])
		w.Write(long)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := readLines(write("window.jsonl.zst", packed.Bytes())); err == nil || !strings.Contains(err.Error(), "window") {
		t.Errorf("a wide window: %v", err)
	}
	if _, err := readLines(write("cut.jsonl.zst", packed.Bytes()[:10])); err == nil {
		t.Error("a cut file is read")
	}
}

// storedUneven are traces of stores that an index must refuse: their tokens are
// not those of their blocks. They are legal, and no dialect without a block size
// has words for them.
var storedUneven = []string{
	`{"block":4,"policy":"copies","ops":[["store",{"src":"w","hashes":[1]}],["query",{"expect":{}}]]}`,
	`{"block":4,"policy":"copies","ops":[["store",{"src":"w","hashes":[1],"tokens":[1,2,3]}],["query",{"expect":{}}]]}`,
	`{"block":4,"policy":"copies","ops":[["store",{"src":"w","hashes":[1,2],"tokens":[1,2,3,4],"bs":2}],["query",{"expect":{}}]]}`,
	`{"block":4,"policy":"copies","ops":[["store",{"src":"w","hashes":[1],"tokens":[1],"bs":0}],["query",{"expect":{}}]]}`,
	`{"block":4,"policy":"copies","ops":[["store",{"src":"w","hashes":[1],"tokens":[1],"bs":-1}],["query",{"expect":{}}]]}`,
}

// TestDialectsHaveWords holds that a dialect that has words for an event writes
// a batch with it, and that dialects without a block size refuse what they could
// not say.
func TestDialectsHaveWords(t *testing.T) {
	for _, text := range storedUneven {
		tr, err := parseTrace(line{number: 1, data: []byte(text)})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for d := range numDialects {
			if got, want := tr.speaks(d), d != pulledJSON && d != routerJSON; got != want {
				t.Errorf("%s has words for %s: %v", d, text, got)
			}
			tr.encode(t)
		}
	}
}

// encode writes every event of the trace in every dialect that has words for it.
func (t *trace) encode(check testing.TB) {
	for i := range t.steps {
		s := &t.steps[i]
		if s.op != "store" && s.op != "remove" && s.op != "clear" {
			continue
		}
		for d := range numDialects {
			if !d.can(&s.event) {
				continue
			}
			batch := d.batch(s.rank, s.event)
			var decoder wire.Decoder
			if _, err := decoder.Reset(batch); err != nil {
				check.Errorf("%s: %v in %q", d, err, batch)
			}
			n := 0
			for e := (wire.Event{}); ; n++ {
				if more, err := decoder.Next(&e); err != nil {
					check.Errorf("%s: %v in %q", d, err, batch)
				} else if more {
					continue
				}
				break
			}
			if n != 1 {
				check.Errorf("%s: %d events in %q", d, n, batch)
			}
		}
	}
}

// TestMessagesWithoutAForm holds messages that are no batch of anybody's: a file
// may say what it likes about them, and gets an answer.
func TestMessagesWithoutAForm(t *testing.T) {
	for name, payload := range map[string]string{
		"a key that is nil":            "93cb41da2fdb80000000" + "91" + "81c0c0" + "c0",
		"bytes behind the batch":       "93cb41da2fdb8000000090c0" + "81c0c0",
		"a list that is not all there": "93cb41da2fdb8000000092",
	} {
		v, err := parseVector(line{number: 1, data: []byte(`{"id":"X","payload_hex":"` + payload + `","expect":{"ok":true}}`)})
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := v.inJSON(); ok {
			t.Errorf("%s: taken for %s", name, text)
		}
	}
}

// TestPathsOfUnevenStores follows the stores of a sparse group, which need not
// have the tokens of their blocks.
func TestPathsOfUnevenStores(t *testing.T) {
	// Two blocks of 2^63-1 tokens, and one behind the second; one token each.
	stored := func(hash, parent string) string {
		return "9c" + "ab426c6f636b53746f726564" + hash + parent + "9101" + "cf7fffffffffffffff" + "c0c0c0c0" + "01" + "ae736c6964696e675f77696e646f77" + "10"
	}
	payload := "93cb41da2fdb80000000" + "92" + stored("920102", "c0") + stored("9103", "02") + "c0"
	v, err := parseVector(line{number: 1, data: []byte(`{"id":"X","payload_hex":"` + payload + `","expect":{"ok":true}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := decodeAll(v.payload); err != nil {
		t.Fatal(err)
	}
	if got := v.paths(); len(got) != 0 {
		t.Errorf("a prompt leads to them: %v", got)
	}
}

// TestPromptsOfPaths follows two stores, the second behind the first block of
// the first.
func TestPromptsOfPaths(t *testing.T) {
	stored := func(hashes, parent, tokens string) string {
		return "97" + "ab426c6f636b53746f726564" + hashes + parent + tokens + "02" + "c0c0"
	}
	payload := "93cb41da2fdb80000000" + "92" + stored("920102", "c0", "9401020304") + stored("9103", "01", "920506") + "c0"
	v, err := parseVector(line{number: 1, data: []byte(`{"id":"X","payload_hex":"` + payload + `","expect":{"ok":true}}`)})
	if err != nil {
		t.Fatal(err)
	}
	paths := v.paths()
	for hash, want := range map[string][]uint32{"1": {1, 2}, "2": {1, 2, 3, 4}, "3": {1, 2, 5, 6}} {
		if got := paths[hash]; !slices.Equal(got.query.Tokens, want) || got.tokens != len(want) {
			t.Errorf("to block %s leads %v, of which %d", hash, got.query.Tokens, got.tokens)
		}
	}
}

// FuzzLine parses lines of every format. It must refuse or accept, never panic,
// and what it accepts it must be able to say.
func FuzzLine(f *testing.F) {
	for _, file := range []string{
		"testdata/cases/wire.jsonl", "testdata/cases/index.jsonl", "testdata/cases/replay.jsonl", "scripts.jsonl",
		"testdata/captures/dynamo/hashes.jsonl", peerAnswers, "testdata/captures/dynamo/radix-dups-a.jsonl.zst",
	} {
		lines, err := readLines(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, l := range lines[:min(5, len(lines))] {
			f.Add(l.data)
		}
	}
	for _, text := range storedUneven {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := line{number: 1, data: data}
		kind, err := formatOf(l)
		if err != nil {
			return
		}
		switch kind {
		case kindWire:
			if v, err := parseVector(l); err == nil {
				v.decode(&File{}, v.payload, "")
				v.paths()
				v.owned()
				v.inJSON()
			}
		case kindReplay:
			_, _ = parseTranscript(l)
		case kindIndex:
			if tr, err := parseTrace(l); err == nil {
				tr.encode(t)
			}
		case kindTransport:
			_, _ = parseScript(l)
		case kindCapture:
			_, _ = parseCapture([]line{l, l})
			_, _ = parseAnswers([]line{l, l})
			_, _ = peerTrace([]line{l, l})
		default:
			_ = playHashes(&File{}, []line{l})
		}
	})
}
