// Package zmtp is cairn's transport: ZeroMQ's wire protocol, ZMTP, over
// connections that cairn opens, reads and closes itself.
//
// The handshake (greeting, mechanism, READY) is go-zeromq/zmq4's, used one
// level below its sockets: zmq4.Open on our own net.Conn. Everything behind it
// is ours. The same bytes are on the wire as with zmq4.NewSub, but a message
// costs no allocation and the defects of the sockets (a deadlock while
// reconnecting, handshakes without a deadline, lengths that are allocated
// before they are looked at, unanswered PINGs, a swallowed end of file) cannot
// happen. Each of them has a test named after it: TestW1 … TestW10.
//
//	          ┌──────────────── Dial ────────────────┐
//	endpoint  │ net.Conn → bufConn → zmq4.Open       │  deadline, length guard,
//	tcp, ipc  │            (guard)   greeting, READY │  recover
//	          └──────────────┬───────────────────────┘
//	                         │ subscribe, lift the guard
//	          ┌──────────────▼───────────────────────┐
//	          │ FrameReader → Conn.Next              │  0 allocations a message
//	          │     PING → PONG   tick → PING, idle  │
//	          └──────────────────────────────────────┘
//
// # The subscriber, Conn
//
// One Conn is one connection to one endpoint. It never reconnects: any error
// ends it, and its owner dials again, with Backoff between. So a connection is
// an epoch, and nobody has to guess where one history ends and another begins.
// One goroutine calls Next; Subscribe, Unsubscribe and Close may be called from
// any. Cancelling the context given to Dial closes the connection, also in the
// middle of the handshake.
//
// No goroutine belongs to a Conn. The heartbeat rides on the reader's own
// deadline: when it fires the reader sends a PING, counts how often nothing
// came, and reads on, if need be in the middle of a frame.
//
// # The publisher, Publisher
//
// The sending side is for fleets, load generators and tests. It binds, or
// connects to a bound subscriber and again whenever that ends. It performs
// each handshake on a goroutine of its own, filters by prefix, and never drops
// unless asked to: Send waits for the slowest subscriber, up to a bound after
// which that subscriber is disconnected. Send copies into a buffer per
// subscriber, which a goroutine of that subscriber writes out as soon as it
// can, so messages need no Flush to leave and still go out in large writes.
//
// # The bound subscriber, Binding
//
// Publishers may connect to us instead. A Binding accepts them, performs each
// handshake on a goroutine of its own, and gives out a Conn per publisher, which
// is the same thing as one that was dialled: an epoch of its own, whose end is
// nothing to the others. Who connects is not trusted: handshakes have a
// deadline, a bound, and the oldest goes first; connections are bounded, and so
// is the memory of all their messages together.
//
// # Security
//
// NULL, or PLAIN in either role (Plain, BindOptions.Users). PLAIN is our own:
// zmq4's server accepts anybody. It keeps strangers out and hides nothing. For
// secrecy wrap the connection: Options.DialContext may return a TLS connection,
// and BindOptions.Wrap as well.
//
// # Limits
//
// No CURVE. Interface names in endpoints, inproc and the other transports of
// libzmq are not supported.
package zmtp
