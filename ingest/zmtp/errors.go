package zmtp

import "errors"

// What this package's errors wrap. Errors of the network (a refused connection,
// a reset, io.EOF at the end of a message, io.ErrUnexpectedEOF inside one) are
// passed on as they are.
var (
	// ErrEndpoint: the endpoint cannot be understood.
	ErrEndpoint = errors.New("zmtp: bad endpoint")
	// ErrHandshake: the peer answered, but not as a ZMTP publisher or subscriber.
	ErrHandshake = errors.New("zmtp: handshake failed")
	// ErrAuth: the peer did not accept our user and password, or we not the
	// peer's. It comes with ErrHandshake.
	ErrAuth = errors.New("zmtp: authentication failed")
	// ErrMemory: the message needs more memory than is left for all connections
	// of the binding together. It comes with ErrTooBig.
	ErrMemory = errors.New("zmtp: out of message memory")
	// ErrTooBig: a frame or message is longer than allowed, or has too many frames.
	ErrTooBig = errors.New("zmtp: message too big")
	// ErrFrame: bytes that are no ZMTP frame where one must begin.
	ErrFrame = errors.New("zmtp: malformed frame")
	// ErrIdle: the peer speaks heartbeats, but answered none for IdleTimeout.
	ErrIdle = errors.New("zmtp: peer is silent")
	// ErrClosed: the connection or publisher was closed on this side.
	ErrClosed = errors.New("zmtp: closed")
)
