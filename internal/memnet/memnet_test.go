package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// Both sides of a handshake may speak first, and who closes may have written
// what the other has not read yet.
func TestPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := Pipe()
		for _, end := range []net.Conn{here, there} {
			if _, err := end.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
		}
		here.Close()
		if got, err := io.ReadAll(there); string(got) != "hello" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		synctest.Wait()
		if _, err := there.Write([]byte("too late")); err == nil {
			t.Error("who is gone is written to")
		}
		there.Close()
	})
}

// Deadlines are those of the connection: of a read that nothing comes for, and
// of a write while more is in flight than a connection holds.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := Pipe()
		begin := time.Now()
		here.SetReadDeadline(begin.Add(time.Hour))
		if _, err := here.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Hour {
			t.Errorf("read: %v after %v", err, time.Since(begin))
		}
		here.SetWriteDeadline(time.Now().Add(time.Hour))
		written := 0
		var err error
		for ; err == nil; written++ {
			_, err = here.Write([]byte{1})
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 2*time.Hour || written < inFlight {
			t.Errorf("write %d: %v after %v", written, err, time.Since(begin))
		}
		there.Close()
		here.Close()
	})
}

func TestNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		first := n.Reserve(2)
		l := n.Listen(first)
		at := l.Addr().String()
		if n.Reserve(1) != first+2 {
			t.Error("a port is reserved twice")
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			io.Copy(conn, conn)
			conn.Close()
		}()
		conn, err := n.Dial(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte("echo"))
		back := make([]byte, 4)
		if _, err := io.ReadFull(conn, back); string(back) != "echo" || err != nil {
			t.Errorf("%q comes back, %v", back, err)
		}
		conn.Close()

		// Nobody accepts: a dialler waits for as long as it may.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if _, err := n.Dial(ctx, "tcp", at); err == nil || time.Since(begin) != time.Minute {
			t.Errorf("dialled, %v after %v", err, time.Since(begin))
		}

		// Who took the port keeps it when the one before gives it up.
		next := n.Listen(first)
		l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		go next.Accept()
		if conn, err = n.Dial(t.Context(), "tcp", at); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		next.Close()
		if _, err := n.Dial(t.Context(), "tcp", at); err == nil {
			t.Error("dialled where nobody listens")
		}
	})
}
