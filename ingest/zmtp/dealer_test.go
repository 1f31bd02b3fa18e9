package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// counting answers a request for n with n messages.
func counting(_ context.Context, request [][]byte, reply Reply) {
	if len(request) != 2 || len(request[0]) != 0 || len(request[1]) != 8 {
		return
	}
	for i := range binary.BigEndian.Uint64(request[1]) {
		if reply(nil, seqFrame(i), make([]byte, 1000)) != nil {
			return
		}
	}
}

func routerTest(t *testing.T, c RouterConfig) *Router {
	t.Helper()
	r, err := c.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func dealerTest(t *testing.T, endpoint string) *Dealer {
	t.Helper()
	d, err := DialDealer(within(t, time.Minute), Options{Endpoint: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestDealerAsksARouter(t *testing.T) {
	d := dealerTest(t, routerTest(t, RouterConfig{Handle: counting}).Addr())
	for _, n := range []uint64{3, 0, 5000} {
		if err := d.Send(nil, seqFrame(n)); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			m, err := d.Next(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if f := m.Frames(); len(f) != 3 || len(f[0]) != 0 || binary.BigEndian.Uint64(f[1]) != i || len(f[2]) != 1000 {
				t.Fatalf("reply %d of %d: %d frames", i, n, len(f))
			}
		}
	}
}

// A stock ROUTER sees the identity and our two frames, and we its answer.
func TestDealerAsksAStockRouter(t *testing.T) {
	ctx := within(t, 30*time.Second)
	stock := zmq4.NewRouter(ctx, zmq4.WithID(zmq4.SocketIdentity("router")))
	defer stock.Close()
	if err := stock.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		m, err := stock.Recv()
		if err == nil && (len(m.Frames) != 3 || len(m.Frames[1]) != 0 || string(m.Frames[2]) != "\x00\x00\x00\x00\x00\x00\x00\x05") {
			err = fmt.Errorf("the router got %q", m.Frames)
		}
		if err == nil {
			err = stock.Send(zmq4.NewMsgFrom(m.Frames[0], nil, []byte("topic"), seqFrame(5), []byte("payload")))
		}
		served <- err
	}()
	d := dealerTest(t, "tcp://"+stock.Addr().String())
	if err := d.Send(nil, seqFrame(5)); err != nil {
		t.Fatal(err)
	}
	m, err := d.Next(time.Minute)
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if f := m.Frames(); len(f) != 4 || string(f[1]) != "topic" || string(f[3]) != "payload" {
		t.Fatalf("reply %q", f)
	}
}

// Our ROUTER answers a stock DEALER.
func TestStockDealerAsksARouter(t *testing.T) {
	r := routerTest(t, RouterConfig{Handle: counting})
	stock := zmq4.NewDealer(within(t, 30*time.Second))
	defer stock.Close()
	if err := stock.Dial(r.Addr()); err != nil {
		t.Fatal(err)
	}
	if err := stock.Send(zmq4.NewMsgFrom(nil, seqFrame(2))); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2) {
		m, err := stock.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Frames) != 3 || binary.BigEndian.Uint64(m.Frames[1]) != i {
			t.Fatalf("reply %q", m.Frames)
		}
	}
}

func TestDealerSilence(t *testing.T) {
	d := dealerTest(t, routerTest(t, RouterConfig{Handle: counting}).Addr())
	if _, err := d.Next(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Next = %v, want a deadline", err)
	}
}

func TestRouterCloseEndsHandlers(t *testing.T) {
	entered := make(chan struct{})
	r := routerTest(t, RouterConfig{Handle: func(ctx context.Context, _ [][]byte, _ Reply) {
		close(entered)
		<-ctx.Done()
	}})
	d := dealerTest(t, r.Addr())
	if err := d.Send(nil, seqFrame(0)); err != nil {
		t.Fatal(err)
	}
	<-entered
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Next(time.Minute); err == nil {
		t.Fatal("a closed router answers")
	}
}
