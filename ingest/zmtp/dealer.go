package zmtp

import (
	"context"
	"time"

	"github.com/go-zeromq/zmq4"
)

// Dealer is a connected DEALER socket with one peer: the client of a replay
// endpoint. One goroutine calls Send and Next; Close may be called by any.
type Dealer struct {
	c   *Conn
	out []byte
}

// DialDealer connects to a ROUTER at o.Endpoint and performs the handshake.
// Topics, Heartbeat and the intervals of o are not used: who waits here waits
// for an answer, and says for how long. Cancelling ctx closes the connection.
func DialDealer(ctx context.Context, o Options) (*Dealer, error) {
	o.setDefaults()
	c, left, err := connect(ctx, &o)
	if err != nil {
		return nil, err
	}
	c.heartbeat = nil
	if c.zc, err = handshake(c.raw, zmq4.Dealer, false, left, nil); err != nil {
		c.Close()
		return nil, c.cause(err)
	}
	return &Dealer{c: c}, nil
}

// Send sends one message, all frames by one write.
func (d *Dealer) Send(frames ...[]byte) error {
	d.out = d.out[:0]
	for i, f := range frames {
		flags := byte(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		d.out = appendFrame(d.out, flags, f)
	}
	d.c.send.Lock()
	defer d.c.send.Unlock()
	if err := d.c.raw.SetWriteDeadline(time.Now().Add(d.c.timeout)); err != nil {
		return d.c.cause(err)
	}
	_, err := d.c.raw.Write(d.out)
	return d.c.cause(err)
}

// Next waits for the next message and answers PINGs. The message is valid until
// the next call. It fails with os.ErrDeadlineExceeded when nothing comes for
// silence. After an error the connection is of no more use.
func (d *Dealer) Next(silence time.Duration) (Message, error) {
	// A deadline for each wait, not for each message: what is in the buffer
	// needs none.
	if d.c.raw.br.Buffered() == 0 {
		if err := d.c.raw.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return Message{}, d.c.cause(err)
		}
	}
	return d.c.Next()
}

// Close closes the connection; a Next that waits returns ErrClosed.
func (d *Dealer) Close() error { return d.c.Close() }
