package ingest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
)

// masking is a Tap that masks what a stream has dealt with.
type masking struct {
	Tap
	masker *Masker
	out    [][]byte
}

func (m *masking) Up()        {}
func (m *masking) Down(error) {}
func (m *masking) Message(frames [][]byte, _ Fate) {
	if len(m.out) < cap(m.out) { // not the one behind all
		m.out = append(m.out, bytes.Clone(m.masker.Mask(frames[2])))
	}
}

// play gives payloads to a stream and returns what the index holds behind the
// last one, with the payloads' masked forms.
func play(t *testing.T, o Options, payloads [][]byte) (held []string, masked [][]byte) {
	t.Helper()
	r := newRig(t, 0)
	queue := make(chan [][]byte)
	o.Dial = func(ctx context.Context, h Hooks) (Link, error) {
		return &queueLink{ctx: ctx, hooks: h, queue: queue, wake: make(chan struct{}, 1), closed: make(chan struct{})}, nil
	}
	o.Backoff = zmtp.Backoff{Min: 1, Max: 1}
	m := &masking{out: make([][]byte, 0, len(payloads))}
	mo := o
	mo.Source, mo.Learned = "w1", &r.learned
	m.masker = NewMasker(&mo)
	f := r.stream(Tapped(o, m))
	for n, p := range payloads {
		queue <- [][]byte{nil, be(uint64(n)), p}
	}
	queue <- [][]byte{nil, be(uint64(len(payloads))), {0x92, 0x00, 0x90}} // the last one is dealt with
	f.wait(uint64(len(payloads)))
	units := map[tree.Root][2]int{} // roots are numbered as they are met
	r.mu.Lock()
	for u, root := range r.roots {
		units[root] = u
	}
	r.mu.Unlock()
	err := r.shard.Do(r.ctx, func(w tree.Writer) {
		w.(tree.Dumper).Dump(func(p, c uint64) uint64 { return p*31 + c }, func(b tree.Block) {
			u := units[b.Root]
			b.Root = 0
			held = append(held, fmt.Sprintf("%v %+v", u, b))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(held)
	return held, m.out
}

func vectorPayloads(t *testing.T) (ids []string, payloads [][]byte) {
	t.Helper()
	f, err := os.Open("wire/testdata/wire.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var v struct {
			ID      string `json:"id"`
			Payload string `json:"payload_hex"`
		}
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(v.Payload)
		if err != nil {
			t.Fatal(err)
		}
		ids, payloads = append(ids, v.ID), append(payloads, b)
	}
	return ids, payloads
}

// TestMaskedIsTheSame: a stream that gets masked payloads holds what one holds
// that got the payloads themselves, in every dialect, and nothing of the prompts
// stands in them.
func TestMaskedIsTheSame(t *testing.T) {
	ids, all := vectorPayloads(t)
	more := map[string]string{
		"router events": `[{"worker_id":42,"storage_tier":"device","event":{"event_id":0,"data":{"stored":{"parent_hash":null,"start_position":null,"blocks":[{"block_hash":18364758544493064720,"tokens_hash":14643705804678351452,"mm_extra_info":null}]}},"dp_rank":0}},{"worker_id":43,"event":{"event_id":3,"data":"cleared","dp_rank":0}}]`,
		"pulled events": `{"event_id":1,"data":{"type":"stored","parent_hash":null,"blocks":[{"type":"stored_block","block_hash":5,"tokens":[{"token_id":1},{"token_id":2},{"token_id":3},{"token_id":4}],"cache_level":0}]},"window_size":4096}
			{"event_id":2,"data":{"type":"updated","block_hash":5,"cache_level":{"type":"event_diff","old_value":0,"new_value":1},"priority":null},"window_size":4096}`,
		"JSON":       `[1.5,[["BlockStored",[7],null,[1,2,3,4],4,null]],2]`,
		"two sizes":  `[1,[["BlockStored",[7,8],null,[1,2,3,4,5,6,7,8],4,null],["BlockStored",[9],8,[1,2,3,4,5,6],6,null],["BlockStored",[17,18],null,[1,2,3,4,5,6,7,8],4,null]],null]`,
		"one behind": `[1,[["BlockStored",[7,8],null,[1,2,3,4,5,6,7,8],4,null],["BlockStored",[9],8,[1,2,3,4,5,6,7,8],8,null]],null]`,
		"an adapter": `{"ts":1,"events":[{"type":"BlockStored","block_hashes":[1,2],"parent_block_hash":null,"token_ids":[1,2,3,4],"block_size":2,"lora_id":7,"medium":"GPU","lora_name":"secret-lora","cache_salt":"secret-salt","session_id":"secret-session"}]}`,
		"a number":   `{"ts":1,"events":[{"type":"BlockStored","block_hashes":[1,2],"parent_block_hash":null,"token_ids":[1,2,3,4],"block_size":2,"lora_id":7,"medium":"GPU"}]}`,
		"nothing":    `[1,[],null]`,
		"no batch":   `{`,
	}
	for id, text := range more {
		ids, all = append(ids, id), append(all, []byte(text))
	}
	for _, o := range []struct {
		name string
		Options
	}{
		{"plain", Options{}},
		{"with a pool", Options{Pool: PoolDurable}},
		{"other roots", Options{NoPythonRoot: true, ZeroParentUnknown: true, BareMultimodal: true}},
	} {
		t.Run(o.name, func(t *testing.T) {
			check := func(name string, payloads [][]byte) int {
				want, masked := play(t, o.Options, payloads)
				if len(masked) != len(payloads) {
					t.Fatalf("%s: %d of %d payloads are masked", name, len(masked), len(payloads))
				}
				got, _ := play(t, o.Options, masked)
				if !slices.Equal(want, got) {
					t.Errorf("%s:\n got %s\nwant %s", name, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
				}
				for _, p := range masked {
					discreet(t, name, p)
				}
				return len(want)
			}
			held := 0
			for i := range all {
				held += check(ids[i], all[i:i+1])
			}
			if held < 40 {
				t.Errorf("only %d blocks are held in all", held)
			}
			check("all in a row", all)
			slices.Reverse(all)
			check("all in a row, backwards", all)
			slices.Reverse(all)
		})
	}
}

// discreet checks that a masked payload names no token and no secret.
func discreet(t *testing.T, name string, payload []byte) {
	t.Helper()
	var d wire.Decoder
	var ev wire.Event
	if _, err := d.Reset(payload); err != nil {
		return
	}
	for {
		more, err := d.Next(&ev)
		if err != nil || !more {
			break
		}
		if len(ev.Tokens) > 0 || len(ev.LoraName) > 0 || len(ev.Salt) > 0 || len(ev.SessionID) > 0 || len(ev.Keys.Hashes) > 0 || ev.HasLoraID {
			t.Errorf("%s: a masked event has %+v", name, ev)
		}
	}
	for _, secret := range []string{"secret", "sql-adapter", "tenant-a"} {
		if bytes.Contains(payload, []byte(secret)) {
			t.Errorf("%s: %q stands in the masked payload", name, secret)
		}
	}
}
