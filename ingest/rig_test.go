package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/content"
	"github.com/cairn-kv/cairn/tree/model"
	"github.com/cairn-kv/cairn/tree/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an index behind a shard, and a source with its streams and publishers
// on real sockets.
type rig struct {
	t       testing.TB
	ctx     context.Context
	index   *model.Model
	shard   *shard.Shard
	learned Learned
	shards  int // TP shards of every holder

	mu      sync.Mutex
	holders map[key]tree.Holder
	roots   map[[2]int]tree.Root
	sizes   map[key][2]int
	cap     int // ranks the owner has
}

type key struct {
	rank   int
	domain Domain
}

func newRig(t testing.TB, ringBytes int) *rig {
	t.Helper()
	r := &rig{
		t: t, index: model.New(), shards: 1, cap: DefaultMaxRanks,
		holders: map[key]tree.Holder{}, roots: map[[2]int]tree.Root{}, sizes: map[key][2]int{},
	}
	r.start(r.index, ringBytes)
	return r
}

func (r *rig) start(w tree.Writer, ringBytes int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	r.ctx = ctx
	r.shard = shard.New(shard.Options{Index: w, RingBytes: ringBytes})
	r.shard.Start(ctx)
	r.t.Cleanup(func() {
		r.shard.Close()
		cancel()
	})
}

// The rig is the owner of its streams.

func (r *rig) Holder(rank int, d Domain) (tree.Holder, uint32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rank >= r.cap {
		return 0, 0, fmt.Errorf("rank %d: %w", rank, ErrRank)
	}
	k := key{rank, d}
	if h, ok := r.holders[k]; ok {
		return h, r.shard.Generation(h), nil
	}
	policy := tree.Copies
	if d == CacheOwner {
		policy = tree.Set
	}
	var h tree.Holder
	var err error
	if derr := r.shard.Do(r.ctx, func(w tree.Writer) { h, err = w.AddHolder(policy, r.shards) }); derr != nil {
		return 0, 0, derr
	}
	r.holders[k] = h
	return h, 0, err
}

func (r *rig) Root(unit, lookahead int) (tree.Root, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := [2]int{unit, lookahead}
	if _, ok := r.roots[k]; !ok {
		r.roots[k] = tree.Root(len(r.roots) + 1)
	}
	return r.roots[k], nil
}

func (r *rig) Learned(rank int, d Domain, size, lookahead int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sizes[key{rank, d}] = [2]int{size, lookahead}
}

// feed is a publisher with the stream that follows it.
type feed struct {
	*Stream
	rig    *rig
	pub    *zmtp.Publisher
	logs   chan string
	cancel context.CancelFunc
	ended  chan error
	inc    uint32
}

func (r *rig) feed(o Options) *feed {
	r.t.Helper()
	pub, err := zmtp.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { pub.Close() })
	o.Endpoint = pub.Addr()
	f := r.stream(o)
	f.pub = pub
	f.joined()
	return f
}

// stream is a feed without a publisher.
func (r *rig) stream(o Options) *feed {
	r.t.Helper()
	port, err := r.shard.OpenPort(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	f := &feed{rig: r, logs: make(chan string, 1024), ended: make(chan error, 1)}
	if o.Source == "" {
		o.Source = "w1"
	}
	o.Learned, o.Owner, o.Port = &r.learned, r, port
	o.Logger = slog.New(logTo(f.logs))
	if o.Backoff == (zmtp.Backoff{}) {
		o.Backoff = zmtp.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}
	}
	if f.Stream, err = NewStream(o); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	f.cancel = cancel
	go func() { f.ended <- f.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-f.ended; !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, shard.ErrClosed) {
			r.t.Errorf("the stream ended with %v", err)
		}
	})
	return f
}

// logTo is a slog handler that passes messages to a channel.
type logTo chan string

func (l logTo) Enabled(context.Context, slog.Level) bool { return true }
func (l logTo) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l logTo) WithGroup(string) slog.Handler            { return l }
func (l logTo) Handle(_ context.Context, rec slog.Record) error {
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "state" || a.Key == "cause" || a.Key == "domain" {
			text += " " + a.Value.String()
		}
		return true
	})
	select {
	case l <- text:
	default:
	}
	return nil
}

// logged waits for a log message.
func (f *feed) logged(want string) {
	f.rig.t.Helper()
	for {
		select {
		case got := <-f.logs:
			if got == want {
				return
			}
		case <-f.rig.ctx.Done():
			f.rig.t.Fatalf("%q was never logged", want)
		}
	}
}

func (f *feed) joined() {
	f.rig.t.Helper()
	if err := f.pub.WaitSubscribers(f.rig.ctx, 1); err != nil {
		f.rig.t.Fatal(err)
	}
}

// follow lets the publisher die and another one come up at its address.
func (f *feed) follow() {
	f.rig.t.Helper()
	f.pub.Close()
	f.logged("disconnected")
	f.publish(f.opt.Endpoint)
}

// publish listens at an address that may be in use for a moment yet.
func (f *feed) publish(endpoint string) {
	f.rig.t.Helper()
	var err error
	for {
		if f.pub, err = zmtp.Listen(context.Background(), endpoint); err == nil {
			break
		}
		if f.rig.ctx.Err() != nil {
			f.rig.t.Fatal(err)
		}
	}
	pub := f.pub
	f.rig.t.Cleanup(func() { pub.Close() })
	f.joined()
}

// live sends one batch; the topic is empty.
func (f *feed) live(n uint64, events ...[]byte) {
	f.rig.t.Helper()
	f.raw([]byte(f.opt.Topic), be(n), payload(nil, events...))
}

func (f *feed) raw(frames ...[]byte) {
	f.rig.t.Helper()
	if err := f.pub.Send(frames...); err != nil {
		f.rig.t.Fatal(err)
	}
}

// wait waits until a batch of the running incarnation is applied.
func (f *feed) wait(n uint64) {
	f.rig.t.Helper()
	if err := f.port.WaitApplied(f.rig.ctx, shard.Position{Incarnation: f.inc, Seq: n, Any: true}); err != nil {
		f.rig.t.Fatalf("waiting for batch %d: %v\n%s", n, err, f.dump())
	}
}

// restarted goes on to the next incarnation.
func (f *feed) restarted() { f.inc++ }

func (f *feed) now(d Domain) Status { return f.Status(d, f.port.Applied()) }

func (f *feed) state(d Domain, want State, cause Cause) {
	f.rig.t.Helper()
	if st := f.now(d); st.State != want || st.Cause != cause {
		f.rig.t.Fatalf("%v is %v (%q), want %v (%q)\n%s", d, st.State, st.Cause, want, cause, f.dump())
	}
}

// counted is a counter's value.
func (f *feed) counted(name, reason string) uint64 {
	f.rig.t.Helper()
	for l, v := range f.Counters() {
		if l == (Label{name, reason}) {
			return v
		}
	}
	f.rig.t.Fatalf("no counter %s{%s}", name, reason)
	return 0
}

func (f *feed) dump() (text string) {
	for l, v := range f.Counters() {
		if v != 0 {
			text += fmt.Sprintf("%s{%s} %d\n", l.Name, l.Reason, v)
		}
	}
	return text + fmt.Sprintf("%+v\n", f.port.Counters())
}

// query says which prompt is asked for and how.
type query struct {
	tokens        []uint32
	adapter, salt string
	keys          *content.Keys
	lookahead     int
	unit          int // default: the source's
}

// depths is what a rank's holder has of a prompt, in units.
func (r *rig) depths(rank int, d Domain, q query) [tree.NumViews]uint32 {
	if q.unit == 0 {
		q.unit = r.learned.Unit()
	}
	r.mu.Lock()
	root, known := r.roots[[2]int{q.unit, q.lookahead}]
	h := r.holders[key{rank, d}]
	r.mu.Unlock()
	if !known {
		return [tree.NumViews]uint32{}
	}
	seeds := content.MakeSeeds(q.adapter, q.salt)
	hashes := content.Append(nil, q.tokens, q.unit, q.lookahead, seeds.First, seeds.Rest, q.keys)
	for _, m := range r.index.NewReader().Match(root, hashes) {
		if m.Holder == h {
			return m.Units
		}
	}
	return [tree.NumViews]uint32{}
}

func (r *rig) expect(rank int, d Domain, q query, device, anyTier uint32) {
	r.t.Helper()
	got := r.depths(rank, d, q)
	if got[tree.ViewDevice] != device || got[tree.ViewAny] != anyTier {
		r.t.Fatalf("rank %d, %v, %d tokens: device %d, any %d; want %d, %d", rank, d, len(q.tokens), got[tree.ViewDevice], got[tree.ViewAny], device, anyTier)
	}
}

// device expects a depth of rank 0's worker on the device and on any tier.
func (r *rig) device(tokens []uint32, want uint32) {
	r.t.Helper()
	r.expect(0, Worker, query{tokens: tokens}, want, want)
}

func be(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func span(from, to uint32) (t []uint32) {
	for ; from <= to; from++ {
		t = append(t, from)
	}
	return t
}

// payload packs a batch of vLLM's form.
func payload(rank any, events ...[]byte) []byte {
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, float64(time.Now().UnixNano())/1e9-1)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for _, e := range events {
		b = append(b, e...)
	}
	return value(b, rank)
}

// fields are the keys of a map event in order, or the slots of an array event.
type fields []any

func (f fields) pack() []byte {
	b := msgp.AppendMapHeader(nil, uint32(len(f)/2))
	for i, v := range f {
		if i%2 == 0 {
			b = msgp.AppendString(b, v.(string))
		} else {
			b = value(b, v)
		}
	}
	return b
}

func (f fields) array() []byte {
	b := msgp.AppendArrayHeader(nil, uint32(len(f)))
	for _, v := range f {
		b = value(b, v)
	}
	return b
}

func value(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(b)
	case string:
		return msgp.AppendString(b, v)
	case int:
		return msgp.AppendInt(b, v)
	case uint64:
		return msgp.AppendUint64(b, v)
	case []uint64:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, x := range v {
			b = msgp.AppendUint64(b, x)
		}
		return b
	case []uint32:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, x := range v {
			b = msgp.AppendUint32(b, x)
		}
		return b
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(v)))
		for _, x := range v {
			b = value(b, x)
		}
		return b
	}
	panic(fmt.Sprintf("%T", v))
}

// store is a map event with blocks of size tokens; more are further fields.
func store(hashes []uint64, parent any, tokens []uint32, size int, more ...any) []byte {
	f := fields{"type", "BlockStored", "block_hashes", hashes, "parent_block_hash", parent, "token_ids", tokens, "block_size", size, "lora_id", nil}
	if !slices.Contains(more, any("medium")) {
		f = append(f, "medium", "GPU")
	}
	return append(f, more...).pack()
}

func remove(hashes []uint64, more ...any) []byte {
	f := fields{"type", "BlockRemoved", "block_hashes", hashes}
	if !slices.Contains(more, any("medium")) {
		f = append(f, "medium", "GPU")
	}
	return append(f, more...).pack()
}

func clearAll(more ...any) []byte {
	return append(fields{"type", "AllBlocksCleared"}, more...).pack()
}

// The blocks of cases/transport.md.
var (
	storeAB = store([]uint64{101, 102}, nil, span(1, 8), 4)
	storeC  = store([]uint64{103}, 102, span(9, 12), 4)
	storeX  = store([]uint64{121}, nil, span(21, 24), 4)
)

// chain is block n of one long chain, as in Q07.
func chain(n uint64) []byte {
	var parent any
	if n > 0 {
		parent = 1000 + n
	}
	return store([]uint64{1001 + n}, parent, span(uint32(4*n+1), uint32(4*n+4)), 4)
}
