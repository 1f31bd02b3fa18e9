package conformance

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/wire"
)

// liveOn is a batch of two chained stores and a remove that any stream must
// understand: it follows each message that is refused, to see that the stream
// lives. After it the blocks 0x1111… and 0x2222… are resident.
var liveOn = mustHex("93cb41da2fdb802000009396ab426c6f636b53746f72656492cf1111111111111111cf2222222222222222c098010203040506070804c0" +
	"96ab426c6f636b53746f72656491cf3333333333333333cf222222222222222294090a0b0c04c092ac426c6f636b52656d6f76656491cf3333333333333333c0")

func mustHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// playWire checks wire vectors: what each message means, that no strict prefix
// of it is accepted, and what an empty index holds behind it.
func playWire(ctx context.Context, f *File, lines []line, o Options) error {
	for _, l := range lines {
		v, err := parseVector(l)
		if err != nil {
			return err
		}
		f.Played++
		v.decode(f, v.payload, "")
		if text, ok := v.inJSON(); ok {
			v.decode(f, text, ", in JSON")
		}
		if err := v.prefixes(ctx, f); err != nil {
			return err
		}
		if err := v.live(ctx, f, o); err != nil {
			return fmt.Errorf("%s: %w", v.ID, err)
		}
	}
	return nil
}

// inJSON is the same message as JSON, if there is such a thing.
func (v *vector) inJSON() ([]byte, bool) {
	if !*v.Expect.OK || hasBytes(v.payload) {
		return nil, false
	}
	return asJSON(v.payload)
}

// hasBytes reports whether a payload holds bytes, for which JSON has no form.
func hasBytes(payload []byte) bool {
	b, left := payload, 1
	for ; left > 0; left-- {
		var n uint32
		var err error
		switch msgp.NextType(b) {
		case msgp.BinType:
			return true
		case msgp.ArrayType:
			n, b, err = msgp.ReadArrayHeaderBytes(b)
			left += int(n)
		case msgp.MapType:
			n, b, err = msgp.ReadMapHeaderBytes(b)
			left += 2 * int(n)
		default:
			b, err = msgp.Skip(b)
		}
		if err != nil {
			return true // nothing to write in any form
		}
	}
	return false
}

// decode compares the events of a form of the message one by one.
func (v *vector) decode(f *File, payload []byte, form string) {
	var d wire.Decoder
	batch, err := d.Reset(payload)
	var e wire.Event
	for i := 0; err == nil; i++ {
		var more bool
		if more, err = d.Next(&e); err != nil || !more {
			if err == nil && *v.Expect.OK {
				compare(f, v.line, v.ID, "number of events"+form, len(v.Expect.Events), i)
			}
			break
		}
		if *v.Expect.OK && i < len(v.Expect.Events) {
			v.event(f, i, form, &e)
		}
	}
	// What is wrong with the framing does not concern the payload.
	if v.Expect.Level != "message" {
		compare(f, v.line, v.ID, "batch is decodable"+form, *v.Expect.OK, err == nil)
	}
	if !*v.Expect.OK || err != nil {
		return
	}
	rank := "nil"
	if batch.HasRank {
		rank = strconv.FormatInt(batch.Rank, 10)
	}
	compare(f, v.line, v.ID, "rank"+form, whole(v.Expect.Rank), rank)
	clock := strconv.FormatFloat(batch.Seconds, 'f', -1, 64) + " s"
	if batch.IsMillis {
		clock = strconv.FormatUint(batch.Millis, 10) + " ms"
	}
	compare(f, v.line, v.ID, "ts"+form, v.Expect.TS.String()+" "+v.Expect.TSUnit, clock)
}

// event compares one event with what it means, or with an alternative.
func (v *vector) event(f *File, i int, form string, got *wire.Event) {
	f.Checks++
	want := &v.Expect.Events[i]
	key, expected, seen, same := want.difference(got)
	for _, a := range v.Alternatives {
		if !same && a.At == i && a.Event != nil {
			_, _, _, same = a.Event.difference(got)
		}
	}
	if !same {
		f.differ(v.line, v.ID, fmt.Sprintf("event %d, %s%s", i, key, form), expected, seen)
	}
	for name, sent := range map[string]bool{
		"skipped ancestry":                  want.Skipped != nil,
		"tenant_id, backend_id, object_key": want.TenantID != "" || want.BackendID != "" || want.ObjectKey != "",
	} {
		if sent && form == "" {
			f.skip(v.ID+" "+name, "sent and passed over: the index has no use for it")
		}
	}
}

// prefixes checks that no strict prefix of the payload passes for a batch. Of a
// long one there are many, and each is read: the file's time bounds them.
func (v *vector) prefixes(ctx context.Context, f *File) error {
	f.Checks++
	for n := range v.payload {
		if ctx.Err() != nil {
			return fmt.Errorf("%s, first %d of %d bytes: %w", v.ID, n, len(v.payload), context.Cause(ctx))
		}
		cut := v.payload[:n:n]
		if wire.Check(cut) == nil {
			f.differ(v.line, v.ID, fmt.Sprintf("first %d of %d bytes, structural pass", n, len(v.payload)), "refused", "accepted")
		}
		if decodeAll(cut) == nil {
			f.differ(v.line, v.ID, fmt.Sprintf("first %d of %d bytes", n, len(v.payload)), "refused", "accepted")
		}
	}
	return nil
}

func decodeAll(payload []byte) error {
	var d wire.Decoder
	_, err := d.Reset(payload)
	var e wire.Event
	for more := true; err == nil && more; {
		more, err = d.Next(&e)
	}
	return err
}

// live sends the message to an engine that knows nothing, and looks at what it
// holds behind it.
func (v *vector) live(ctx context.Context, f *File, o Options) (err error) {
	r, err := newRig(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	source := engine.Source{ID: v.ID, Model: defaultModel, Ranks: 1}
	if v.seq == 1 {
		source.FirstSeq = 1
	}
	if v.owned() {
		source.Protocol = engine.VLLMResidencyV1
	}
	if err := r.add(ctx, source); err != nil {
		return err
	}
	good := *v.Expect.OK
	switch {
	case good:
		if err := r.publish(v.ID, 0, v.Topic, v.seq, v.payload); err != nil {
			return err
		}
		if err := r.settle(ctx, v.ID, 0); err != nil {
			return err
		}
		v.holds(f, r)
		return nil
	case v.numbers:
		err = r.publish(v.ID, 0, v.Topic, v.seq, v.payload)
	default:
		err = r.raw(v.ID, 0, []byte(v.Topic), v.frame, v.payload)
	}
	if err != nil {
		return err
	}
	if err := r.next(v.ID, 0, liveOn); err != nil {
		return err
	}
	if err := r.settle(ctx, v.ID, 0); err != nil {
		return err
	}
	a, err := r.match(&engine.Query{Model: defaultModel, Tokens: count(1, 12)})
	if err != nil {
		return err
	}
	got := 0
	for _, h := range a.Holders {
		got = max(got, h.Tokens.Device)
	}
	compare(f, v.line, v.ID, "tokens of the next good message", 8, got)
	compare(f, v.line, v.ID, "residencies behind the next good message", 2, r.total().Residencies)
	return nil
}

// owned reports whether the message speaks for a cache owner.
func (v *vector) owned() bool {
	var d wire.Decoder
	if _, err := d.Reset(v.payload); err != nil {
		return false
	}
	var e wire.Event
	for {
		if more, err := d.Next(&e); err != nil || !more {
			return false
		}
		if string(e.Ownership) == kvcr {
			return true
		}
	}
}

// holds compares what the index holds with the state after the message.
func (v *vector) holds(f *File, r *rig) {
	states := []after{v.Expect.After}
	for _, a := range v.Alternatives {
		if a.After != nil {
			states = append(states, *a.After)
		}
	}
	total := r.total()
	got := fmt.Sprintf("%d resident, %d waiting", total.Residencies, total.Waiting)
	want := ""
	f.Checks++
	for i := range states {
		state := &states[i]
		s := fmt.Sprintf("%d resident, %d waiting", len(state.Resident), len(state.Orphans))
		if i == 0 {
			want = s
		}
		if s == got {
			v.reach(f, r, state)
			return
		}
	}
	f.differ(v.line, v.ID, "state behind the message", want, got)
}

// reach asks for each resident block by the prompt that leads to it, which
// only the message itself tells.
func (v *vector) reach(f *File, r *rig, state *after) {
	paths := v.paths()
	for _, res := range state.Resident {
		step := fmt.Sprintf("prompt up to block %s on %s", res.Hash, res.Tier)
		path, ok := paths[res.Hash]
		if !ok {
			f.differ(v.line, v.ID, step, "a chain of the message's own stores", "none")
			continue
		}
		a, err := r.match(&path.query)
		if err != nil {
			f.differ(v.line, v.ID, step, "an answer", err)
			continue
		}
		deepest := 0
		for _, h := range a.Holders {
			if h.Domain.String() != domainOr(res.Domain) {
				continue
			}
			switch res.Tier {
			case "device":
				deepest = max(deepest, h.Tokens.Device)
			case "host":
				deepest = max(deepest, h.Tokens.Host)
			default:
				deepest = max(deepest, h.Tokens.Any)
			}
		}
		compare(f, v.line, v.ID, step, path.tokens, deepest)
	}
}

func domainOr(domain string) string {
	if domain == "" {
		return domainName("")
	}
	return domain
}

// path is the prompt that leads to a block, and how many of its tokens the
// block and those before it cover. A block that looks ahead counts only if the
// prompt goes on, so the prompt may be longer.
type path struct {
	query  engine.Query
	tokens int
}

// paths follows the stores of the message that have the tokens of their blocks:
// no prompt leads to what others store. The prompts to the blocks of one store
// begin alike and share their tokens.
func (v *vector) paths() map[string]path {
	paths := map[string]path{}
	var d wire.Decoder
	if _, err := d.Reset(v.payload); err != nil {
		return nil
	}
	var e wire.Event
	for {
		more, err := d.Next(&e)
		if err != nil || !more {
			return paths
		}
		if e.Kind != wire.Store || len(e.Tokens) == 0 || !e.Even() {
			continue
		}
		begin := path{query: engine.Query{Model: defaultModel, Adapter: string(e.LoraName), Salt: string(e.Salt)}}
		if before, ok := paths[strconv.FormatUint(e.Parent, 10)]; e.HasParent && ok {
			begin = before
		}
		size := int(e.BlockSize)
		tokens := slices.Concat(begin.query.Tokens[:begin.tokens], e.Tokens)
		keys := slices.Clone(begin.query.Keys)
		for i, h := range e.Hashes {
			p := path{query: begin.query, tokens: begin.tokens + (i+1)*size}
			p.query.Tokens = tokens[:p.tokens+e.Lookahead]
			for _, k := range keysOfBlock(&e.Keys, i) {
				keys = append(keys, engine.Key{Hash: k, Offset: p.tokens - size, Length: size})
			}
			p.query.Keys = slices.Clip(keys)
			paths[strconv.FormatUint(h, 10)] = p
		}
	}
}
