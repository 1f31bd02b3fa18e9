package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// pushTo sends a batch as JSON and waits until it is visible.
func pushTo(t *testing.T, url, query, body string) {
	t.Helper()
	reply, err := http.Post(url+"/v1/events?wait=applied&"+query, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	said, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", query, reply.Status, said, err)
	}
}

// here runs a command in this process.
func here(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// TestRecordAndReplay goes the whole way: a server that records is pushed to and
// stopped; its recording replays to its dump, with and without prompts.
func TestRecordAndReplay(t *testing.T) {
	for _, mode := range []string{"raw", "hashed"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			recording, dump := filepath.Join(dir, "rec.cairn"), filepath.Join(dir, "rec.dump")
			flags := []string{"--out", recording, "--dump", dump}
			if mode == "hashed" {
				flags = append(flags, "--hashed")
			}
			s := start(t, "record", "sources:\n  - {id: w1, model: m, push: true}\n  - {id: w2, model: m, push: true, ranks: 2}\n", flags...)
			stored := func(name, parent, tokens string) string {
				return `{"type":"BlockStored","block_hashes":[` + name + `],"parent_block_hash":` + parent + `,"token_ids":[` + tokens + `],"block_size":4,"lora_id":null,"medium":"GPU","lora_name":"secret-lora","cache_salt":"secret-salt"}`
			}
			pushTo(t, s.url, "source=w1", stored("1,2", "null", "1,2,3,4,5,6,7,8"))
			pushTo(t, s.url, "source=w1", stored("3", "2", "9,10,11,12"))
			pushTo(t, s.url, "source=w1", `{"type":"BlockRemoved","block_hashes":[2],"medium":"GPU"}`)
			pushTo(t, s.url, "source=w2&rank=1", `[1,[["BlockStored",[7],null,[1,2,3,4],4,null]],null]`)
			pushTo(t, s.url, "source=w2&rank=1&seq=9", `[1,[["BlockStored",[8],null,[5,6,7,8],4,null]],null]`)
			live := get(t, s.url+"/v1/dump")
			if code, out, errs := here("dump", "--server", s.url); code != 0 || out != live {
				t.Errorf("cairn dump: %d %s%s", code, out, errs)
			}
			if err := s.stop(); err != nil {
				t.Fatalf("%v\n%s", err, s.text())
			}
			beside, err := os.ReadFile(dump)
			if err != nil || string(beside) != live || strings.Count(live, "\nblock ") != 3 {
				t.Fatalf("beside the recording: %v\n%s\nover HTTP:\n%s", err, beside, live)
			}

			if code, out, errs := here("replay", recording, "--compare", dump); code != 0 || !strings.Contains(out, "the dump is the same: 10 lines\n") || !strings.Contains(out, " 5 messages of 2 sources, ") {
				t.Errorf("replay: %d\n%s%s", code, out, errs)
			}
			again := filepath.Join(dir, "again.dump")
			if code, out, errs := here("replay", recording, "--speed", "50", "--shards", "3", "--dump", again, "--json"); code != 0 || !strings.Contains(out, `"whole": true`) {
				t.Errorf("replay --speed: %d\n%s%s", code, out, errs)
			}
			if b, err := os.ReadFile(again); err != nil || string(b) != live {
				t.Errorf("at another speed: %v\n%s", err, b)
			}
			if code, out, _ := here("replay", recording, "--until", "+0s", "--compare", dump); code != exitFalse || !strings.Contains(out, "the dumps differ") || !strings.Contains(out, "- block w1 0 worker ") {
				t.Errorf("replay --until: %d\n%s", code, out)
			}
			if code, out, errs := here("replay", recording, "--info"); code != 0 || !strings.Contains(out, mode+" recording, format 1, begun ") ||
				!strings.Contains(out, "SOURCE  RANK  TP  MODEL  LINKS  MESSAGES  REPLAYED  SEQUENCES  BYTES") || !strings.Contains(out, "w2      1     0   m      1      2         0         0…9") {
				t.Errorf("replay --info: %d\n%s%s", code, out, errs)
			}
			if code, out, errs := here("replay", recording, "--info", "--json"); code != 0 || !strings.Contains(out, `"mode": "`+mode+`"`) {
				t.Errorf("replay --info --json: %d\n%s%s", code, out, errs)
			}

			// What cairn check makes of it.
			captures := filepath.Join(dir, "captures")
			if code, out, errs := here("replay", recording, "--export", captures); code != 0 {
				t.Errorf("replay --export: %d\n%s%s", code, out, errs)
			}
			if code, out, errs := here("check", "--direct", filepath.Join(captures, "000-w1-0.jsonl.zst")); code != 0 || !strings.Contains(out, "1 checks") {
				t.Errorf("check: %d\n%s%s", code, out, errs)
			}

			// A file that was cut off.
			whole, err := os.ReadFile(recording)
			if err != nil {
				t.Fatal(err)
			}
			cut := filepath.Join(dir, "cut.cairn")
			if err := os.WriteFile(cut, whole[:len(whole)-9], 0o600); err != nil {
				t.Fatal(err)
			}
			if code, out, errs := here("replay", cut, "--compare", dump); code != 0 || !strings.Contains(out, "the recording was cut off: ") {
				t.Errorf("cut off: %d\n%s%s", code, out, errs)
			}

			z, err := zstd.NewReader(bytes.NewReader(whole))
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			content, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := bytes.Contains(content, []byte("secret")), mode == "raw"; got != want {
				t.Errorf("secrets stand in the recording: %v, want %v", got, want)
			}
		})
	}
}

// TestReplayListens asks a recording questions over HTTP.
func TestReplayListens(t *testing.T) {
	dir := t.TempDir()
	recording := filepath.Join(dir, "rec.cairn")
	s := start(t, "record", "sources:\n  - {id: w1, model: m, push: true}\n", "--out", recording, "--never-wait")
	pushTo(t, s.url, "source=w1", `[1,[["BlockStored",[7],null,[1,2,3,4],4,null]],null]`)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cairn", "replay", recording, "--listen", "127.0.0.1:0")
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	line, err := bufio.NewReader(errs).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "answering at ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	if played, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(played, "played ") {
		t.Fatalf("%q, %v", played, err)
	}
	code, said, _ := here("query", "--server", url, "--model", "m", "--tokens", "1,2,3,4,5")
	if code != 0 || !strings.Contains(said, "w1") {
		t.Errorf("%d %s", code, said)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended = true
	if err := cmd.Wait(); err != nil {
		t.Errorf("cairn replay ended with %v", err)
	}
}
