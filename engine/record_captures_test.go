package engine

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/cairn-kv/cairn/tree"
)

// captures are streams recorded from engines: of each layout, and of each thing
// that masking must not lose, one.
const captures = "../cmd/cairn/conformance/testdata/captures/*/*.zst"

var replayedCaptures = []string{
	"full-", "namespaces-0.11", "namespaces-0.19", "namespaces-0.32", "offload-salt", "hybrid-2full", "lookahead", "restart", "gap-0.17",
	"s0410", "s0501", "s0518-eagle", "s0520-namespaces", "s0523-unified-hicache-salts", "mocker-vllm",
}

// TestCapturesReplay pushes what engines really sent, and replays the recordings
// of it, with prompts and without: all end with the same dump.
func TestCapturesReplay(t *testing.T) {
	files, err := filepath.Glob(captures)
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(name string) bool {
		return !slices.ContainsFunc(replayedCaptures, func(p string) bool { return strings.HasPrefix(filepath.Base(name), p) })
	})
	if len(files) < len(replayedCaptures) {
		t.Fatalf("only %d captures in %s", len(files), captures)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			z, err := zstd.NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			sc := bufio.NewScanner(z)
			sc.Buffer(nil, 64<<20)
			var head struct {
				Policy  string
				Streams []struct {
					Name string
					Rank int
				}
				Config struct {
					MainGroup int `json:"main_group"`
				}
			}
			type msg struct{ Kind, Stream, Seq, Payload string }
			var msgs []msg
			for first := true; sc.Scan(); first = false {
				if first {
					if err := json.Unmarshal(sc.Bytes(), &head); err != nil {
						t.Fatal(err)
					}
					continue
				}
				var m msg
				if json.Unmarshal(sc.Bytes(), &m) == nil && m.Kind == "msg" {
					msgs = append(msgs, m)
				}
			}
			if len(msgs) == 0 {
				t.Skip("a history of JSON events, without messages")
			}
			rank := map[string]int{}
			ranks := 1
			for _, s := range head.Streams {
				rank[s.Name] = s.Rank
				ranks = max(ranks, s.Rank+1)
			}
			e := openEngine(t, Options{})
			raw := &file{}
			rec, err := e.Record(raw, RecordOptions{Wait: true})
			if err != nil {
				t.Fatal(err)
			}
			s := Source{ID: "w", Model: "m", Push: true, Ranks: ranks, MainGroup: head.Config.MainGroup}
			if head.Policy == "set" {
				s.Policy = tree.Set
			}
			if strings.Contains(name, "vllm") {
				s.NoPythonRoot = true
			}
			if err := e.AddSource(patience(t), s); err != nil {
				t.Fatal(err)
			}
			for _, m := range msgs {
				p, err := base64.StdEncoding.DecodeString(m.Payload)
				if err != nil {
					t.Fatal(err)
				}
				seq, err := strconv.ParseUint(m.Seq, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := e.Push(patience(t), &Batch{Source: "w", Rank: rank[m.Stream], Seq: seq, HasSeq: true, Payload: p, Applied: true}); err != nil {
					t.Fatal(err)
				}
			}
			want := dumpOf(t, e)
			if err := rec.Stop(); err != nil {
				t.Fatal(err)
			}
			got, _ := replayed(t, raw, Options{}, ReplayOptions{})
			differ(t, "raw", want, got)
			again := openEngine(t, Options{})
			hashed := &file{}
			second, err := again.Record(hashed, RecordOptions{Hashed: true, Wait: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := again.Replay(patience(t), raw.reader(t), ReplayOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := second.Stop(); err != nil {
				t.Fatal(err)
			}
			got, _ = replayed(t, hashed, Options{}, ReplayOptions{})
			differ(t, "hashed", want, got)
			if strings.Contains(name, "/full-") && strings.Count(want, "\nblock ") < 100 {
				t.Errorf("only %d blocks are held in the end", strings.Count(want, "\nblock "))
			}
		})
	}
}
