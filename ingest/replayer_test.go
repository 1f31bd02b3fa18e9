package ingest

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// replayer is a replay endpoint whose every answer a test gives by hand.
type replayer struct {
	*zmtp.Router
	t    testing.TB
	asks chan *ask
}

// ask is one request that waits for its answer.
type ask struct {
	from  uint64
	reply zmtp.Reply
	done  chan struct{}
}

func newReplayer(t testing.TB) *replayer {
	t.Helper()
	p := &replayer{t: t, asks: make(chan *ask, 16)}
	var err error
	p.Router, err = zmtp.RouterConfig{Handle: func(ctx context.Context, request [][]byte, reply zmtp.Reply) {
		if len(request) != 2 || len(request[0]) != 0 || len(request[1]) != 8 {
			t.Errorf("the request is %q; an empty frame and 8 bytes would be right", request)
			return
		}
		a := &ask{from: binary.BigEndian.Uint64(request[1]), reply: reply, done: make(chan struct{})}
		p.asks <- a
		select {
		case <-a.done:
		case <-ctx.Done():
		}
	}}.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// asked waits for the next request and checks where it begins.
func (p *replayer) asked(from uint64) *ask {
	p.t.Helper()
	select {
	case a := <-p.asks:
		if a.from != from {
			p.t.Fatalf("asked from %d, want %d", a.from, from)
		}
		return a
	case <-time.After(20 * time.Second):
		p.t.Fatalf("nobody asked from %d", from)
	}
	return nil
}

// unasked checks that no request has come so far.
func (p *replayer) unasked() {
	p.t.Helper()
	select {
	case a := <-p.asks:
		p.t.Fatalf("asked from %d, want no request", a.from)
	default:
	}
}

// batch replies with one batch in the old framing.
func (a *ask) batch(n uint64, events ...[]byte) *ask { return a.bytes(n, payload(nil, events...)) }

func (a *ask) bytes(n uint64, payload []byte) *ask { return a.frames(nil, be(n), payload) }

func (a *ask) frames(frames ...[]byte) *ask {
	_ = a.reply(frames...)
	_ = a.reply()
	return a
}

// end ends the answer with the old end marker.
func (a *ask) end() {
	a.frames(nil, be(1<<64-1), nil)
	close(a.done)
}

// archive is a replay endpoint that keeps what was sent, as engines do.
type archive struct {
	*zmtp.Router
	mu      sync.Mutex
	batches []archived
	limit   int // 0: all are kept
	asked   []uint64
}

type archived struct {
	seq     uint64
	payload []byte
}

func newArchive(t testing.TB, limit int) *archive {
	t.Helper()
	v := &archive{limit: limit}
	var err error
	v.Router, err = zmtp.RouterConfig{Handle: v.serve}.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

func (v *archive) serve(_ context.Context, request [][]byte, reply zmtp.Reply) {
	from := binary.BigEndian.Uint64(request[1])
	v.mu.Lock()
	v.asked = append(v.asked, from)
	batches := slices.Clone(v.batches)
	v.mu.Unlock()
	for _, b := range batches {
		if b.seq >= from && reply(nil, be(b.seq), b.payload) != nil {
			return
		}
	}
	_ = reply(nil, be(1<<64-1), nil)
}

func (v *archive) keep(n uint64, payload []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if k := len(v.batches); k > 0 && n <= v.batches[k-1].seq {
		v.batches = nil // another process
	}
	v.batches = append(v.batches, archived{n, payload})
	if v.limit > 0 && len(v.batches) > v.limit {
		v.batches = v.batches[len(v.batches)-v.limit:]
	}
}

func (v *archive) requests() []uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.asked)
}

// until waits for what has no event of its own.
func (f *feed) until(what string, done func() bool) {
	f.rig.t.Helper()
	for !done() {
		if f.rig.ctx.Err() != nil {
			f.rig.t.Fatalf("%s: never\n%s", what, f.dump())
		}
		time.Sleep(time.Millisecond)
	}
}

// becomes waits for a state.
func (f *feed) becomes(d Domain, want State, cause Cause) {
	f.rig.t.Helper()
	f.until(want.String()+" "+string(cause), func() bool {
		st := f.now(d)
		return st.State == want && st.Cause == cause
	})
}

// repairing are the options of a stream with a replay endpoint.
func repairing(endpoint string) Options {
	return Options{Repair: Repair{Endpoint: endpoint, Silence: 20 * time.Second, ProbeAfter: -1}}
}
