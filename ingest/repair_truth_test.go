package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
)

// world is a publisher that a program of bytes lets lose, cut, restart and
// forget, beside a stream that follows it and the truth of what it holds.
type world struct {
	t       testing.TB
	f       *feed
	archive *archive
	links   chan *queueLink
	link    *queueLink
	// drop is how many replies of the next replay are dropped, from the second
	// on.
	mu   sync.Mutex
	drop int

	next   uint64
	copies [12]int
}

// block i is a root of its own.
func worldStore(i int) []byte {
	return store([]uint64{uint64(700 + i)}, nil, span(uint32(1000+4*i), uint32(1003+4*i)), 4)
}

func newWorld(t testing.TB, r *rig) *world {
	w := &world{t: t, archive: newArchive(t, 0), links: make(chan *queueLink, 1)}
	router, err := zmtp.RouterConfig{Handle: func(ctx context.Context, request [][]byte, reply zmtp.Reply) {
		w.mu.Lock()
		drop := w.drop
		w.drop = 0
		w.mu.Unlock()
		n := 0
		w.archive.serve(ctx, request, func(frames ...[]byte) error {
			if n++; len(frames) == 3 && len(frames[2]) > 0 && n > 1 && n <= 1+drop {
				return nil // at its high-water mark, without a word
			}
			return reply(frames...)
		})
	}}.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { router.Close() })
	w.f = r.stream(Options{
		Endpoint: "world",
		Repair:   Repair{Endpoint: router.Addr(), Silence: 20 * time.Second, Cooldown: -1, ProbeAfter: 30 * time.Millisecond},
		Dial: func(ctx context.Context, h Hooks) (Link, error) {
			select {
			case l := <-w.links:
				l.ctx, l.hooks = ctx, h
				return l, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	})
	w.connect()
	return w
}

func (w *world) connect() {
	w.link = &queueLink{queue: make(chan [][]byte, 1024), wake: make(chan struct{}, 1), closed: make(chan struct{})}
	w.links <- w.link
}

// cut ends the connection. What is under way arrives, or not.
func (w *world) cut(lost bool) {
	if lost {
		for {
			select {
			case <-w.link.queue:
				continue
			default:
			}
			break
		}
	}
	w.link.queue <- nil // the end of the connection
	select {
	case <-w.link.closed:
	case <-w.f.rig.ctx.Done(): // a stream that has ended closes nothing
		w.t.Fatalf("the connection never ended\n%s", w.f.dump())
	}
	w.connect()
}

// batch makes the next batch of the running process, with one change.
func (w *world) batch(op byte) (n uint64, p []byte) {
	i := int(op) % len(w.copies)
	event := worldStore(i)
	switch {
	case op == 255:
		event = clearAll()
		w.copies = [12]int{}
	case op >= 128 && w.copies[i] > 0:
		event = remove([]uint64{uint64(700 + i)})
		w.copies[i]--
	default:
		w.copies[i]++
	}
	n = w.next
	w.next++
	p = payload(nil, event)
	w.archive.keep(n, p)
	return n, p
}

// play runs a program, two bytes a step.
func (w *world) play(program []byte) {
	for len(program) >= 2 {
		op, arg := program[0], program[1]
		program = program[2:]
		switch op % 16 {
		case 0, 1: // some are lost
			for k := range 1 + int(arg%5) {
				w.batch(arg + byte(k)*31)
			}
		case 2:
			w.cut(arg%2 == 0)
		case 3: // a new process, of which the first batches may be lost
			w.cut(arg%2 == 0)
			w.archive.mu.Lock()
			w.archive.batches = nil
			w.archive.mu.Unlock()
			w.next, w.copies = 0, [12]int{}
			for k := range int(arg % 4) {
				w.batch(arg + byte(k)*17)
			}
		case 4: // the buffer forgets
			w.archive.mu.Lock()
			if keep := 1 + int(arg%8); len(w.archive.batches) > keep {
				w.archive.batches = w.archive.batches[len(w.archive.batches)-keep:]
			}
			w.archive.mu.Unlock()
		case 5:
			w.mu.Lock()
			w.drop = int(arg % 4)
			w.mu.Unlock()
		case 6: // the stream comes to rest
			time.Sleep(time.Duration(arg%3) * time.Millisecond)
		default:
			n, p := w.batch(arg)
			w.link.queue <- [][]byte{nil, be(n), p}
		}
	}
}

// judge lets the stream come to rest and compares it with the truth. In the end
// nothing is lost, so it must have heard of everything.
func (w *world) judge(r *rig) {
	w.t.Helper()
	var last uint64
	for range 2 {
		n, p := w.batch(3)
		w.link.queue <- [][]byte{nil, be(n), p}
		last = n
	}
	w.f.until("at rest", func() bool {
		at := w.f.port.Applied()
		st := w.f.Status(Worker, at)
		return at.Any && at.Seq == last && st.Seq == last && (st.State == Exact || st.State == Degraded)
	})
	// A sequence that goes on over a new connection is believed until its process
	// is known to be another, a moment later: that moment may pass here.
	var wrong string
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if wrong = w.wrong(r); wrong == "" {
			return
		}
		if time.Now().After(deadline) || r.ctx.Err() != nil {
			w.t.Fatalf("%s\n%s", wrong, w.f.dump())
		}
	}
}

// wrong says what of the index is not as it should be.
func (w *world) wrong(r *rig) string {
	st := w.f.now(Worker)
	for i, n := range w.copies {
		got := r.depths(0, Worker, query{tokens: span(uint32(1000+4*i), uint32(1003+4*i))})[tree.ViewDevice] > 0
		switch {
		case got && n == 0:
			return fmt.Sprintf("block %d is said to be there, it is not; the stream is %v (%s)", i, st.State, st.Cause)
		case !got && n > 0 && st.State == Exact:
			return fmt.Sprintf("block %d is missing, though the stream is exact", i)
		}
	}
	return ""
}

// playWorld plays a program and judges it, all within limit.
func playWorld(t testing.TB, program []byte, limit time.Duration) {
	r := newRig(t, 0)
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(r.ctx, limit)
	t.Cleanup(cancel)
	w := newWorld(t, r)
	w.play(program)
	w.judge(r)
}

// TestRepairsAgainstTheTruth plays random programs.
func TestRepairsAgainstTheTruth(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	rng := rand.New(rand.NewPCG(11, 4))
	for range rounds {
		program := make([]byte, 2*(5+rng.IntN(60)))
		for i := range program {
			program[i] = byte(rng.Uint32())
		}
		t.Run("", func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("program %q", program)
				}
			}()
			playWorld(t, program, time.Minute)
		})
	}
}

// TestTheLastSequenceIsOfThisProcess: a process that is known by its replay alone
// is not measured by what the one before it said last.
func TestTheLastSequenceIsOfThisProcess(t *testing.T) {
	r := newRig(t, 0)
	w := newWorld(t, r)
	w.play([]byte("\x07\x01\x07\x02\x07\x03")) // three live
	w.f.until("the first process to be heard", func() bool { return w.f.port.Applied().Seq == 2 })
	w.mu.Lock() // its replay socket is slow to answer:
	answer := sync.OnceFunc(w.mu.Unlock)
	defer answer()                     // or it would never close
	w.play([]byte("\x00\x04\x07\x04")) // five are lost, and one tells of them
	w.f.until("a repair", func() bool { return w.f.now(Worker).Seq == 8 })
	w.play([]byte("\x03\x03\x00\x00\x00\x01")) // another process; its six are lost too
	answer()
	w.f.until("the second process to be known", func() bool {
		return w.f.port.Applied().Seq == 5 && w.f.now(Worker).Seq == 5
	})
}

// fuzzLimit is how long a program may take under go test -fuzz, which ends a
// process at 10 s without a word: what was waited for is to be said before.
const fuzzLimit = 8 * time.Second

func FuzzRepair(f *testing.F) {
	f.Add([]byte("\x07\x01\x00\x03\x07\x02"))
	f.Add([]byte("\x07\x01\x02\x01\x00\x04\x07\x02\x03\x03\x07\x05"))
	f.Add([]byte("\x07\x01\x07\x02\x00\x04\x04\x02\x05\x03\x07\x82\x02\x00\x07\xff"))
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 400 {
			program = program[:400]
		}
		playWorld(t, program, fuzzLimit)
	})
}
