package ingest

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// anyOutage is the kind of every failure that has none of its own.
const anyOutage = "other"

// outage says what kind of failure keeps a stream from connecting, never "".
// The text of an error does not tell: it names local ports, which differ with
// every attempt.
func outage(err error) string {
	kind := ""
	if op, ok := errors.AsType[*net.OpError](err); ok {
		kind = op.Op + " " // a dial that times out is not a handshake that does
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		return kind + no.Error()
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return kind + "lookup"
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return kind + "timeout"
	}
	for _, known := range [...]error{io.EOF, io.ErrUnexpectedEOF, zmtp.ErrTooBig, zmtp.ErrFrame, zmtp.ErrEndpoint, zmtp.ErrHandshake} {
		if errors.Is(err, known) {
			return kind + known.Error()
		}
	}
	return kind + anyOutage
}
