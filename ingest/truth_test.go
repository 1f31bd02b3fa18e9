package ingest

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cairn-kv/cairn/tree/shard"
)

// truth is what a simulated cache of one chain held after each message, by
// incarnation of the publisher. Messages are told apart by their sequence.
type truth struct {
	mu     sync.Mutex
	depths [][]step
}

type step struct {
	seq   uint64
	depth uint32
}

func (k *truth) note(incarnation int, s step) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.depths) <= incarnation {
		k.depths = append(k.depths, nil)
	}
	k.depths[incarnation] = append(k.depths[incarnation], s)
}

// between returns the depths from before to after, both included; nothing
// applied is depth 0. If the publisher restarted in between, all from before.
func (k *truth) between(before, after shard.Position) (depths []uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !before.Any {
		depths = append(depths, 0)
	}
	if int(before.Incarnation) >= len(k.depths) {
		return depths
	}
	for _, s := range k.depths[before.Incarnation] {
		if before.Any && s.seq < before.Seq {
			continue
		}
		if after.Incarnation == before.Incarnation && (!after.Any || s.seq > after.Seq) {
			break
		}
		depths = append(depths, s.depth)
	}
	return depths
}

// An answer that counts as exact is the truth at a sequence it names, one that
// is degraded is not above it, whatever the publisher loses, clears and
// restarts while it is asked.
func TestStatesAreTrueUnderWay(t *testing.T) {
	const messages, blocks = 3000, 8
	r := newRig(t, 4096)
	f := r.feed(Options{})
	r.learned.fit(4)
	var k truth

	var final atomic.Pointer[shard.Position]
	var enough atomic.Bool // the reader has judged every state often
	go func() {
		rng := rand.New(rand.NewPCG(7, 8))
		inc, n := 0, uint64(0)
		var have [blocks]int // copies
		for i := 0; i < messages || !enough.Load(); i++ {
			depth := func() uint32 {
				if i := slices.Index(have[:], 0); i >= 0 {
					return uint32(i)
				}
				return blocks
			}
			var ev []byte
			switch x := rng.IntN(100); {
			case x == 0 && n > 1: // restart
				inc, n, have = inc+1, 0, [blocks]int{}
				fallthrough
			case x < 60:
				// The whole chain up to a block: always attached.
				to := 1 + rng.IntN(blocks)
				var hashes []uint64
				for i := range to {
					hashes = append(hashes, uint64(1001+i))
					have[i]++
				}
				ev = store(hashes, nil, span(1, uint32(4*to)), 4)
			case x < 94:
				i := rng.IntN(blocks)
				have[i] = max(0, have[i]-1)
				ev = remove([]uint64{uint64(1001 + i)})
			default:
				have = [blocks]int{}
				ev = clearAll()
			}
			k.note(inc, step{n, depth()})
			if n > 0 && rng.IntN(60) == 0 {
				n++ // lost on the way
				continue
			}
			if f.pub.Send(nil, be(n), payload(nil, ev)) != nil {
				return // the test is over
			}
			n++
		}
		k.note(inc, step{n, 0})
		f.pub.Send(nil, be(n), payload(nil, clearAll()))
		final.Store(&shard.Position{Incarnation: uint32(inc), Seq: n, Any: true})
	}()

	judged := map[State]int{}
	deep, moved, ended := 0, 0, false
	for round := 0; !ended; round++ {
		before := f.port.Applied()
		if round%2 == 0 {
			// Something may happen meanwhile, also where there is one processor,
			// which this loop would else keep to itself.
			runtime.Gosched()
		}
		end := final.Load()
		ended = end != nil && before.Covers(*end)
		if r.ctx.Err() != nil {
			t.Fatalf("stuck at %+v\n%s", before, f.dump())
		}
		got := r.depths(0, Worker, query{tokens: span(1, 4*blocks)})[0]
		after := f.port.Begun()
		st := f.Status(Worker, before)
		want := k.between(before, after)
		judged[st.State]++
		if after != before {
			moved++
		}
		if judged[Exact] >= 500 && judged[Degraded] >= 500 && deep >= 100 && moved >= 100 {
			enough.Store(true)
		}
		switch st.State {
		case Exact:
			if !slices.Contains(want, got) {
				t.Fatalf("exact, from %+v to %+v: depth %d, the truth was %v", before, after, got, want)
			}
			if got > 0 {
				deep++
			}
		case Degraded:
			if len(want) > 0 && got > slices.Max(want) {
				t.Fatalf("degraded, from %+v to %+v: depth %d, the truth was %v", before, after, got, want)
			}
		case Connecting:
		default:
			t.Fatalf("state %v", st.State)
		}
	}
	t.Logf("judged %v, %d deep, %d over several sequences; %d gaps, %d restarts", judged, deep, moved, f.counted("gaps", ""), f.counted("restarts", ""))
}
