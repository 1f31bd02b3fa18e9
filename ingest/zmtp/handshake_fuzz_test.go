package zmtp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// FuzzServerHandshake: whatever a stranger sends to a bound subscriber, the
// handshake ends with an error or a connection, has read little, and lets nobody
// through who did not say the password. Nothing waits: the input ends.
func FuzzServerHandshake(f *testing.F) {
	hello := commandFrame("HELLO", []byte("\x06engine\x06s3cret"))
	initiate := commandFrame("INITIATE", property(nil, "Socket-Type", "PUB"))
	secure := greetingBytes(1)
	copy(secure[12:], "PLAIN\x00")
	f.Add(append(greetingBytes(1), readyFrame("PUB")...), false)
	f.Add(append(greetingBytes(0), readyFrame("XPUB")...), false)
	f.Add(append(append(bytes.Clone(secure), hello...), initiate...), true)
	f.Add(append(append(bytes.Clone(secure), commandFrame("HELLO", []byte("\x06engine\x05wrong"))...), initiate...), true)
	f.Add(append(bytes.Clone(secure), commandFrame("HELLO", []byte("\xff"))...), true)
	for _, raw := range w5Handshakes() {
		f.Add(raw, false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, plain bool) {
		peer := &oneWay{in: bytes.NewReader(raw)}
		c := newBufConn(peer, 512)
		if plain {
			c.security, c.server = plainServer{users: []Plain{{"engine", Password("s3cret")}}}, true
		}
		zc, err := handshake(c, zmq4.Sub, true, time.Minute, nil)
		if (zc == nil) != (err != nil) {
			t.Fatalf("connection %v with error %v", zc != nil, err)
		}
		if read := len(raw) - peer.in.Len() - c.br.Buffered(); read > greetingSize+handshakeBudget {
			t.Fatalf("%d bytes were taken of a handshake", read)
		}
		if err != nil {
			return
		}
		if c.guarded || c.left != 0 {
			t.Fatalf("guarded %v, %d bytes left of a handshake that is done", c.guarded, c.left)
		}
		if kind := zmq4.SocketType(zc.Peer.Meta["Socket-Type"]); kind != zmq4.Pub && kind != zmq4.XPub {
			t.Fatalf("a %s may publish", kind)
		}
		if plain && !bytes.HasPrefix(raw[greetingSize:], hello) && !bytes.Contains(raw, hello[2:]) {
			t.Fatal("came in without the password")
		}
	})
}

// oneWay is a peer that has said all it will say.
type oneWay struct {
	net.Conn
	in *bytes.Reader
}

func (c *oneWay) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
func (c *oneWay) Write(p []byte) (int, error)     { return len(p), nil }
func (c *oneWay) SetDeadline(time.Time) error     { return nil }
func (c *oneWay) SetReadDeadline(time.Time) error { return nil }
func (c *oneWay) RemoteAddr() net.Addr            { return &net.TCPAddr{} }
