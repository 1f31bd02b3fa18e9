package ingest

import (
	"context"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model"
	"github.com/cairn-kv/cairn/tree/shard"
)

func TestStoreMatchRemove(t *testing.T) {
	for _, c := range []struct {
		name          string
		store, remove []byte
	}{
		{"map", storeAB, remove([]uint64{102})},
		{"array of 6", fields{"BlockStored", []uint64{101, 102}, nil, span(1, 8), 4, nil}.array(), fields{"BlockRemoved", []uint64{102}}.array()},
		{"array of 12", fields{"BlockStored", []uint64{101, 102}, nil, span(1, 8), 4, nil, "GPU", nil, nil, 0, "full_attention", nil}.array(),
			fields{"BlockRemoved", []uint64{102}, "GPU", 0}.array()},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.feed(Options{})
			f.state(Worker, Connecting, "")
			f.live(0, c.store)
			f.wait(0)
			r.device(span(1, 12), 2)
			r.device(span(1, 4), 1)
			r.device(span(2, 12), 0)
			f.state(Worker, Exact, "")
			if got := r.sizes[key{0, Worker}]; got != [2]int{4, 0} {
				t.Errorf("learned %v", got)
			}
			f.live(1, c.remove, storeX)
			f.wait(1)
			r.device(span(1, 12), 1)
			r.device(span(21, 24), 1)
			st := f.now(Worker)
			if !st.Connected || st.Epoch != 1 || st.Seq != 1 || !st.Received || st.Heard.IsZero() || st.Message.IsZero() ||
				st.Lag < 500*time.Millisecond || st.Lag > time.Minute || !st.Down.IsZero() {
				t.Errorf("%+v", st)
			}
			for name, want := range map[[2]string]uint64{
				{"messages", ""}: 2, {"batches", ""}: 2, {"events", ""}: 3,
				{"blocks", "stored"}: 3, {"blocks", "removed"}: 1, {"connects", ""}: 1,
			} {
				if got := f.counted(name[0], name[1]); got != want {
					t.Errorf("%v is %d, want %d", name, got, want)
				}
			}
		})
	}
}

// Q05: the sequence goes back on the same connection.
func TestQ05RestartOnTheSameConnection(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeAB)
	for n := uint64(1); n <= 5; n++ {
		f.live(n)
	}
	f.wait(5)
	r.device(span(1, 8), 2)
	f.live(0, storeX)
	f.restarted()
	f.wait(0)
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
	f.state(Worker, Exact, "")
	if f.counted("restarts", "") != 1 || f.counted("gaps", "") != 0 || f.counted("connects", "") != 1 {
		t.Error(f.dump())
	}
	// An answer that began in the old history knows nothing of the new.
	if st := f.Status(Worker, shard.Position{Seq: 5, Any: true}); st.State != Connecting {
		t.Errorf("an answer that began before is %v", st.State)
	}
}

// Q11: malformed messages are dropped and counted, and cost nothing else.
func TestQ11MalformedMessages(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	good := payload(nil, chain(0))
	f.raw(nil)
	f.raw(nil, good)
	f.raw(nil, be(0)[:7], good)
	f.raw(nil, be(0), good, []byte("extra"))
	f.live(0, store([]uint64{101}, nil, span(1, 4), 4))
	f.wait(0)
	r.device(span(1, 4), 1)
	f.state(Worker, Exact, "")
	if f.counted("messages_dropped", "frame_count") != 3 || f.counted("messages_dropped", "sequence_size") != 1 ||
		f.counted("gaps", "") != 0 || f.counted("connects", "") != 1 {
		t.Error(f.dump())
	}
}

// Q15: sequences are unsigned, and the end marker's number is no data.
func TestQ15LargeSequences(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(1<<63-1, storeAB)
	f.wait(1<<63 - 1)
	f.state(Worker, Degraded, CauseLateJoin)
	r.device(span(1, 8), 2)
	f.live(1<<63, storeC)
	f.wait(1 << 63)
	r.device(span(1, 12), 3)
	f.live(1<<64-2, storeX)
	f.wait(1<<64 - 2)
	r.device(span(1, 12), 0)
	r.device(span(21, 24), 1)
	f.state(Worker, Degraded, CauseGap)
	f.live(1<<64-1, storeAB)
	f.live(1<<64-1, storeAB)
	f.live(0, storeAB) // a restart, behind which the drops have been counted
	f.restarted()
	f.wait(0)
	if f.counted("messages_dropped", "end_marker") != 2 || f.counted("gaps", "") != 2 || f.counted("restarts", "") != 1 ||
		f.counted("missing_batches", "") != (1<<63-1)+(1<<64-2-1<<63-1) {
		t.Error(f.dump())
	}
	f.state(Worker, Exact, "")
}

func TestPublisherThatStartsAtOne(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{FirstSeq: 1})
	f.live(1, storeAB)
	f.live(2, storeC)
	f.wait(2)
	r.device(span(1, 12), 3)
	f.state(Worker, Exact, "")
	if f.counted("gaps", "") != 0 {
		t.Error(f.dump())
	}
}

func TestDuplicateIsDropped(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeAB)
	f.live(1, storeC)
	f.live(1, storeC)
	f.live(2, remove([]uint64{103})) // one copy, one remove
	f.wait(2)
	r.device(span(1, 12), 2)
	f.state(Worker, Exact, "")
	if f.counted("messages_dropped", "duplicate") != 1 {
		t.Error(f.dump())
	}
}

// A gap empties the source; what comes behind it counts; a clear of the
// publisher makes it whole.
func TestGapDegradesUntilCleared(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeAB)
	f.live(3, storeC, storeX)
	f.wait(3)
	r.device(span(1, 12), 0)
	r.device(span(21, 24), 1)
	f.state(Worker, Degraded, CauseGap)
	if f.counted("missing_batches", "") != 2 || f.counted("losses", "") != 1 {
		t.Error(f.dump())
	}
	f.live(4, clearAll(), storeAB)
	f.wait(4)
	f.state(Worker, Exact, "")
	r.device(span(1, 12), 2)
	r.device(span(21, 24), 0)
	// An answer that began before the clear is still one of a degraded source.
	if st := f.Status(Worker, shard.Position{Seq: 3, Any: true}); st.State != Degraded {
		t.Errorf("an answer that began at 3 is %v", st.State)
	}
}

func TestRestartAboveTheStartIsALoss(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeAB)
	for n := uint64(1); n < 6; n++ {
		f.live(n)
	}
	f.live(3, storeX)
	f.restarted()
	f.wait(3)
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
	f.state(Worker, Degraded, CauseLateJoin)
}

func TestUndecodableBatchIsALoss(t *testing.T) {
	whole := payload(nil, storeX, storeC)
	for _, c := range []struct {
		name, reason string
		raw          []byte
	}{
		{"cut", "truncated", whole[:len(whole)-9]},
		{"empty", "truncated", nil},
		{"bytes behind it", "trailing_bytes", append(slices.Clone(whole), 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.feed(Options{})
			f.live(0, storeAB)
			f.raw(nil, be(1), c.raw)
			f.wait(1) // it uses its sequence up
			r.device(span(1, 8), 0)
			r.device(span(21, 24), 0)
			f.state(Worker, Degraded, CauseUndecodable)
			f.live(2, storeX)
			f.wait(2)
			r.device(span(21, 24), 1)
			f.state(Worker, Degraded, CauseUndecodable)
			if f.counted("batches_undecodable", c.reason) != 1 || f.counted("gaps", "") != 0 {
				t.Error(f.dump())
			}
		})
	}
}

func TestBadEventCostsNoSibling(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0,
		store([]uint64{5, 5}, nil, span(41, 48), 4),
		fields{"type", "BlockUpdated", "x", 1}.pack(),
		store([]uint64{6, 7}, nil, span(41, 47), 4),
		storeAB)
	f.wait(0)
	r.device(span(1, 8), 2)
	r.device(span(41, 48), 0)
	f.state(Worker, Exact, "")
	if f.counted("events_rejected", "duplicate_hash") != 1 || f.counted("events_rejected", "token_count") != 1 ||
		f.counted("events_skipped", "unknown_tag") != 1 || f.counted("events", "") != 4 {
		t.Error(f.dump())
	}
}

func TestTopics(t *testing.T) {
	for _, c := range []struct {
		name, topic string
		prefix      bool
		dropped     uint64
	}{
		{"equality", "kv@10.0.0.1", false, 1},
		{"prefix", "kv@10.0.0.1", true, 0},
		{"everything", "", false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.feed(Options{Topic: c.topic, TopicPrefix: c.prefix})
			topic := []byte("kv@10.0.0.1")
			f.raw(topic, be(0), payload(nil, storeAB))
			f.raw([]byte("kv@10.0.0.10:8000@m"), be(1), payload(nil, storeC))
			f.raw(topic, be(1+1-c.dropped), payload(nil, storeX))
			f.wait(1 + 1 - c.dropped)
			r.device(span(1, 12), 3-uint32(c.dropped))
			r.device(span(21, 24), 1)
			f.state(Worker, Exact, "")
			if got := f.counted("messages_dropped", "topic"); got != c.dropped {
				t.Errorf("%d dropped, want %d", got, c.dropped)
			}
		})
	}
}

// A block is present while every TP shard holds it.
func TestTPShardsIntersect(t *testing.T) {
	r := newRig(t, 0)
	r.shards = 2
	a, b := r.feed(Options{TPShard: 0}), r.feed(Options{TPShard: 1})
	a.live(0, storeAB, storeC)
	a.wait(0)
	r.device(span(1, 12), 0)
	b.live(0, storeAB)
	b.wait(0)
	r.device(span(1, 12), 2)
	b.live(1, storeC)
	b.wait(1)
	r.device(span(1, 12), 3)
	a.live(1, remove([]uint64{102}))
	a.wait(1)
	r.device(span(1, 12), 1)
	// A loss of one shard empties its rows alone.
	b.live(9, storeC)
	b.wait(9)
	r.device(span(1, 12), 0)
	b.state(Worker, Degraded, CauseGap)
	a.state(Worker, Exact, "")
	b.live(10, storeAB)
	b.wait(10)
	r.device(span(1, 12), 1)
}

func TestRanks(t *testing.T) {
	r := newRig(t, 0)
	r.cap = 8
	f := r.feed(Options{Rank: 1, MaxRanks: 16})
	f.raw(nil, be(0), payload(nil, storeAB))  // the endpoint's rank
	f.raw(nil, be(1), payload(2, storeX))     // the batch's
	f.raw(nil, be(2), payload(1, storeC))     // the same as the endpoint's
	f.raw(nil, be(3), payload(300, storeX))   // above the cap
	f.raw(nil, be(4), payload(9, storeX))     // refused by the owner
	f.raw(nil, be(5), payload(0, clearAll())) // another rank's clear
	f.wait(5)
	abc, x := query{tokens: span(1, 12)}, query{tokens: span(21, 24)}
	r.expect(1, Worker, abc, 3, 3)
	r.expect(2, Worker, x, 1, 1)
	r.expect(1, Worker, x, 0, 0)
	if f.counted("messages_dropped", "rank") != 1 || f.counted("events_skipped", "refused_by_owner") != 1 {
		t.Error(f.dump())
	}
	f.state(Worker, Exact, "")

	// A loss costs every rank; only when each was cleared is the stream exact.
	f.raw(nil, be(9), payload(1, storeAB))
	f.wait(9)
	r.expect(2, Worker, x, 0, 0)
	f.raw(nil, be(10), payload(1, clearAll(), storeAB))
	f.raw(nil, be(11), payload(0, clearAll()))
	f.wait(11)
	f.state(Worker, Degraded, CauseGap)
	f.raw(nil, be(12), payload(2, clearAll()))
	f.wait(12)
	f.state(Worker, Exact, "")
	f.raw(nil, be(13), payload(3, storeX)) // never seen before the loss
	f.wait(13)
	f.state(Worker, Degraded, CauseNewRank)
	r.expect(1, Worker, abc, 2, 2)
}

func TestReconnect(t *testing.T) {
	for _, c := range []struct {
		name  string
		next  uint64
		inc   uint32
		depth uint32 // of a, b behind the first message
		state State
		cause Cause
	}{
		{"goes on", 2, 0, 2, Exact, ""},
		{"begins anew", 0, 1, 0, Exact, ""},
		{"lower, above the start", 1 - 0, 1, 0, Degraded, CauseLateJoin},
		{"higher", 4, 0, 0, Degraded, CauseGap},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 0)
			f := r.feed(Options{})
			f.live(0, storeAB)
			last := uint64(1)
			if c.next == 1 {
				last = 2
				f.live(1)
			}
			f.live(last)
			f.wait(last)
			f.pub.Disconnect()
			f.logged("disconnected")
			st := f.now(Worker)
			if st.State != Disconnected || st.Cause != CauseLink || st.Down.IsZero() {
				t.Fatalf("%+v", st)
			}
			r.device(span(1, 8), 2) // the truth of then
			f.joined()
			f.logged("connected")
			if st := f.now(Worker); st.State != Disconnected || !st.Connected || st.Epoch != 2 {
				t.Fatalf("before the first message: %+v", st)
			}
			f.live(c.next, storeX)
			f.inc = c.inc
			f.wait(c.next)
			r.device(span(1, 8), c.depth)
			r.device(span(21, 24), 1)
			f.state(Worker, c.state, c.cause)
		})
	}
}

// A process that died behind its first batch is followed by one whose first
// batch has the same sequence: no duplicate.
func TestReconnectAtTheFirstSequenceIsARestart(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeAB)
	f.wait(0)
	f.pub.Disconnect()
	f.logged("disconnected")
	f.joined()
	f.live(0, storeX)
	f.restarted()
	f.wait(0)
	r.device(span(1, 8), 0)
	r.device(span(21, 24), 1)
	f.state(Worker, Exact, "")
	f.live(0, storeAB) // now it is one
	f.live(1)
	f.wait(1)
	r.device(span(1, 8), 0)
}

// The same above the start: another process, whose first message that is heard
// has the sequence of the last one of the process before.
func TestReconnectAtTheLastSequenceIsALateRestart(t *testing.T) {
	r := newRig(t, 0)
	f := r.feed(Options{})
	f.live(0, storeAB)
	for n := uint64(1); n < 5; n++ {
		f.live(n)
	}
	f.live(5, storeC)
	f.wait(5)
	r.device(span(1, 12), 3)
	f.state(Worker, Exact, "")

	f.follow()
	f.live(5, storeX)
	f.restarted()
	f.wait(5)
	r.device(span(1, 12), 0)
	r.device(span(21, 24), 1)
	f.state(Worker, Degraded, CauseLateJoin)
	if f.counted("restarts", "") != 1 || f.counted("losses", "") != 1 || f.counted("missing_batches", "") != 5 ||
		f.counted("messages_dropped", "duplicate") != 0 || f.counted("connects", "") != 2 {
		t.Error(f.dump())
	}

	f.live(5, storeAB) // on this connection it is a duplicate
	f.live(6, storeC)
	f.wait(6)
	r.device(span(1, 12), 0)
	f.state(Worker, Degraded, CauseLateJoin)
	if f.counted("messages_dropped", "duplicate") != 1 || f.counted("restarts", "") != 1 {
		t.Error(f.dump())
	}

	f.live(7, clearAll(), storeAB)
	f.wait(7)
	f.state(Worker, Exact, "")
	r.device(span(1, 12), 2)
	r.device(span(21, 24), 0)
}

// Nobody listens at first; then the publisher crashes over and over (W1).
func TestCrashLoopingPublisher(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 0)
	addr := l.Addr().String()
	go func() {
		defer l.Close()
		for range 100 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
	}()
	f := r.stream(Options{Endpoint: "tcp://" + addr, Backoff: zmtp.Backoff{Min: time.Millisecond, Max: 2 * time.Millisecond}})
	f.logged("cannot connect, trying on")
	f.publish("tcp://" + addr)
	f.live(0, storeAB)
	f.wait(0)
	r.device(span(1, 8), 2)
	f.state(Worker, Exact, "")
	if n := f.counted("dial_errors", ""); n < 100 {
		t.Errorf("%d attempts failed, want at least 100", n)
	}
}

// A batch longer than the ring arrives whole, and so does one event longer
// than a record; a bad one leaves nothing.
func TestBatchLongerThanTheRing(t *testing.T) {
	r := newRig(t, 2048) // 256 words
	f := r.feed(Options{})
	const blocks = 1000
	hashes := make([]uint64, blocks)
	for i := range hashes {
		hashes[i] = uint64(5000 + i)
	}
	long := store(hashes, nil, span(1, 4*blocks), 4)
	f.live(0, long)
	f.wait(0)
	r.device(span(1, 4*blocks), blocks)
	if f.counted("batches_in_pieces", "") != 1 || f.counted("blocks", "stored") != blocks || f.counted("events", "") != 1 {
		t.Error(f.dump())
	}
	f.live(1, remove(hashes[1:100]), storeX) // one copy of each, once
	f.wait(1)
	r.device(span(1, 4*blocks), 1)
	r.device(span(21, 24), 1)
	f.live(2, remove(hashes[:1]), remove(hashes[100:]))
	f.wait(2)
	if got := r.index.Stats().Residencies; got != 1 {
		t.Errorf("%d residencies are left, want 1", got)
	}

	bad := payload(nil, store([]uint64{9}, nil, span(61, 64), 4), long)
	f.raw(nil, be(3), bad[:len(bad)-1])
	f.wait(3)
	f.state(Worker, Degraded, CauseUndecodable)
	r.device(span(61, 64), 0)
	r.device(span(1, 4), 0)

	f.live(4, clearAll(), long, clearAll(), storeX) // state of a batch in pieces
	f.wait(4)
	f.state(Worker, Exact, "")
	r.device(span(1, 4*blocks), 0)
	r.device(span(21, 24), 1)
}

// recorder counts what reaches the index.
type recorder struct {
	*model.Model
	stores  atomic.Int64
	storing func() // called first, unless nil
}

func (r *recorder) Store(o tree.Owner, s *tree.Store) tree.Outcome {
	if r.storing != nil {
		r.storing()
	}
	r.stores.Add(1)
	return r.Model.Store(o, s)
}

func newRecorder(t *testing.T, ringBytes int) (*rig, *recorder) {
	rec := &recorder{Model: model.New()}
	r := &rig{
		t: t, index: rec.Model, shards: 1, cap: DefaultMaxRanks,
		holders: map[key]tree.Holder{}, roots: map[[2]int]tree.Root{}, sizes: map[key][2]int{},
	}
	r.start(rec, ringBytes)
	return r, rec
}

// Each piece of a batch longer than the ring says which batch it is of, so
// that an answer from the middle of it names both ends of what it saw.
func TestPiecesSayTheirSequence(t *testing.T) {
	r, rec := newRecorder(t, 2048)
	f := r.feed(Options{})
	type moment struct{ begun, applied shard.Position }
	seen := map[moment]int{}
	rec.storing = func() { seen[moment{f.port.Begun(), f.port.Applied()}]++ }
	hashes := make([]uint64, 1000)
	for i := range hashes {
		hashes[i] = uint64(5000 + i)
	}
	f.live(0, storeAB)
	f.live(1, store(hashes, nil, span(1, 4000), 4))
	f.live(2, storeX)
	f.wait(2)
	at := func(n uint64) shard.Position { return shard.Position{Seq: n, Any: true} }
	pieces := seen[moment{at(1), at(0)}]
	if pieces < 10 || seen[moment{at(0), shard.Position{}}] != 1 || seen[moment{at(2), at(1)}] != 1 || len(seen) != 3 {
		t.Errorf("begun and applied at each store: %+v", seen)
	}
}

// What is rolled back never reaches the index, not even for a moment.
func TestNothingOfABadBatchIsVisible(t *testing.T) {
	hashes := make([]uint64, 1000)
	for i := range hashes {
		hashes[i] = uint64(5000 + i)
	}
	long := store(hashes, nil, span(1, 4000), 4)
	// A byte is missing in the last event, which shows only once the events
	// before it are decoded.
	cut := func(p []byte) []byte { return slices.Delete(p, len(p)-40, len(p)-39) }
	for _, c := range []struct {
		name    string
		payload []byte
		state   State
	}{
		{"undecodable", cut(payload(nil, storeAB, storeC, storeX)), Degraded},
		{"undecodable, longer than the ring", cut(payload(nil, storeAB, long, storeX)), Degraded},
		{"source fault", payload(nil, storeAB, clearAll("ownership", "kvcr")), Fenced},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, rec := newRecorder(t, 2048)
			f := r.feed(Options{})
			f.raw(nil, be(0), c.payload)
			f.wait(0)
			if got := rec.stores.Load(); got != 0 {
				t.Errorf("%d stores of it reached the index", got)
			}
			if got := f.now(Worker).State; got != c.state {
				t.Errorf("%v, want %v", got, c.state)
			}
			if f.counted("blocks", "stored") != 0 || f.counted("events", "") != 0 {
				t.Error(f.dump())
			}
		})
	}
}

// Ending the context ends a stream wherever it waits.
func TestRunEnds(t *testing.T) {
	r := newRig(t, 0)
	for _, o := range []Options{
		{Endpoint: "tcp://127.0.0.1:1"}, // refused
	} {
		f := r.stream(o)
		f.logged("cannot connect, trying on")
		f.cancel()
		err := <-f.ended
		f.ended <- err
		if err != context.Canceled {
			t.Fatal(err)
		}
	}
	f := r.feed(Options{})
	f.cancel()
	err := <-f.ended
	f.ended <- err
	if err != context.Canceled {
		t.Fatal(err)
	}
	<-f.port.Done() // and it closed its port
}

// A stream that waits for room in its ring ends as well.
func TestRunEndsWhileTheRingIsFull(t *testing.T) {
	r := newRig(t, 2048)
	f := r.feed(Options{})
	f.live(0, storeAB)
	f.wait(0)
	held, release := make(chan struct{}), make(chan struct{})
	go r.shard.Do(r.ctx, func(tree.Writer) { close(held); <-release })
	<-held
	for n := uint64(1); n < 200; n++ {
		f.live(n, chain(n))
	}
	for f.port.Counters().Stalls == 0 {
		if r.ctx.Err() != nil {
			t.Fatal("the ring never filled")
		}
		runtime.Gosched()
	}
	f.cancel()
	err := <-f.ended
	f.ended <- err
	if err != context.Canceled {
		t.Fatal(err)
	}
	close(release)
}

func TestOptionsAreChecked(t *testing.T) {
	r := newRig(t, 0)
	port, err := r.shard.OpenPort(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	good := Options{Port: port, Owner: r, Learned: &r.learned}
	if _, err := NewStream(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"Port":     func(o *Options) { o.Port = nil },
		"Owner":    func(o *Options) { o.Owner = nil },
		"Learned":  func(o *Options) { o.Learned = nil },
		"MaxRanks": func(o *Options) { o.MaxRanks = -1 },
		"Rank":     func(o *Options) { o.Rank = 64 },
		"TPShard":  func(o *Options) { o.TPShard = tree.MaxShards },
		"Pool":     func(o *Options) { o.Pool = 9 },
	} {
		o := good
		change(&o)
		if _, err := NewStream(o); err == nil {
			t.Errorf("a wrong %s was accepted", name)
		}
	}
}

// nop is an index that does nothing, so that only the stream is measured.
type nop struct{ tree.Writer }

func (nop) Store(tree.Owner, *tree.Store) tree.Outcome      { return tree.Outcome{} }
func (nop) Remove(tree.Owner, []uint64) tree.Outcome        { return tree.Outcome{} }
func (nop) Place(tree.Owner, []uint64) tree.Outcome         { return tree.Outcome{} }
func (nop) ClearShard(tree.Holder, int)                     {}
func (nop) Step() bool                                      { return false }
func (nop) AddHolder(tree.Policy, int) (tree.Holder, error) { return 1, nil }

// From the socket's buffer to the ring nothing is allocated.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := &rig{t: t, shards: 1, cap: 8, holders: map[key]tree.Holder{}, roots: map[[2]int]tree.Root{}, sizes: map[key][2]int{}}
	r.start(nop{}, 0)
	f := r.feed(Options{Pool: PoolDurable})
	hashes := make([]uint64, 32)
	for i := range hashes {
		hashes[i] = uint64(1)<<60 + uint64(i)
	}
	raw := payload(nil,
		store(hashes, 7, span(1, 512), 16),
		store(hashes, nil, span(1, 512), 16, "lora_name", "sql-adapter", "cache_salt", "tenant-a"),
		store(hashes, nil, span(1, 512), 16, "medium", "CPU", "ownership", "kvcr"),
		store(hashes[:2], nil, span(1, 32), 16, "extra_keys", []any{[]any{[]any{"image-1", 0}}, nil}),
		store(hashes, nil, nil, 0, "medium", "CPU"),
		fields{"BlockStored", hashes, nil, span(1, 512), 16, 7, "GPU", nil}.array(),
		remove(hashes),
		remove(hashes, "group_idx", 1),
		clearAll())
	seq, n := be(0), uint64(0)
	send := func(rounds int) {
		for range rounds {
			copy(seq, be8(n))
			if err := f.pub.Send(nil, seq, raw); err != nil {
				t.Fatal(err)
			}
			f.Status(Worker, shard.Position{Any: true, Seq: n})
			n++
		}
		f.wait(n - 1)
	}
	send(500)
	const rounds = 2000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	send(rounds)
	runtime.ReadMemStats(&after)
	// The test's own waiting and the runtime take a few.
	if got := after.Mallocs - before.Mallocs; got > rounds/20 {
		t.Fatalf("%d allocations in %d batches, want none", got, rounds)
	}
	if f.counted("blocks", "stored") == 0 || f.counted("blocks", "placed") == 0 || f.counted("events_skipped", "non_main_attention_group") == 0 {
		t.Error(f.dump())
	}
	f.state(Worker, Exact, "")
}

var scratch [8]byte

func be8(n uint64) []byte {
	for i := range scratch {
		scratch[i] = byte(n >> (56 - 8*i))
	}
	return scratch[:]
}

// BenchmarkStream is bytes to ring: decode, hash, hand over, no index.
func BenchmarkStream(b *testing.B) {
	r := &rig{t: b, shards: 1, cap: 8, holders: map[key]tree.Holder{}, roots: map[[2]int]tree.Root{}, sizes: map[key][2]int{}}
	r.start(nop{}, 0)
	r.ctx = context.Background()
	port, err := r.shard.OpenPort(r.ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer port.Close()
	s, err := NewStream(Options{Owner: r, Learned: &r.learned, Port: port})
	if err != nil {
		b.Fatal(err)
	}
	hashes := make([]uint64, 32)
	for i := range hashes {
		hashes[i] = uint64(1)<<60 + uint64(i)
	}
	frames := [][]byte{nil, nil, payload(nil, store(hashes, 7, span(1, 512), 16))}
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		frames[1] = be8(n)
		if err := s.take(r.ctx, frames); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(32*b.N), "ns/block")
}
