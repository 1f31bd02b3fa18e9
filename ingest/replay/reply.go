package replay

import (
	"encoding/binary"

	"github.com/cairn-kv/cairn/ingest/seq"
)

// reply is one message of a replay endpoint, as a DEALER sees it.
type reply struct {
	seq     uint64
	topic   []byte // nil if the framing has none, or an empty one
	payload []byte
	end     bool
}

// parse reads both framings: three frames, or four with a topic. Not ok if it
// is neither, or if the sequence is not 8 bytes.
func parse(frames [][]byte) (r reply, ok bool) {
	if len(frames) != 3 && len(frames) != 4 || len(frames[0]) != 0 {
		return reply{}, false
	}
	n, payload := frames[len(frames)-2], frames[len(frames)-1]
	if len(n) != 8 {
		return reply{}, false
	}
	r.seq, r.payload = binary.BigEndian.Uint64(n), payload
	if len(frames) == 4 && len(frames[1]) > 0 {
		r.topic = frames[1]
	}
	r.end = r.seq == seq.Never
	return r, true
}

// request is the message that asks for everything from a sequence on.
func request(from uint64) [][]byte {
	return [][]byte{nil, binary.BigEndian.AppendUint64(nil, from)}
}
