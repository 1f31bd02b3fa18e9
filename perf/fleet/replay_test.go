package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// replay is a subscriber's view of one stream: maps of names, built from the
// published bytes alone by a generic msgpack reader.
type replay struct {
	engine *Engine
	copies map[string]map[uint64]int // place ("worker/GPU") → name → copies
	chain  map[uint64][]uint32       // name → all tokens up to and including its block
	prefix map[uint64]string         // name → adapter
	kinds  map[string]int
}

func newReplay(e *Engine) *replay {
	return &replay{engine: e, copies: map[string]map[uint64]int{}, chain: map[uint64][]uint32{},
		prefix: map[uint64]string{}, kinds: map[string]int{}}
}

// fields reads an event of either shape as a map.
func fields(t *testing.T, v any) map[string]any {
	t.Helper()
	if m, ok := v.(map[string]any); ok {
		return m
	}
	a := v.([]any)
	keys := []string{"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
		"lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"}
	if a[0] == "BlockRemoved" {
		keys = []string{"type", "block_hashes", "medium", "group_idx"}
	}
	m := map[string]any{}
	for i, x := range a {
		m[keys[i]] = x
	}
	return m
}

func number(t *testing.T, v any) uint64 {
	t.Helper()
	switch x := v.(type) {
	case int64:
		return uint64(x)
	case uint64:
		return x
	case []byte:
		return binary.BigEndian.Uint64(x[len(x)-8:])
	}
	t.Fatalf("%v (%T) is no name", v, v)
	return 0
}

func (r *replay) batch(t *testing.T, payload []byte) {
	t.Helper()
	v, rest, err := msgp.ReadIntfBytes(payload)
	if err != nil || len(rest) > 0 {
		t.Fatalf("payload: %v, %d bytes left", err, len(rest))
	}
	b := v.([]any)
	if _, ok := b[0].(float64); len(b) != 3 || !ok {
		t.Fatalf("batch is %v", b[:1])
	}
	for _, e := range b[1].([]any) {
		r.event(t, fields(t, e))
	}
}

func (r *replay) event(t *testing.T, m map[string]any) {
	t.Helper()
	domain := "worker/"
	if m["ownership"] == "kvcr" {
		domain = "pool/"
	}
	r.kinds[fmt.Sprint(m["type"], " ", domain, m["medium"])]++
	if m["type"] == "AllBlocksCleared" {
		for p, names := range r.copies {
			if p[:4] == domain[:4] {
				clear(names)
			}
		}
		return
	}
	at := domain + m["medium"].(string)
	names := r.copies[at]
	if names == nil {
		names = map[uint64]int{}
		r.copies[at] = names
	}
	hashes := m["block_hashes"].([]any)
	if len(hashes) == 0 {
		t.Fatal("an event names no block")
	}
	if m["type"] == "BlockRemoved" {
		for _, h := range hashes {
			n := number(t, h)
			if names[n]--; names[n] <= 0 {
				delete(names, n)
			}
		}
		return
	}
	r.stored(t, m, names, domain == "pool/")
}

func (r *replay) stored(t *testing.T, m map[string]any, names map[uint64]int, set bool) {
	t.Helper()
	var tokens []uint32
	for _, x := range m["token_ids"].([]any) {
		tokens = append(tokens, uint32(number(t, x)))
	}
	size := int(number(t, m["block_size"]))
	var chain []uint32
	if p := m["parent_block_hash"]; p != nil {
		chain = r.chain[number(t, p)]
		if chain == nil {
			t.Fatalf("parent %v was never announced", p)
		}
	}
	adapter, _ := m["lora_name"].(string)
	for i, h := range m["block_hashes"].([]any) {
		n := number(t, h)
		if size > 0 {
			if size != r.engine.BlockSize {
				t.Fatalf("block size %d, want %d", size, r.engine.BlockSize)
			}
			chain = append(slices.Clone(chain), tokens[i*size:(i+1)*size]...)
			if known := r.chain[n]; known != nil && !slices.Equal(known, chain) {
				t.Fatalf("name %d means two chains", n)
			}
			r.chain[n], r.prefix[n] = chain, adapter
		} else if r.chain[n] == nil {
			t.Fatalf("location of unknown name %d", n)
		}
		if names[n]++; set {
			names[n] = 1
		}
	}
}

// held reports whether a prompt's first n tokens end in a block on one of the
// media.
func (r *replay) held(p *Prompt, n int, places ...string) bool {
	for _, at := range places {
		for name, c := range r.copies[at] {
			if c > 0 && r.prefix[name] == p.Adapter && slices.Equal(r.chain[name], p.Tokens[:n]) {
				return true
			}
		}
	}
	return false
}

func (r *replay) media(s slot) string {
	e := encoder{engine: r.engine}
	if s.pool() {
		return "pool/" + e.medium(s)
	}
	return "worker/" + e.medium(s)
}

// depths works out all views the slow way.
func depths(rs []*replay, p *Prompt, d Domain) (out [NumViews]int) {
	size := rs[0].engine.BlockSize
	first := onDevice
	if d == CacheOwner {
		first = poolMemory - 1
	}
	on := func(i, t int) bool {
		for _, r := range rs {
			if d == CacheOwner && t == 0 || !r.held(p, (i+1)*size, r.media(first+slot(t))) {
				return false
			}
		}
		return true
	}
	n := len(p.Tokens) / size
	lead := func(f func(i int) bool) int {
		for i := range n {
			if !f(i) {
				return i
			}
		}
		return n
	}
	out[OnDevice] = lead(func(i int) bool { return on(i, 0) })
	out[OnHost] = lead(func(i int) bool { return on(i, 1) })
	out[OnAny] = lead(func(i int) bool { return on(i, 0) || on(i, 1) || on(i, 2) })
	out[OnDeviceHost] = lead(func(i int) bool { return on(i, 0) || on(i, 1) })
	dev := out[OnDevice]
	out[Extension] = lead(func(i int) bool { return i < dev || on(i, 1) })
	return out
}

// message is one received batch.
type message struct {
	seq     uint64
	payload []byte
}

// receive reads a stream until its connection ends.
func receive(c *zmtp.Conn) <-chan message {
	out := make(chan message, 1<<14)
	go func() {
		defer close(out)
		for {
			m, err := c.Next()
			if err != nil {
				return
			}
			f := m.Frames()
			if len(f) != 3 || len(f[1]) != 8 {
				return
			}
			out <- message{binary.BigEndian.Uint64(f[1]), slices.Clone(f[2])}
		}
	}()
	return out
}

// take waits for n messages of a stream.
func take(t *testing.T, in <-chan message, n uint64) []message {
	t.Helper()
	var out []message
	for uint64(len(out)) < n {
		m, ok := <-in
		if !ok {
			t.Fatalf("the stream ends after %d of %d messages", len(out), n)
		}
		out = append(out, m)
	}
	return out
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// msgpRead returns the events of a payload.
func msgpRead(payload []byte) (events []any, rank any, err error) {
	v, _, err := msgp.ReadIntfBytes(payload)
	if err != nil {
		return nil, nil, err
	}
	b := v.([]any)
	return b[1].([]any), b[2], nil
}
