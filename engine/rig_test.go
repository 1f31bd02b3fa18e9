package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"
	"go.uber.org/goleak"

	"github.com/cairn-kv/cairn/engine/hint"
	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// indexes are what the engine is tested on: the contract is one.
var indexes = []struct {
	name string
	make func() tree.Interface
}{
	{"reference", func() tree.Interface { return model.New() }},
	{"lock-free", func() tree.Interface { return tree.New(tree.Options{}) }},
}

// The chain of the acceptance scenarios: four blocks of 64 tokens, 1 … 256, and
// the names SGLang gives them.
const blockTokens = 64

var chainNames = []uint64{905019192701563378, 16844206292767112481, 7182366256570268908, 9390733088869768009}

// count returns the tokens from … to.
func count(from, to uint32) []uint32 {
	t := make([]uint32, 0, to-from+1)
	for v := from; v <= to; v++ {
		t = append(t, v)
	}
	return t
}

// event is what a publisher says, before a dialect gives it its form.
type event struct {
	clear     bool
	remove    bool
	names     []uint64
	parent    uint64
	hasParent bool
	tokens    []uint32
	medium    string
	owner     string // ownership
	adapter   string
	salt      string
	size      int // block size, 0: blockTokens
}

// store is the store of a chain's first n blocks.
func store(n int, medium, owner string) event {
	return event{names: chainNames[:n], tokens: count(1, uint32(n*blockTokens)), medium: medium, owner: owner}
}

// remove is the removal of named blocks.
func remove(medium, owner string, names ...uint64) event {
	return event{remove: true, names: names, medium: medium, owner: owner}
}

// dialect turns events into a payload.
type dialect struct {
	name     string
	protocol string       // the ingress protocol with owned residency that goes with it
	carrier  hint.Carrier // where its workers want hints
	append   func(b []byte, e event) []byte
}

var dialects = []dialect{
	{"sglang", HiCacheV1, hint.EngineArgument, appendSGLang},
	{"vllm", HiCacheV1, hint.TransferParams, appendVLLM},
}

// appendSGLang writes what SGLang's releases do: worker events as arrays with
// signed hashes, those with more to say as maps.
func appendSGLang(b []byte, e event) []byte {
	if e.owner != "" || e.adapter != "" || e.salt != "" {
		return appendMap(b, e, true)
	}
	switch {
	case e.clear:
		b = msgp.AppendArrayHeader(b, 1)
		return msgp.AppendString(b, "AllBlocksCleared")
	case e.remove:
		b = msgp.AppendArrayHeader(b, 3)
		b = msgp.AppendString(b, "BlockRemoved")
		b = appendNames(b, e.names, true)
		return msgp.AppendString(b, e.medium)
	}
	b = msgp.AppendArrayHeader(b, 7)
	b = msgp.AppendString(b, "BlockStored")
	b = appendNames(b, e.names, true)
	b = appendParent(b, e, true)
	b = appendTokens(b, e.tokens)
	b = msgp.AppendInt(b, e.blockSize())
	b = msgp.AppendNil(b)
	return msgp.AppendString(b, e.medium)
}

// appendVLLM writes the map form of vLLM's present releases.
func appendVLLM(b []byte, e event) []byte { return appendMap(b, e, false) }

func appendMap(b []byte, e event, signed bool) []byte {
	tag, keys := "BlockStored", 8
	switch {
	case e.clear:
		tag, keys = "AllBlocksCleared", 1
	case e.remove:
		tag, keys = "BlockRemoved", 3
	}
	for _, more := range []string{e.owner, e.salt} {
		if more != "" {
			keys++
		}
	}
	b = msgp.AppendMapHeader(b, uint32(keys))
	b = msgp.AppendString(b, "type")
	b = msgp.AppendString(b, tag)
	if !e.clear {
		b = msgp.AppendString(b, "block_hashes")
		b = appendNames(b, e.names, signed)
		if !e.remove {
			b = msgp.AppendString(b, "parent_block_hash")
			b = appendParent(b, e, signed)
			b = msgp.AppendString(b, "token_ids")
			b = appendTokens(b, e.tokens)
			b = msgp.AppendString(b, "block_size")
			b = msgp.AppendInt(b, e.blockSize())
			b = msgp.AppendString(b, "lora_id")
			b = msgp.AppendNil(b)
		}
		b = msgp.AppendString(b, "medium")
		b = msgp.AppendString(b, e.medium)
		if !e.remove {
			b = msgp.AppendString(b, "lora_name")
			if e.adapter == "" {
				b = msgp.AppendNil(b)
			} else {
				b = msgp.AppendString(b, e.adapter)
			}
		}
	}
	if e.owner != "" {
		b = msgp.AppendString(b, "ownership")
		b = msgp.AppendString(b, e.owner)
	}
	if e.salt != "" {
		b = msgp.AppendString(b, "cache_salt")
		b = msgp.AppendString(b, e.salt)
	}
	return b
}

func (e event) blockSize() int {
	if e.size == 0 {
		return blockTokens
	}
	return e.size
}

func appendNames(b []byte, names []uint64, signed bool) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(names)))
	for _, n := range names {
		b = appendName(b, n, signed)
	}
	return b
}

func appendName(b []byte, n uint64, signed bool) []byte {
	if signed {
		return msgp.AppendInt64(b, int64(n))
	}
	return msgp.AppendUint64(b, n)
}

func appendParent(b []byte, e event, signed bool) []byte {
	if !e.hasParent {
		return msgp.AppendNil(b)
	}
	return appendName(b, e.parent, signed)
}

func appendTokens(b []byte, tokens []uint32) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(tokens)))
	for _, t := range tokens {
		b = msgp.AppendUint32(b, t)
	}
	return b
}

// publisher is one stream of a simulated worker.
type publisher struct {
	t       testing.TB
	pub     *zmtp.Publisher
	topic   string
	dialect dialect
	next    uint64                           // sequence of the next batch
	keep    func(seq uint64, payload []byte) // for replay, if set
}

func listen(t testing.TB, host string, d dialect) *publisher {
	t.Helper()
	pub, err := zmtp.Listen(context.Background(), "tcp://"+net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pub.Close() })
	return &publisher{t: t, pub: pub, dialect: d}
}

// send publishes one batch and returns its sequence.
func (p *publisher) send(events ...event) uint64 {
	p.t.Helper()
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, float64(time.Now().UnixMilli())/1000)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for _, e := range events {
		b = p.dialect.append(b, e)
	}
	return p.sendRaw(msgp.AppendNil(b))
}

func (p *publisher) sendRaw(payload []byte) uint64 {
	p.t.Helper()
	seq := p.next
	p.next++
	if p.keep != nil {
		p.keep(seq, payload)
	}
	if err := p.pub.Send([]byte(p.topic), binary.BigEndian.AppendUint64(nil, seq), payload); err != nil {
		p.t.Fatal(err)
	}
	return seq
}

// patience bounds every wait of the tests.
func patience(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func openEngine(t testing.TB, o Options) *Engine {
	t.Helper()
	o.Backoff = zmtp.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(patience(t)); err != nil {
			t.Error(err)
		}
	})
	return e
}

// worker is a simulated worker: one publisher per TP shard.
type worker struct {
	id     string
	engine *Engine
	shards []*publisher
}

// addWorker starts a worker's publishers and adds it as a source. set, if any,
// changes the source before it is added.
func addWorker(t testing.TB, e *Engine, id, host string, tp int, d dialect, set func(*Source)) *worker {
	t.Helper()
	w := &worker{id: id, engine: e}
	s := Source{ID: id, Model: "m"}
	for range tp {
		p := listen(t, host, d)
		w.shards = append(w.shards, p)
		s.Shards = append(s.Shards, p.pub.Addr())
	}
	if tp == 1 {
		s.Endpoint, s.Shards = s.Shards[0], nil
	}
	if set != nil {
		set(&s)
	}
	for _, p := range w.shards {
		p.topic = s.Topic
	}
	if err := e.AddSource(patience(t), s); err != nil {
		t.Fatal(err)
	}
	for _, p := range w.shards {
		if err := p.pub.WaitSubscribers(patience(t), 1); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// say publishes a batch on every shard and waits until it is applied.
func (w *worker) say(t testing.TB, events ...event) {
	t.Helper()
	for _, p := range w.shards {
		p.send(events...)
	}
	w.settle(t)
}

// settle waits until everything that was sent is applied.
func (w *worker) settle(t testing.TB) {
	t.Helper()
	s, ok := w.engine.sources.Load(w.id)
	if !ok {
		t.Fatalf("no source %s", w.id)
	}
	for i, p := range w.shards {
		if err := s.feeds[i].wait(patience(t), p.next-1); err != nil {
			t.Fatalf("%s shard %d, sequence %d: %v", w.id, i, p.next-1, err)
		}
	}
}

// depthsOf asks for one holder's depths; zeros if it is not in the answer.
func depthsOf(t testing.TB, e *Engine, q *Query, source string, rank int, d Domain) Depths {
	t.Helper()
	var a Answer
	if err := e.Match(q, &a); err != nil {
		t.Fatal(err)
	}
	for _, h := range a.Holders {
		if h.Source == source && h.Rank == rank && h.Domain == d {
			return h.Tokens
		}
	}
	return Depths{}
}

// freshnessOf gives one holder's freshness, wherever it stands in the answer.
func freshnessOf(t testing.TB, e *Engine, source string, rank int, d Domain) Freshness {
	t.Helper()
	for _, o := range e.Owners() {
		if o.Source == source && o.Rank == rank && o.Domain == d {
			return o.Freshness
		}
	}
	t.Fatalf("no holder %s/%d %s", source, rank, d)
	return Freshness{}
}

// await polls until cond holds: for what has no event to wait for.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// ownAddress is an address of the machine's own that is not loopback: engines
// publish on such.
func ownAddress(t testing.TB) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Fatal("the machine has no address of its own; the scenarios need one")
	return ""
}

// prompt is the scenarios' query.
func prompt() *Query { return &Query{Model: "m", Tokens: count(1, 256)} }

func outcome(h *HintAnswer) string {
	if h.Reason == hint.Hinted {
		return fmt.Sprintf("%s/%d %s depth %d", h.Best.Source, h.Best.Rank, h.Best.Domain, h.Best.Depth)
	}
	if h.Detail != hint.NoDetail {
		return h.Reason.String() + "{" + h.Detail.String() + "}"
	}
	return h.Reason.String()
}

// sendAs publishes a batch of another dp rank than the endpoint's on shard 0,
// and waits until it is applied.
func (w *worker) sendAs(t testing.TB, rank int, events ...event) {
	t.Helper()
	p := w.shards[0]
	b := msgp.AppendArrayHeader(nil, 3)
	b = msgp.AppendFloat64(b, 1)
	b = msgp.AppendArrayHeader(b, uint32(len(events)))
	for _, e := range events {
		b = p.dialect.append(b, e)
	}
	p.sendRaw(msgp.AppendInt(b, rank))
	w.settle(t)
}
