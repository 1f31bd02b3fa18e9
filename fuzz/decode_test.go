package fuzz

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/wire"
)

// decodeLimit keeps inputs below where the general decoder's own limits on
// nesting begin.
const decodeLimit = 1 << 16

// FuzzDecode: no payload makes the decoder panic; what it takes for a sound
// batch is what a general decoder takes for one; cut short it is never sound;
// and what it says of an event holds together.
func FuzzDecode(f *testing.F) {
	seed(f, "decode")
	var used wire.Decoder // what one payload leaves behind must not reach the next
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) > decodeLimit {
			t.Skip("longer than the general decoder's limits allow")
		}
		if isJSON(payload) {
			t.Skip("for FuzzJSON")
		}
		var fresh wire.Decoder
		batch, events, err := decode(&fresh, payload)
		if want := sound(payload); (err == nil) != want {
			t.Fatalf("decoded with %v; a general decoder takes it for a batch: %v", err, want)
		}
		if check := wire.Check(payload); (check == nil) != (err == nil) {
			t.Fatalf("decoded with %v, checked with %v", err, check)
		}
		b, again, err2 := decode(&used, payload)
		learns := bytes.Contains(payload, []byte("data")) // block sizes and windows, from one payload for the next
		if b != batch || (err2 == nil) != (err == nil) || !learns && !reflect.DeepEqual(again, events) {
			t.Fatalf("a used decoder gives %+v, %d events, %v; a fresh one %+v, %d events, %v", b, len(again), err2, batch, len(events), err)
		}
		if err != nil {
			return
		}
		if batch.Events != len(events) && !(learns && batch.Events < len(events)) { // a move is two
			t.Fatalf("%d events announced, %d decoded", batch.Events, len(events))
		}
		for i := range events {
			checkEvent(t, &events[i])
		}
		b, described, err := wire.Describe(payload)
		if err != nil || b != batch || len(described) != len(events) {
			t.Fatalf("described as %+v, %d events, %v; decoded as %+v, %d events", b, len(described), err, batch, len(events))
		}
		for i, e := range described {
			if e.Kind != events[i].Kind || e.Reason != events[i].Reason {
				t.Fatalf("event %d described as %v %v, decoded as %v %v", i, e.Kind, e.Reason, events[i].Kind, events[i].Reason)
			}
		}
		for n := 0; n < len(payload); n += 1 + len(payload)/256 {
			if _, _, err := decode(&fresh, payload[:n:n]); err == nil {
				t.Fatalf("the first %d of %d bytes are taken for a batch", n, len(payload))
			}
		}
	})
}

// decode decodes a payload and returns copies of its events.
func decode(d *wire.Decoder, payload []byte) (wire.Batch, []wire.Event, error) {
	batch, err := d.Reset(payload)
	if err != nil {
		return wire.Batch{}, nil, err
	}
	var events []wire.Event
	for {
		var ev wire.Event
		more, err := d.Next(&ev)
		if err != nil {
			return wire.Batch{}, nil, err
		}
		if !more {
			return batch, events, nil
		}
		ev.Hashes = append([]uint64{}, ev.Hashes...)
		ev.Tokens = append([]uint32{}, ev.Tokens...)
		ev.Contents = slices.Clone(ev.Contents)
		ev.LookaheadTokens = append([]uint32{}, ev.LookaheadTokens...)
		ev.Keys.Hashes = append([]uint64{}, ev.Keys.Hashes...)
		ev.Keys.Ends = append([]int{}, ev.Keys.Ends...)
		events = append(events, ev)
	}
}

// checkEvent holds what must be true of every event.
func checkEvent(t *testing.T, e *wire.Event) {
	t.Helper()
	if odd := e.Kind == wire.Skipped || e.Kind == wire.Rejected; odd != (e.Reason != wire.ReasonNone) {
		t.Fatalf("a %v event with reason %v", e.Kind, e.Reason)
	}
	if e.Kind != wire.Store {
		return
	}
	if once := slices.Sorted(slices.Values(e.Hashes)); len(slices.Compact(once)) != len(e.Hashes) {
		t.Fatalf("a hash twice in %d", e.Hashes)
	}
	if e.HasParent && slices.Contains(e.Hashes, e.Parent) {
		t.Fatalf("own parent %d", e.Parent)
	}
	if len(e.Tokens) > 0 && e.BlockSize < 1 {
		t.Fatalf("%d tokens with block size %d", len(e.Tokens), e.BlockSize)
	}
	if len(e.Tokens) > 0 && e.Class() == wire.Dense && !e.Even() {
		t.Fatalf("%d hashes, %d tokens, block size %d, look-ahead %d", len(e.Hashes), len(e.Tokens), e.BlockSize, e.Lookahead)
	}
	if e.Contents != nil && (len(e.Contents) == 0 || e.ContentUnit == 0 && len(e.Contents) != len(e.Hashes) || e.ContentUnit > 0 && !e.Even()) {
		t.Fatalf("%d contents of %d blocks of %d tokens, %d tokens each", len(e.Contents), len(e.Hashes), e.BlockSize, e.ContentUnit)
	}
	if e.Placeholder && (len(e.Tokens) > 0 || e.BlockSize != 0) {
		t.Fatalf("a placeholder with %d tokens, block size %d", len(e.Tokens), e.BlockSize)
	}
	if n := len(e.LookaheadTokens); n != 0 && n != e.Lookahead*len(e.Hashes) {
		t.Fatalf("%d look-ahead tokens for %d blocks, %d apiece", n, len(e.Hashes), e.Lookahead)
	}
	if !slices.IsSorted(e.Keys.Ends) || len(e.Keys.Ends) != 0 && (len(e.Keys.Ends) != len(e.Hashes) || e.Keys.Ends[len(e.Keys.Ends)-1] != len(e.Keys.Hashes)) {
		t.Fatalf("keys %d end at %d for %d blocks", len(e.Keys.Hashes), e.Keys.Ends, len(e.Hashes))
	}
}

// sound says with a general decoder whether a payload is one whole MessagePack
// value in the shape of a batch.
func sound(payload []byte) bool {
	if rest, err := msgp.Skip(payload); err != nil || len(rest) != 0 {
		return false
	}
	skip := func(b []byte) []byte {
		rest, _ := msgp.Skip(b) // part of what could be skipped
		return rest
	}
	switch msgp.NextType(payload) {
	case msgp.ArrayType:
		n, b, _ := msgp.ReadArrayHeaderBytes(payload)
		if loose(n, b) {
			return true
		}
		if n < 2 {
			return false
		}
		b = skip(b)
		if msgp.NextType(b) != msgp.ArrayType {
			return false
		}
		return n == 2 || soundRank(skip(b))
	case msgp.MapType:
		n, b, _ := msgp.ReadMapHeaderBytes(payload)
		events, event, ranked := false, false, true
		for ; n > 0; n-- {
			name := ""
			if msgp.NextType(b) == msgp.StrType {
				name, _, _ = msgp.ReadStringBytes(b)
			}
			b = skip(b)
			switch name {
			case "events":
				if msgp.NextType(b) != msgp.ArrayType {
					return false
				}
				events = true
			case "type", "event_type", "event", "data":
				event = true
			case "data_parallel_rank", "attn_dp_rank", "dp_rank":
				ranked = soundRank(b)
			}
			b = skip(b)
		}
		return events && ranked || event && !events
	}
	return false
}

// loose says whether an array of n, whose elements begin at b, is events without
// an envelope.
func loose(n uint32, b []byte) bool {
	if n == 0 {
		return false
	}
	switch msgp.NextType(b) {
	case msgp.MapType, msgp.ArrayType, msgp.BinType:
		return true
	case msgp.StrType:
		switch tag, _, _ := msgp.ReadStringBytes(b); tag {
		case "BlockStored", "stored", "BlockRemoved", "removed", "AllBlocksCleared", "cleared":
			return true
		}
	case msgp.IntType, msgp.UintType:
		rest, _ := msgp.Skip(b)
		next := msgp.NextType(rest)
		return n > 1 && (next == msgp.StrType || next == msgp.MapType)
	}
	return false
}

// soundRank says whether b begins with a rank: nil, or what fits an int64.
func soundRank(b []byte) bool {
	switch msgp.NextType(b) {
	case msgp.NilType:
		return true
	case msgp.IntType, msgp.UintType:
		_, _, err := msgp.ReadInt64Bytes(b)
		return err == nil
	}
	return false
}
