package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// TestRegisteredOwnersThatLose tells the server what a loss is worth: the first
// batch of one owner is not the first there was, a pool that outlives its engine
// misses one in the middle.
func TestRegisteredOwnersThatLose(t *testing.T) {
	host := ownAddress(t)
	s := startServe(t, "", "--registration", "--require-first-seq", "--on-loss", "keep")
	dir := t.TempDir()
	owners := func() string { return ask(t, "owners", "--server", s.url) }
	register := func(id int, protocol string) *zmtp.Publisher {
		t.Helper()
		p := publishAt(t, host)
		worker := filepath.Join(dir, fmt.Sprint(id))
		text := fmt.Sprintf(`{"id": "w%d", "model": "m", "worker_id": %d, "ingress_protocol": %q, "kv_block_size": 4,
 "ranks": [{"dp_rank": 0, "raw_zmq_endpoint": %q, "raw_topic": "kv@%d",
  "cache_owner_id": "01010101010101010101010101010101:02020202020202020202020202020202/00000000000000ff/%032x"}]}`,
			id, id, protocol, p.Addr(), id, id)
		if err := os.WriteFile(worker, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.register(t, worker))
		if err := p.WaitSubscribers(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		// What it loses before it is registered ends the attempt, and is not told
		// again to the next.
		complete := regexp.MustCompile(fmt.Sprintf(`(?m)^w%d .* complete `, id))
		until(t, "the registration of "+filepath.Base(worker), owners, complete.MatchString)
		return p
	}
	say := func(p *zmtp.Publisher, id int, seq uint64, names ...uint64) {
		t.Helper()
		if err := p.Send(fmt.Appendf(nil, "kv@%d", id), binary.BigEndian.AppendUint64(nil, seq), pooled(names...)); err != nil {
			t.Fatal(err)
		}
	}
	say(register(17, "sglang_hicache_v1"), 17, 3, 1, 2)
	durable := register(18, "vllm_residency_v1")
	say(durable, 18, 0, 1, 2)
	say(durable, 18, 2, 1, 2, 3)
	until(t, "the fence and the loss", owners, func(out string) bool {
		return strings.Contains(out, "fenced,worker_failed,cache_owner_failed,source_failed") && strings.Contains(out, "degraded,advisory (gap)")
	})
	out := ask(t, "query", "--server", s.url, "--model", "m", "--tokens", "1,2,3,4,5,6,7,8,9,10,11,12")
	if !strings.Contains(out, "cache_owner") || !strings.Contains(out, " 12 ") {
		t.Errorf("what was kept is not found:\n%s\n%s", out, owners())
	}
}
