package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// pythonVariable names the Python interpreter that has msgspec and pyzmq. The
// test needs one, so that plain `make test` needs Go alone; .ci/run makes one.
const pythonVariable = "CAIRN_INTEROP_PYTHON"

// python is the running publisher script.
type python struct {
	in  io.WriteCloser
	out *bufio.Scanner
}

func startPython(t *testing.T) *python {
	t.Helper()
	interpreter := os.Getenv(pythonVariable)
	if interpreter == "" {
		t.Skipf("%s is not set: it names a Python with msgspec and pyzmq", pythonVariable)
	}
	cmd := exec.Command(interpreter, "testdata/interop/publisher.py")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // the script ends with its input
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("publisher.py: %v", err)
			}
		case <-time.After(patience):
			t.Errorf("publisher.py does not end: %v", cmd.Process.Kill())
		}
	})
	return &python{in: in, out: bufio.NewScanner(out)}
}

// do sends one command and returns the answer.
func (p *python) do(t *testing.T, command map[string]any) map[string]any {
	t.Helper()
	if err := json.NewEncoder(p.in).Encode(command); err != nil {
		t.Fatalf("publisher.py: %v", err)
	}
	if !p.out.Scan() {
		t.Fatalf("publisher.py ended at %v: %v", command, p.out.Err())
	}
	var answer map[string]any
	if err := json.Unmarshal(p.out.Bytes(), &answer); err != nil || answer["ok"] != true {
		t.Fatalf("publisher.py: %v: %s: %v", command, p.out.Text(), err)
	}
	return answer
}

// ev is one event of a command.
type ev = map[string]any

// depthsOf asks over HTTP, through the command line client, and returns
// "source/rank=device/any" of each holder.
func depthsOf(t *testing.T, s *served, flags ...string) string {
	t.Helper()
	args := append([]string{"query", "--server", s.url, "--json"}, flags...)
	var a struct {
		Holders []holder `json:"holders"`
	}
	if err := json.Unmarshal([]byte(cairn(t, args...)), &a); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, h := range a.Holders {
		parts = append(parts, fmt.Sprintf("%s/%d=%d/%d", h.Source, h.Rank, h.Tokens.Device, h.Tokens.Any))
	}
	return strings.Join(parts, " ")
}

// TestInterop lets publishers that are not ours speak to a running server: the
// libraries that the engines use, in the layouts of both engines.
func TestInterop(t *testing.T) {
	p := startPython(t)
	endpoints := map[string]string{}
	sources := "sources:\n"
	for _, name := range []string{"v-array", "v-map", "s-array", "s-map"} {
		endpoints[name] = p.do(t, ev{"op": "bind", "name": name})["endpoint"].(string)
		sources += fmt.Sprintf("  - {id: %s, model: %s, endpoint: %q, topic: %q}\n", name, name, endpoints[name], "kv@"+name+"@m")
	}
	s := startServe(t, sources)
	for name := range endpoints {
		if topic := p.do(t, ev{"op": "subscribed", "name": name})["topic"]; topic != "kv@"+name+"@m" {
			t.Errorf("%s: subscribed to %q", name, topic)
		}
	}
	next := map[string]uint64{}
	publish := func(t *testing.T, name, dialect string, events ...ev) {
		t.Helper()
		p.do(t, ev{"op": "send", "name": name, "dialect": dialect, "topic": "kv@" + name + "@m", "seq": next[name], "rank": 0, "events": events})
		s.applied(t, name, 0, next[name])
		next[name]++
	}
	check := func(t *testing.T, want, model, tokens string, flags ...string) {
		t.Helper()
		if got := depthsOf(t, s, append([]string{"--model", model, "--tokens", tokens}, flags...)...); got != want {
			t.Errorf("%s, tokens %s %v: got %q, want %q", model, tokens, flags, got, want)
		}
	}
	const twelve = "1,2,3,4,5,6,7,8,9,10,11,12"

	t.Run("vLLM arrays", func(t *testing.T) {
		const high = uint64(18364758544493064720) // above 2^63
		publish(t, "v-array", "vllm-array",
			ev{"event": "store", "block_hashes": []uint64{high, 2}, "token_ids": []int{1, 2, 3, 4, 5, 6, 7, 8}, "block_size": 4},
			ev{"event": "store", "block_hashes": []uint64{3}, "parent_block_hash": 2, "token_ids": []int{9, 10, 11, 12}, "block_size": 4})
		check(t, "v-array/0=12/12", "v-array", twelve)
		publish(t, "v-array", "vllm-array", ev{"event": "remove", "block_hashes": []uint64{2}})
		check(t, "v-array/0=4/4", "v-array", twelve)
		publish(t, "v-array", "vllm-array",
			ev{"event": "store", "block_hashes": []uint64{2}, "parent_block_hash": high, "token_ids": []int{5, 6, 7, 8}, "block_size": 4},
			ev{"event": "store", "block_hashes": []uint64{31}, "token_ids": []int{1, 2, 3, 4}, "block_size": 4, "lora_id": 7, "lora_name": "sql-adapter"})
		check(t, "v-array/0=12/12", "v-array", twelve)
		check(t, "v-array/0=4/4", "v-array", twelve, "--adapter", "sql-adapter")
		publish(t, "v-array", "vllm-array", ev{"event": "clear"})
		check(t, "", "v-array", twelve)
	})

	t.Run("vLLM maps", func(t *testing.T) {
		const first, second = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
		publish(t, "v-map", "vllm-map",
			ev{"event": "store", "block_hashes": []string{first, second}, "token_ids": []int{1, 2, 3, 4, 5, 6, 7, 8}, "block_size": 4,
				"extra_keys": []any{[]any{"tenant-a"}, nil}, "group_idx": 0, "kv_cache_spec_kind": "full_attention", "locality": "LOCAL"})
		check(t, "v-map/0=8/8", "v-map", twelve, "--salt", "tenant-a")
		check(t, "", "v-map", twelve)
		// One name as bytes and as the integer of its last eight.
		publish(t, "v-map", "vllm-map",
			ev{"event": "store", "block_hashes": []uint64{4051333365884599871}, "parent_block_hash": first, "token_ids": []int{5, 6, 7, 8}, "block_size": 4, "medium": "CPU"},
			ev{"event": "remove", "block_hashes": []uint64{4051333365884599871}, "group_idx": 0})
		check(t, "v-map/0=4/8", "v-map", twelve, "--salt", "tenant-a")
		publish(t, "v-map", "vllm-map", ev{"event": "clear"})
		check(t, "", "v-map", twelve, "--salt", "tenant-a")
	})

	t.Run("SGLang arrays", func(t *testing.T) {
		publish(t, "s-array", "sglang-array", ev{"event": "clear"},
			ev{"event": "store", "block_hashes": []int64{-81985529216486896}, "token_ids": []int{1, 2, 3, 4}, "block_size": 4},
			ev{"event": "store", "block_hashes": []int64{12}, "parent_block_hash": -81985529216486896, "token_ids": []int{5, 6, 7, 8}, "block_size": 4},
			ev{"event": "store", "block_hashes": []int64{-81985529216486896}, "token_ids": []int{1, 2, 3, 4}, "block_size": 4, "medium": "CPU_PINNED"})
		check(t, "s-array/0=8/8", "s-array", twelve)
		publish(t, "s-array", "sglang-array", ev{"event": "remove", "block_hashes": []int64{-81985529216486896}})
		check(t, "s-array/0=0/8", "s-array", twelve)
	})

	t.Run("SGLang maps", func(t *testing.T) {
		publish(t, "s-map", "sglang-map", ev{"event": "clear"},
			ev{"event": "store", "block_hashes": []int64{11, -12}, "token_ids": []int{1, 2, 3, 4}, "block_size": 2, "cache_salt": "tenant-a", "session_id": "s-1"},
			ev{"event": "store", "block_hashes": []int64{21}, "token_ids": []int{1, 2}, "block_size": 2, "lora_name": "sql-adapter"})
		check(t, "s-map/0=4/4", "s-map", twelve, "--salt", "tenant-a")
		check(t, "s-map/0=2/2", "s-map", twelve, "--adapter", "sql-adapter")
		check(t, "", "s-map", twelve)
		publish(t, "s-map", "sglang-map", ev{"event": "remove", "block_hashes": []int64{-12}})
		check(t, "s-map/0=2/2", "s-map", twelve, "--salt", "tenant-a")
	})

	t.Run("restart and gap", func(t *testing.T) {
		if at := s.stream(t, "s-map", 0); at.State != "exact" {
			t.Errorf("before: state %s", at.State)
		}
		// A new process: the sequence goes back, and so does all it held.
		before := s.stream(t, "s-map", 0).Incarnation
		p.do(t, ev{"op": "send", "name": "s-map", "dialect": "sglang-map", "topic": "kv@s-map@m", "seq": 0, "rank": 0, "events": []ev{
			{"event": "store", "block_hashes": []int64{5}, "token_ids": []int{1, 2}, "block_size": 2},
		}})
		s.await(t, "s-map", 0, "restart applied", func(at streamAt) bool {
			return at.Incarnation > before && at.Applied != nil && *at.Applied == 0
		})
		check(t, "", "s-map", twelve, "--salt", "tenant-a")
		check(t, "s-map/0=2/2", "s-map", twelve)
		// A loss: what was learnt before is gone, and the answer says so.
		next["s-map"] = 5
		publish(t, "s-map", "sglang-map", ev{"event": "store", "block_hashes": []int64{6}, "token_ids": []int{3, 4}, "block_size": 2})
		check(t, "", "s-map", twelve)
		check(t, "s-map/0=2/2", "s-map", "3,4")
		if at := s.stream(t, "s-map", 0); at.State != "degraded" || at.Counters["missing_batches"] != 4 {
			t.Errorf("behind the gap: %+v", at)
		}
	})
}
