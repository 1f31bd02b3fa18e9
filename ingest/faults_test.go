package ingest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/tree"
)

// faulty is a stream that follows its publisher through a proxy. What the
// publisher holds is one chain: next blocks of it.
type faulty struct {
	*feed
	*proxy
	archive *archive
	rank    int
	next    uint64
	filler  string // something that makes batches long
}

// How a fault is played: on so many streams at a time, so often.
const (
	faultStreams = 10
	faultRounds  = 5
)

// setup is what a fault wants of its stream and publisher.
type setup struct {
	publisher zmtp.PublisherConfig
	transport zmtp.Options
	topic     string
	mute      bool // no replay endpoint
	drops     int  // replies that the replay socket drops in each answer, from the second on
	greets    func(n int, c net.Conn) bool
}

func (r *rig) faulty(rank int, u setup) *faulty {
	r.t.Helper()
	if u.publisher.Drop {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			r.t.Fatal(err)
		}
		u.publisher.Listener = narrow{l}
	}
	pub, err := u.publisher.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { pub.Close() })
	x := &faulty{proxy: newProxy(r.t, pub.Addr(), u.greets), archive: newArchive(r.t, 0), rank: rank}
	o := Options{Endpoint: x.proxy.Addr(), Rank: rank, Transport: u.transport, Topic: u.topic}
	if !u.mute {
		replay := x.archive.Addr()
		if u.drops > 0 {
			replay = r.leaky(x.archive, u.drops)
		}
		o.Repair = Repair{Endpoint: replay, Silence: 20 * time.Second, Cooldown: -1, ProbeAfter: 100 * time.Millisecond, Limit: NewLimit(1)}
	}
	x.feed = r.stream(o)
	x.feed.pub = pub
	return x
}

// narrow is a listener whose connections take little at a time.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return c, err
}

// leaky is a replay socket that loses replies in the middle of each answer, and
// ends it as if nothing had happened.
func (r *rig) leaky(v *archive, drops int) string {
	router, err := zmtp.RouterConfig{Handle: func(ctx context.Context, request [][]byte, reply zmtp.Reply) {
		n := 0
		v.serve(ctx, request, func(frames ...[]byte) error {
			if n++; len(frames) == 3 && len(frames[2]) > 0 && n > 1 && n <= 1+drops {
				return nil
			}
			return reply(frames...)
		})
	}}.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { router.Close() })
	return router.Addr()
}

// says publishes the next n blocks, loses publishes none of them.
func (x *faulty) says(n int) {
	x.rig.t.Helper()
	for range n {
		x.raw([]byte(x.opt.Topic), be(x.next), x.batch())
		x.next++
	}
}

func (x *faulty) loses(n int) {
	for range n {
		x.batch()
		x.next++
	}
}

func (x *faulty) batch() []byte {
	events := [][]byte{chain(x.next)}
	if x.filler != "" {
		events = append(events, fields{"type", "Filler", "filler", x.filler}.pack())
	}
	p := payload(nil, events...)
	x.archive.keep(x.next, p)
	return p
}

// dies ends the publisher and begins another one at an address.
func (x *faulty) dies(endpoint string) {
	x.rig.t.Helper()
	x.pub.Close()
	x.next = 0
	for {
		pub, err := zmtp.Listen(context.Background(), endpoint)
		if err == nil {
			x.pub = pub
			x.rig.t.Cleanup(func() { pub.Close() })
			x.proxy.aim(pub.Addr())
			x.joined()
			return
		}
		if x.rig.ctx.Err() != nil {
			x.rig.t.Fatal(err)
		}
	}
}

// settles waits until the stream is in a state and has applied all that was
// published, and compares what is held of the chain.
func (x *faulty) settles(want State, blocks int) {
	x.rig.t.Helper()
	x.until(fmt.Sprintf("%v with %d blocks", want, blocks), func() bool {
		at := x.port.Applied()
		return at.Any && at.Seq+1 == x.next && x.Status(Worker, at).State == want && x.depth() == blocks
	})
}

func (x *faulty) depth() int {
	n := max(x.next, 64)
	return int(x.rig.depths(x.rank, Worker, query{tokens: span(1, uint32(4*n))})[tree.ViewDevice])
}

// atLeast checks a counter.
func (x *faulty) atLeast(n uint64, name, reason string) {
	x.rig.t.Helper()
	if got := x.counted(name, reason); got < n {
		x.rig.t.Errorf("%s{%s} is %d, want %d at least\n%s", name, reason, got, n, x.dump())
	}
}

// impatient notices a silent peer soon. Where a busy machine is taken for one,
// the stream connects again and asks for what it missed.
var impatient = zmtp.Options{HandshakeTimeout: 200 * time.Millisecond, HeartbeatInterval: 50 * time.Millisecond, IdleTimeout: 150 * time.Millisecond}

// badHandshakes are what a peer may say instead of a greeting and a READY.
var badHandshakes = [][]byte{
	[]byte("HTTP/1.1 400 Bad Request\r\n\r\n" + "0123456789012345678901234567890123456789"),
	{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3}, // half a greeting
	ready([]byte{4, 5, 5, 'R', 'E', 'A', 'D', 'Y'}[:2], nil),
	ready([]byte{6, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, nil),                  // a READY of 2^63-1 bytes
	ready([]byte{4, 22}, []byte("\x05READY\x0bSocket-Type\xff\xff\xff\xff")),               // a value of 2^32-1 bytes
	ready([]byte{4, 28}, []byte("\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x00\x00")), // not a publisher
	ready([]byte{4, 16}, []byte("\x05ERROR\x09not today")),
}

func ready(head, body []byte) []byte {
	greeting := make([]byte, 64)
	copy(greeting, []byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1, 'N', 'U', 'L', 'L'})
	return slices.Concat(greeting, head, body)
}

// hang keeps a connection open until the other side ends it.
func hang(c net.Conn) {
	buf := make([]byte, 64)
	for {
		if _, err := c.Read(buf); err != nil {
			return
		}
	}
}

var faults = []struct {
	name string
	setup
	play func(x *faulty)
}{
	{name: "killed, and restarted at the same port", play: func(x *faulty) {
		x.says(4)
		x.settles(Exact, 4)
		x.dies(x.pub.Addr())
		x.says(2)
		x.settles(Exact, 2)
		x.atLeast(1, "restarts", "")
	}},
	{name: "killed, and restarted at another port", play: func(x *faulty) {
		x.says(4)
		x.settles(Exact, 4)
		x.dies("tcp://127.0.0.1:0")
		x.says(3)
		x.settles(Exact, 3)
		x.atLeast(1, "restarts", "")
	}},
	{name: "killed, with nobody to ask", setup: setup{mute: true}, play: func(x *faulty) {
		x.says(4)
		x.settles(Exact, 4)
		x.dies(x.pub.Addr())
		x.says(2)
		x.settles(Exact, 2)
	}},
	{name: "a crash loop", setup: setup{greets: func(n int, c net.Conn) bool {
		if n == 20 {
			return false
		}
		if n < 20 {
			c.Write(badHandshakes[1][:n%12])
		}
		c.(*net.TCPConn).SetLinger(0)
		return n < 20
	}}, play: func(x *faulty) {
		x.says(3)
		x.settles(Exact, 3)
		x.atLeast(20, "dial_errors", "")
	}},
	{name: "resets in the middle of everything", play: func(x *faulty) {
		x.says(1)
		x.settles(Exact, 1)
		for i := range uint64(5) {
			x.until("connected", func() bool { return x.counted("connects", "") > i })
			x.says(3)
			x.cut()
			x.until("the reset is felt", func() bool { return x.counted("disconnects", "") > i })
		}
		x.settles(Exact, 16)
	}},
	{name: "a half-open link", setup: setup{transport: impatient}, play: func(x *faulty) {
		x.says(2)
		x.settles(Exact, 2)
		epoch := x.epoch.Load()
		x.swallow(true)
		x.says(3)
		x.until("given up", func() bool { return x.epoch.Load() > epoch || x.down.Load() != 0 })
		x.swallow(false)
		x.cut() // the connections that were made meanwhile
		x.settles(Exact, 5)
		x.atLeast(1, "disconnects", "")
	}},
	{name: "a peer that is silent in the handshake", setup: setup{transport: impatient, greets: func(n int, c net.Conn) bool {
		if n == 0 {
			hang(c)
		}
		return n == 0
	}}, play: func(x *faulty) {
		x.says(2)
		x.settles(Exact, 2)
		x.atLeast(1, "dial_errors", "")
	}},
	{name: "malformed handshakes", setup: setup{greets: func(n int, c net.Conn) bool {
		if n >= len(badHandshakes) {
			return false
		}
		c.Write(badHandshakes[n])
		c.(*net.TCPConn).CloseWrite()
		hang(c)
		return true
	}}, play: func(x *faulty) {
		x.says(2)
		x.settles(Exact, 2)
		x.atLeast(uint64(len(badHandshakes)), "dial_errors", "")
	}},
	{name: "oversized frames", play: func(x *faulty) {
		x.says(2)
		x.settles(Exact, 2)
		for i, raw := range [][]byte{
			{2, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, // 2^63-1
			{2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, // 2^64-1
			{2, 0, 0, 0, 0, 0x40, 0, 0, 0},                      // 1 GiB
			bytes.Repeat([]byte{1, 0}, 5000),                    // a message without an end
		} {
			x.until("connected", func() bool { return x.counted("connects", "") > uint64(i) })
			x.proxy.says(raw)
			x.until("the link is ended", func() bool { return x.counted("disconnects", "") > uint64(i) })
		}
		x.joined()
		x.says(1)
		x.settles(Exact, 3)
	}},
	{name: "wrong frame counts", play: func(x *faulty) {
		x.says(1)
		x.raw([]byte{})
		x.raw(nil, be(1))
		x.raw(nil, be(1)[1:], x.payloads())
		x.raw(nil, be(1), x.payloads(), nil)
		x.says(1)
		x.settles(Exact, 2)
		x.atLeast(3, "messages_dropped", "frame_count")
		x.atLeast(1, "messages_dropped", "sequence_size")
	}},
	{name: "truncated payloads", play: func(x *faulty) {
		x.says(2)
		for cut := 1; cut < 40; cut += 7 {
			p := x.batch()
			x.raw(nil, be(x.next), p[:len(p)-cut])
			x.next++
		}
		x.settles(Degraded, 0)
		x.atLeast(5, "batches_undecodable", "truncated") // and one with a length beyond its end
		x.raw(nil, be(x.next), payload(nil, clearAll()))
		x.next++
		x.settles(Exact, 0)
	}},
	{name: "topics that begin alike", setup: setup{topic: "kv@a"}, play: func(x *faulty) {
		for range 4 {
			x.raw([]byte("kv@ab"), be(x.next+7), x.payloads())
			x.says(1)
		}
		x.settles(Exact, 4)
		x.atLeast(4, "messages_dropped", "topic")
	}},
	{name: "a slow consumer whose publisher drops", setup: setup{publisher: zmtp.PublisherConfig{SendBuffer: 4 << 10, Drop: true}}, play: func(x *faulty) {
		x.says(1)
		x.settles(Exact, 1)
		x.hold()
		x.filler = fillerText
		for x.pub.Dropped() < 300 {
			x.says(50)
		}
		x.filler = ""
		x.pass()
		// A message behind what was dropped shows the hole; if it was dropped
		// as well, a probe does.
		x.settles(Exact, int(x.next))
	}},
	{name: "a slow consumer with nobody to ask", setup: setup{mute: true, publisher: zmtp.PublisherConfig{SendBuffer: 4 << 10, Drop: true}}, play: func(x *faulty) {
		x.says(1)
		x.settles(Exact, 1)
		x.hold()
		x.filler = fillerText
		for x.pub.Dropped() < 300 {
			x.says(50)
		}
		x.filler = ""
		x.pass()
		x.until("there is room again", func() bool {
			was := x.pub.Dropped()
			x.says(1)
			return x.pub.Dropped() == was
		})
		x.settles(Degraded, 0)
		x.atLeast(1, "losses", "")
		x.atLeast(300, "missing_batches", "")
	}},
	{name: "a replay that loses in the middle", setup: setup{drops: 3}, play: func(x *faulty) {
		x.says(1)
		x.settles(Exact, 1)
		x.loses(9)
		x.says(1)
		x.settles(Exact, 11)
		x.atLeast(1, "replay_holes", "")
	}},
}

var fillerText = string(bytes.Repeat([]byte("x"), 2000))

// payloads is a batch that must not be applied.
func (x *faulty) payloads() []byte { return payload(nil, storeX) }

// TestFaults plays each fault fifty times, ten streams at a time, and looks at
// what is left behind each ten.
func TestFaults(t *testing.T) {
	for _, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			var heap uint64
			rounds := faultRounds
			if testing.Short() {
				rounds = 1
			}
			for round := range rounds {
				goroutines, descriptors := runtime.NumGoroutine(), countDescriptors(t)
				if !t.Run(fmt.Sprint(round), func(t *testing.T) {
					r := newRig(t, 0)
					streams := make([]*faulty, faultStreams)
					for i := range streams {
						streams[i] = r.faulty(i, c.setup)
					}
					var playing sync.WaitGroup
					for _, x := range streams {
						playing.Go(func() {
							x.joined()
							c.play(x)
						})
					}
					playing.Wait()
				}) {
					return // the others would wait as long
				}
				for until := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > goroutines || countDescriptors(t) > descriptors; time.Sleep(time.Millisecond) {
					if time.Now().After(until) {
						t.Fatalf("round %d leaves %d goroutines and %d descriptors; before it %d and %d", round, runtime.NumGoroutine(), countDescriptors(t), goroutines, descriptors)
					}
				}
				if round == 1 { // pools and buffers are warm
					heap = liveHeap()
				}
			}
			if now := liveHeap(); heap > 0 && now > heap+heap/4+1<<20 {
				t.Errorf("the live heap grew from %d to %d bytes", heap, now)
			}
		})
	}
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // a system without it: goroutines have to do
	}
	return len(all)
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
