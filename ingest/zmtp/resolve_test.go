package zmtp

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// TestNamesAreResolvedAtEachDial: a publisher that came back under another
// address is found by its name. The resolver is a DNS server of our own.
func TestNamesAreResolvedAtEachDial(t *testing.T) {
	var address atomic.Pointer[net.IP]
	var asked atomic.Int32
	resolver := &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go serveDNS(theirs, func() net.IP { asked.Add(1); return *address.Load() })
			return ours, nil
		},
	}
	dialer := &net.Dialer{Resolver: resolver}

	first := listenTest(t, PublisherConfig{})
	_, port, err := net.SplitHostPort(first.Addr()[len("tcp://"):])
	if err != nil {
		t.Fatal(err)
	}
	second, err := Listen(context.Background(), "tcp://127.0.0.2:"+port)
	if err != nil {
		t.Skipf("this machine has one loopback address only: %v", err)
	}
	defer second.Close()

	o := Options{Endpoint: "tcp://engine.example.:" + port, DialContext: dialer.DialContext}
	for i, c := range []struct {
		ip  net.IP
		pub *Publisher
	}{{net.IPv4(127, 0, 0, 1), first}, {net.IPv4(127, 0, 0, 2), second}, {net.IPv4(127, 0, 0, 1), first}} {
		address.Store(&c.ip)
		before := asked.Load()
		conn := dialTest(t, o)
		if asked.Load() == before {
			t.Errorf("dial %d: nobody asked the resolver", i)
		}
		if err := c.pub.WaitSubscribers(within(t, 10*time.Second), 1); err != nil {
			t.Fatalf("dial %d: %v", i, err)
		}
		c.pub.Send([]byte("here"))
		hear(t, conn, "here")
		conn.Close()
		if err := c.pub.WaitGone(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	none := net.IP(nil)
	address.Store(&none)
	var dns *net.DNSError
	if _, err := Dial(within(t, 10*time.Second), o); !errors.As(err, &dns) {
		t.Fatalf("got %v, want a DNS error", err)
	}
}

// serveDNS answers questions over one stream connection: an A record of ip, or
// that there is no such name.
func serveDNS(c net.Conn, ip func() net.IP) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		end := 12 // behind the header: the name, its type and its class
		for q[end] != 0 {
			end += 1 + int(q[end])
		}
		end += 5
		kind := binary.BigEndian.Uint16(q[end-4:])
		a := append([]byte(nil), q[:end]...)
		a[2], a[3] = 0x84, 0 // an answer, authoritative
		binary.BigEndian.PutUint64(a[4:], 1<<48)
		switch v4 := ip().To4(); {
		case v4 == nil:
			a[3] = 3 // no such name
		case kind == 1:
			a[7] = 1 // one record: the name again, A, IN, no time to live
			a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			a = append(a, v4...)
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...)); err != nil {
			return
		}
	}
}
