package bound

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// TestStormsLeaveNothing: fifty sockets, each with publishers that die in every
// way there is, and beside them one that lives and loses nothing. Behind each
// storm goroutines, descriptors and message memory are what they were, and at the
// end the heap is.
func TestStormsLeaveNothing(t *testing.T) {
	var heap uint64
	for n := range 50 {
		goroutines, descriptors := runtime.NumGoroutine(), countDescriptors(t)
		if !t.Run(fmt.Sprint(n), storm) {
			return // the others would wait as long
		}
		for until := time.Now().Add(long); runtime.NumGoroutine() > goroutines || countDescriptors(t) > descriptors; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("storm %d leaves %d goroutines and %d descriptors; before it %d and %d", n, runtime.NumGoroutine(), countDescriptors(t), goroutines, descriptors)
			}
		}
		if n == 9 { // pools and buffers are warm
			heap = liveHeap()
		}
	}
	if now := liveHeap(); now > heap+heap/4+1<<20 {
		t.Errorf("the live heap grew from %d to %d bytes over forty storms", heap, now)
	}
}

func storm(t *testing.T) {
	r := newRig(t, Options{Bind: zmtp.BindOptions{MaxMessage: 1 << 20, MaxPending: 4, MaxConns: 16, MaxMemory: 8 << 20}}, kv)
	steady := r.publisher()
	send(t, steady, "kv@steady@m", 0, 0)
	s := r.next(key("steady", "m", 0))
	r.hears(s, 0)
	next := uint64(1)
	alive := func() {
		t.Helper()
		send(t, steady, "kv@steady@m", 0, next)
		r.hears(s, next)
		next++
	}
	dial := func(raw []byte) *net.TCPConn {
		t.Helper()
		c, err := net.Dial("tcp", r.Addr()[len("tcp://"):])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.Write(raw) // it may be cut off already
		return c.(*net.TCPConn)
	}
	// In the handshake: silent, half a greeting, something else entirely.
	dial(nil)
	dial([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3})
	dial(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 20))
	alive()
	// Behind it: a whole message and a reset; half of one; one that is too long;
	// no frame at all.
	for i, tail := range [][]byte{nil, {1, 8, 'k', 'v'}, {2, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}, {0xf8, 0}} {
		source := fmt.Sprint("dying", i)
		c := r.mute(1, "kv@"+source+"@m", 0, 0).(*net.TCPConn)
		d := r.next(key(source, "m", 0))
		r.hears(d, 0)
		c.Write(tail)
		if i < 2 {
			c.SetLinger(0)
			c.Close()
		}
		r.ends(d)
		alive()
	}
	// More handshakes than there may be.
	for range 8 {
		dial(nil)
	}
	alive()
	st := r.Stats()
	if st.Open != 1 || st.Broken != 4 || st.Superseded != 0 || st.dropped("contested") != 0 {
		t.Errorf("%+v", st)
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
