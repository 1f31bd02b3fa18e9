package engine

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// archive is a replay endpoint that keeps what a publisher sent, as engines do,
// and can be told to let who asks wait.
type archive struct {
	*zmtp.Router
	mu      sync.Mutex
	batches []archived
	held    chan struct{} // closed: answers
}

type archived struct {
	seq     uint64
	payload []byte
}

func newArchive(t testing.TB) *archive {
	t.Helper()
	v := &archive{held: make(chan struct{})}
	close(v.held)
	var err error
	v.Router, err = zmtp.RouterConfig{Handle: v.serve}.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

func (v *archive) keep(seq uint64, payload []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.batches = append(v.batches, archived{seq, slices.Clone(payload)})
}

// hold lets who asks wait until open is called.
func (v *archive) hold() (open func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	held := make(chan struct{})
	v.held = held
	return sync.OnceFunc(func() { close(held) })
}

func (v *archive) serve(ctx context.Context, request [][]byte, reply zmtp.Reply) {
	v.mu.Lock()
	held := v.held
	v.mu.Unlock()
	select {
	case <-held:
	case <-ctx.Done():
		return
	}
	from := binary.BigEndian.Uint64(request[1])
	v.mu.Lock()
	batches := slices.Clone(v.batches)
	v.mu.Unlock()
	at := func(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
	for _, b := range batches {
		if b.seq >= from && reply(nil, at(b.seq), b.payload) != nil {
			return
		}
	}
	_ = reply(nil, at(1<<64-1), nil) // who asked may have gone
}

// lose keeps a batch for replay and does not send it.
func (p *publisher) lose(events ...event) {
	p.t.Helper()
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, 1)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for _, e := range events {
		b = p.dialect.append(b, e)
	}
	p.keep(p.next, msgp.AppendNil(b))
	p.next++
}
