package zmtp

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// Waker is a net.Conn whose reader can be called away for a moment: Wake makes
// it run a function and then read on where it was, also in the middle of a
// frame. So the one goroutine that follows a connection can be handed other
// work, such as the replies of a replay, without a second goroutine between it
// and the socket.
//
//	any goroutine            the reader's
//	─────────────            ────────────
//	Wake ── past deadline ─▶ Read fails ▶ woken() ▶ the deadline that was set ▶ Read
//
// Read, SetDeadline and SetReadDeadline belong to the reader's goroutine, as
// they do for a [Conn] made over it; Wake may be called by any.
type Waker struct {
	net.Conn
	woken  func() error
	due    atomic.Bool
	wanted time.Time // the read deadline as the reader set it
}

// past is a deadline that has run out in any case.
var past = time.Unix(1, 0)

// NewWaker wraps c. The function runs on the reader's goroutine, inside Read;
// its error ends the Read and is returned as it is.
func NewWaker(c net.Conn, woken func() error) *Waker { return &Waker{Conn: c, woken: woken} }

// Wake has the function run soon: at once if the reader waits, else with its
// next Read. Several Wakes before it runs are one.
func (w *Waker) Wake() {
	w.due.Store(true)
	_ = w.Conn.SetReadDeadline(past) // fails on a closed connection, whose reader ends anyway
}

// Read reads, and runs the function whenever it is due.
func (w *Waker) Read(p []byte) (int, error) {
	for {
		if w.due.Load() {
			if err := w.run(); err != nil {
				return 0, err
			}
		}
		n, err := w.Conn.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !w.due.Load() {
			return n, err
		}
	}
}

// run puts the deadline back before the function runs: a Wake that comes from
// then on finds nothing to be undone.
func (w *Waker) run() error {
	w.due.Store(false)
	if err := w.Conn.SetReadDeadline(w.wanted); err != nil {
		return err
	}
	if w.due.Load() { // a Wake between the two, whose deadline is lost
		_ = w.Conn.SetReadDeadline(past)
	}
	return w.woken()
}

// SetReadDeadline sets the deadline, which a Wake that is due overrules.
func (w *Waker) SetReadDeadline(t time.Time) error {
	w.wanted = t
	if err := w.Conn.SetReadDeadline(t); err != nil {
		return err
	}
	if w.due.Load() {
		return w.Conn.SetReadDeadline(past)
	}
	return nil
}

// SetDeadline is SetReadDeadline for both directions.
func (w *Waker) SetDeadline(t time.Time) error {
	if err := w.Conn.SetWriteDeadline(t); err != nil {
		return err
	}
	return w.SetReadDeadline(t)
}
