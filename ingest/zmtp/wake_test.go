package zmtp

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// wakeable is a publisher with a subscriber over a Waker.
func wakeable(t *testing.T, o Options, woken func() error) (*Publisher, *Conn, *Waker) {
	t.Helper()
	var w *Waker
	o.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w = NewWaker(c, woken)
		return w, nil
	}
	p, c := joined(t, PublisherConfig{}, o)
	return p, c, w
}

func TestWakeReachesAReaderThatWaits(t *testing.T) {
	ran := make(chan struct{}, 100)
	p, c, w := wakeable(t, Options{HeartbeatInterval: time.Hour}, func() error { ran <- struct{}{}; return nil })
	got := make(chan byte, 100)
	go func() {
		defer close(got)
		for {
			m, err := c.Next()
			if err != nil {
				return
			}
			got <- m.Frames()[0][0]
		}
	}()
	for i := range byte(50) {
		w.Wake()
		select {
		case <-ran:
		case <-time.After(10 * time.Second):
			t.Fatalf("wake %d was not answered", i)
		}
		// The message behind it comes whole: nothing was lost or torn.
		if err := p.Send([]byte{i}, seqFrame(uint64(i)), make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		select {
		case b := <-got:
			if b != i {
				t.Fatalf("message %d, want %d", b, i)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("message %d did not come", i)
		}
	}
	c.Close()
	for range got {
	}
}

// A storm of wakes while large messages arrive in pieces: each is whole, and
// the reader's own deadline (its heartbeat) survives.
func TestWakeInTheMiddleOfMessages(t *testing.T) {
	ran := 0
	beats := make(chan struct{}, 1000)
	o := Options{HeartbeatInterval: 20 * time.Millisecond, IdleTimeout: time.Hour, Heartbeat: func() {
		select {
		case beats <- struct{}{}:
		default:
		}
	}}
	p, c, w := wakeable(t, o, func() error { ran++; return nil })
	stop := make(chan struct{})
	storm := make(chan struct{})
	go func() {
		defer close(storm)
		for {
			select {
			case <-stop:
				return
			default:
				w.Wake()
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	const n = 200
	go func() {
		for i := range n {
			_ = p.Send([]byte{byte(i)}, seqFrame(uint64(i)), make([]byte, 300_000))
		}
	}()
	for i := range n {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f := m.Frames(); f[0][0] != byte(i) || len(f[2]) != 300_000 {
			t.Fatalf("message %d is torn: topic %d, %d bytes", i, f[0][0], len(f[2]))
		}
	}
	close(stop)
	<-storm
	if ran == 0 {
		t.Error("no wake was answered")
	}
	// Nobody wakes any more: the heartbeat's deadline is what ends the waits.
	go func() {
		_, _ = c.Next()
	}()
	for range 3 {
		select {
		case <-beats:
		case <-time.After(10 * time.Second):
			t.Fatal("the reader's own deadline is gone")
		}
	}
}

func TestWakeErrorEndsNext(t *testing.T) {
	no := errors.New("no")
	_, c, w := wakeable(t, Options{}, func() error { return no })
	w.Wake()
	if _, err := c.Next(); !errors.Is(err, no) {
		t.Fatalf("Next = %v", err)
	}
	c.Close()
	w.Wake() // of no effect, and no harm
}
