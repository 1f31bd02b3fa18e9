package conformance

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/ingest/replay"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// exchange is one request on a captured replay socket with its answer.
type exchange struct {
	request  [][]byte
	replies  [][][]byte
	silent   bool // nobody answered
	complete bool // the end marker is there
}

// from is the sequence that was asked for; not ok if the request has another
// form than a client's.
func (e *exchange) from() (seq uint64, ok bool) {
	if len(e.request) != 2 || len(e.request[0]) != 0 || len(e.request[1]) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(e.request[1]), true
}

// sequenceOf is the sequence of a reply of either framing.
func sequenceOf(reply [][]byte) (seq uint64, ok bool) {
	if len(reply) < 3 || len(reply[len(reply)-2]) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(reply[len(reply)-2]), true
}

// checkReplay looks at what a line of kind replay must have.
func (x *captured) checkReplay() error {
	if x.Dir == "" {
		if _, err := sequence(x.Start); err != nil {
			return fmt.Errorf("start: %w", err)
		}
		return nil
	}
	switch x.Dir {
	case "sent", "received":
		_, err := x.message()
		return err
	case "nothing":
		return nil
	}
	return fmt.Errorf("dir %q: want sent, received or nothing", x.Dir)
}

// message reads the frames of one message in base64.
func (x *captured) message() ([][]byte, error) {
	var m [][]byte
	for i, raw := range x.Frames {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("frames[%d]: %w", i, err)
		}
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("frames[%d]: %w", i, err)
		}
		m = append(m, b)
	}
	return m, nil
}

// joinExchanges puts each request together with its answer, at the request's
// line.
func (c *capture) joinExchanges() error {
	payloads := map[string]map[uint64][]byte{}
	open := map[string]*exchange{}
	for i := range c.lines {
		x := &c.lines[i]
		switch {
		case x.Kind == "msg":
			if payloads[x.Stream] == nil {
				payloads[x.Stream] = map[uint64][]byte{}
			}
			payloads[x.Stream][x.seq] = x.data
		case x.Kind != "replay":
		case x.Dir == "":
			e, err := x.whole(payloads[x.Stream])
			if err != nil {
				return fmt.Errorf("line %d: replay: %w", x.number, err)
			}
			x.replay = e
		default:
			m, _ := x.message() // it was checked
			if x.Dir == "sent" {
				open[x.Stream] = &exchange{request: m}
				x.replay = open[x.Stream]
				continue
			}
			e := open[x.Stream]
			if e == nil {
				return fmt.Errorf("line %d: replay: %s before anything was sent", x.number, x.Dir)
			}
			if x.Dir == "nothing" {
				e.silent = true
				continue
			}
			e.add(m)
		}
	}
	return nil
}

func (e *exchange) add(reply [][]byte) {
	e.replies = append(e.replies, reply)
	if seq, ok := sequenceOf(reply); ok && seq == reserved {
		e.complete = true
	}
}

// whole reads an exchange that stands in one line, payloads by their lengths
// alone: they are those of the messages before it.
func (x *captured) whole(payloads map[uint64][]byte) (*exchange, error) {
	start, _ := sequence(x.Start) // it was checked
	e := &exchange{request: [][]byte{nil, sequenceFrame(start)}}
	for i, raw := range x.Frames {
		var texts []string
		if err := json.Unmarshal(raw, &texts); err != nil {
			return nil, fmt.Errorf("frames[%d]: %w", i, err)
		}
		var reply [][]byte
		for _, text := range texts {
			length, stands := strings.CutPrefix(text, "payload:")
			if !stands {
				b, err := hex.DecodeString(text)
				if err != nil {
					return nil, fmt.Errorf("frames[%d]: %w", i, err)
				}
				reply = append(reply, b)
				continue
			}
			n, err := strconv.Atoi(length)
			if err != nil {
				return nil, fmt.Errorf("frames[%d]: %w", i, err)
			}
			if len(reply) == 0 || len(reply[len(reply)-1]) != 8 {
				return nil, fmt.Errorf("frames[%d]: no sequence in front of %s", i, text)
			}
			seq := binary.BigEndian.Uint64(reply[len(reply)-1])
			if got := len(payloads[seq]); got != n {
				return nil, fmt.Errorf("frames[%d]: the payload of %d has %d bytes, its message %d", i, seq, n, got)
			}
			reply = append(reply, payloads[seq])
		}
		e.add(reply)
	}
	return e, nil
}

// hole is what of a stream was missing when a message came behind it, and has
// not been replayed so far.
type hole struct {
	span
	partial bool // the history before what is missing still
	cleared bool // a message behind it has made the history whole
}

// exchange plays an exchange: to the engine's own client if it is about what
// the engine misses, else to a client of its own.
func (r *captureRun) exchange(ctx context.Context, x *captured, rank int) error {
	e := x.replay
	if e == nil {
		return nil // a line of an exchange that was played with its request
	}
	from, ok := e.from()
	h := r.holes[x.Stream]
	switch {
	case !ok || e.silent:
		r.file.skip("replay", "a request of a form that no client of ours sends")
		return nil
	case h == nil:
		return r.fetch(ctx, x, from)
	}
	delete(r.holes, x.Stream)
	a, err := r.rig.sources[captureSource].feeds[rank].replayer.wait(ctx, r.rig.options.patience)
	if errors.Is(err, errNotAsked) {
		compare(r.file, x.number, x.Stream, "request for a replay", fmt.Sprint("from ", from), "none")
		return nil
	}
	if err != nil {
		return err
	}
	compare(r.file, x.number, x.Stream, "request for a replay", fmt.Sprint("from ", from), fmt.Sprint("from ", a.from))
	for _, reply := range e.replies {
		r.file.Played++
		a.send(reply...)
		if seq, ok := sequenceOf(reply); ok {
			r.replayed(x.Stream, h, seq, reply[len(reply)-1])
		}
	}
	a.end()
	return nil
}

// replayed keeps track of what a replay makes of a stream's history.
func (r *captureRun) replayed(stream string, h *hole, seq uint64, payload []byte) {
	if seq < h.from || seq > h.to || h.cleared {
		return
	}
	// What lies before it and did not come is lost; it may begin anew itself.
	h.partial = h.partial || seq > h.from
	h.from = seq + 1
	r.partial[stream] = h.partial
	r.scan(stream, payload)
	h.partial = r.partial[stream]
	r.partial[stream] = h.partial || h.from <= h.to
}

// fetch asks with a client of its own, which must bring everything there was.
func (r *captureRun) fetch(ctx context.Context, x *captured, from uint64) error {
	e := x.replay
	if !e.complete {
		r.file.skip("replay", "an answer without its end")
		return nil
	}
	router, err := zmtp.RouterConfig{Handle: func(_ context.Context, request [][]byte, reply zmtp.Reply) {
		for _, m := range e.replies {
			if reply(m...) != nil {
				return
			}
		}
	}}.Listen(ctx, "tcp://127.0.0.1:0")
	if err != nil {
		return err
	}
	defer router.Close()
	box := replay.NewInbox(1<<30, func() {})
	replay.Fetch(ctx, replay.Options{Transport: zmtp.Options{Endpoint: router.Addr()}, Silence: 10 * time.Second}, from, box)
	var want, got []string
	for _, m := range e.replies {
		r.file.Played++
		if seq, ok := sequenceOf(m); ok && seq != reserved {
			want = append(want, fmt.Sprintf("%d: %x", seq, m[len(m)-1]))
		}
	}
	outcome := replay.Cancelled
	for _, i := range box.Take(nil) {
		switch i.Kind {
		case replay.Batch:
			got = append(got, fmt.Sprintf("%d: %x", i.Seq, i.Payload))
		case replay.Done:
			outcome = i.Outcome
		}
	}
	step := fmt.Sprintf("replay from %d", from)
	compare(r.file, x.number, x.Stream, step, strings.Join(want, "\n"), strings.Join(got, "\n"))
	compare(r.file, x.number, x.Stream, step+", its end", replay.Ended, outcome)
	return nil
}
