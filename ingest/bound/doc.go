// Package bound lets one socket serve many publishers. Publishers connect to a
// [Socket] (vLLM's does, for every endpoint that names a host), or the socket
// connects to a relay that speaks for many. Either way the package takes the
// messages of a connection apart by topic and dp rank, and hands each series of
// numbers to a stream of its own as an [ingest.Link]:
//
//	publisher ──tcp──▶ connection ─┬ (topic a, rank 0) ──▶ link ──▶ Lane ──▶ ingest.Stream
//	publisher ──tcp──▶ connection ─┼ (topic b, rank 0) ──▶ link ──▶ Lane ──▶ ingest.Stream
//	relay     ──tcp──▶ connection ─┤ (topic c, rank 0) ──▶ link ──▶ Lane ──▶ ingest.Stream
//	                               └ (topic c, rank 1) ──▶ link ──▶ Lane ──▶ ingest.Stream
//
// A publisher is told by connection, topic and rank. Its address is in logs and
// nowhere else: ports change with every connection. The end of one connection
// ends its own links only.
//
// # Lanes
//
// A [Lane] is where the links of one (source, rank) come by, one after the
// other: it outlives connections, as its stream does, so that the stream can
// judge the first number of a new connection by the last of the one before.
// Options.Open names the lane of a [Key] when its first message comes; that is
// where sources come into being, and where they are bounded.
//
// Two connections may claim the same lane. Mostly one of them is dead and does
// not know it, so the newcomer has the one before asked: if nothing is heard
// of it for Options.Takeover, not even an answer to a PING, it is closed and the
// newcomer follows it. If it lives, two publishers bear one name, which nobody
// can tell apart: the first keeps the lane, and what the other says is dropped,
// counted as contested and logged, until the first is gone. A claim is never
// settled by mixing two series of numbers.
//
// # Who reads
//
// A connection begins on a goroutine of its own, the pump. If its first message
// names a lane, and as long as all others name the same, the lane's stream reads
// the connection itself: no goroutine, channel or copy lies between. With the
// first message of another key the pump takes over again for good, and hands
// messages over one by one: it waits until a message is dealt with before it
// reads the next, so that nothing is queued. A stream that is slow then holds up
// the others of its connection, and no others.
//
// # Bounds
//
// Connections, handshakes, the size of a message and the memory of all messages
// are bounded by zmtp.BindOptions, sources and ranks by Options.Open. Unknown
// topics, malformed messages and refused keys cost a counter.
//
// # Concurrency
//
// Socket and Lane are safe for concurrent use. Links belong to their streams.
package bound
