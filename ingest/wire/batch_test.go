package wire

import (
	"errors"
	"math"
	"testing"
)

func TestEnvelopes(t *testing.T) {
	remove := []any{"BlockRemoved", []any{1}, "GPU"}
	for _, c := range []struct {
		name    string
		payload []byte
		want    Batch
	}{
		{"no rank", pack([]any{1.5, []any{remove}}), Batch{Seconds: 1.5, Events: 1}},
		{"nil rank", pack([]any{1.5, []any{remove}, nil}), Batch{Seconds: 1.5, Events: 1}},
		{"short rank", pack([]any{1.5, []any{remove}, 7}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: 7}},
		{"negative rank", pack([]any{1.5, []any{remove}, -7}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: -7}},
		{"rank of 8 bits", pack([]any{1.5, []any{remove}, 200}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: 200}},
		{"rank of 16 bits", pack([]any{1.5, []any{remove}, 300}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: 300}},
		{"rank of 32 bits", pack([]any{1.5, []any{remove}, 1 << 20}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: 1 << 20}},
		{"rank of 63 bits", pack([]any{1.5, []any{remove}, int64(1<<63 - 1)}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: 1<<63 - 1}},
		{"smallest rank", pack([]any{1.5, []any{remove}, int64(-1 << 63)}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: -1 << 63}},
		{"what looks like the header of a rank", pack([]any{1.5, []any{[]any{"BlockRemoved", []any{0xcd00}}}, 7}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: 7}},
		{"rank and more", pack([]any{1.5, []any{remove}, 7, pairs{"x", 1}, 9}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: 7}},
		{"milliseconds", pack([]any{uint64(1757376000500), []any{remove}, 0}), Batch{Millis: 1757376000500, IsMillis: true, Events: 1, HasRank: true}},
		{"time before the epoch", pack([]any{-5, []any{remove}}), Batch{IsMillis: true, Events: 1}},
		{"float32 time", append(append([]byte{fixArray + 2}, mFloat32, 0x3f, 0xc0, 0, 0), pack([]any{remove})...), Batch{Seconds: 1.5, Events: 1}},
		{"time nil", pack([]any{nil, []any{remove}}), Batch{Events: 1}},
		{"time not a number", pack([]any{math.NaN(), []any{remove}}), Batch{Events: 1}},
		{"time infinite", pack([]any{math.Inf(-1), []any{remove}}), Batch{Events: 1}},
		{"time a text", pack([]any{"now", []any{remove}}), Batch{Events: 1}},
		{"no events", pack([]any{1.5, []any{}, 0}), Batch{Seconds: 1.5, HasRank: true}},
		{"map", pack(pairs{"ts", 1.5, "events", []any{remove}, "data_parallel_rank", 2}), Batch{Seconds: 1.5, Events: 1, HasRank: true, Rank: 2}},
		{"map, rank first, unknown key", pack(pairs{"attn_dp_rank", 3, 9, nil, "x", []any{}, "events", []any{remove}}), Batch{Events: 1, HasRank: true, Rank: 3}},
		{"map, rank nil", pack(pairs{"events", []any{remove}, "dp_rank", nil}), Batch{Events: 1}},
		{"map, no events", pack(pairs{"events", []any{}}), Batch{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, events, err := Describe(c.payload)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want || len(events) != c.want.Events {
				t.Errorf("%+v with %d events, want %+v", got, len(events), c.want)
			}
			if err := Check(c.payload); err != nil {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

func TestUndecodable(t *testing.T) {
	remove := []any{"BlockRemoved", []any{1}, "GPU"}
	for _, c := range []struct {
		name    string
		payload []byte
		want    Reason
	}{
		{"nothing", nil, ReasonTruncated},
		{"a number", pack(7), ReasonBatchShape},
		{"array of 1", pack([]any{1.5}), ReasonBatchShape},
		{"events nil", pack([]any{1.5, nil, 0}), ReasonBatchShape},
		{"events a map", pack([]any{1.5, pairs{}, 0}), ReasonBatchShape},
		{"map without events", pack(pairs{"ts", 1.5}), ReasonBatchShape},
		{"bytes behind", append(pack([]any{1.5, []any{remove}, 0}), 0), ReasonTrailingBytes},
		{"bytes behind a rankless batch", append(pack([]any{1.5, []any{remove}}), 0), ReasonTrailingBytes},
		{"bytes behind a map", append(pack(pairs{"events", []any{remove}}), 0), ReasonTrailingBytes},
		{"rank a text", pack([]any{1.5, []any{remove}, "0"}), ReasonRank},
		{"rank a text that ends like a number", pack([]any{1.5, []any{remove}, "\x05"}), ReasonRank},
		{"rank a float", pack([]any{1.5, []any{remove}, 0.0}), ReasonRank},
		{"rank of a map a text", pack(pairs{"dp_rank", "0", "events", []any{remove}}), ReasonRank},
		{"rank of 64 bits", pack([]any{1.5, []any{remove}, uint64(1 << 63)}), ReasonRank},
		{"a byte that is no value", pack([]any{1.5, []any{raw{mInvalid}}, 0}), ReasonInvalidByte},
		{"a byte that is no value, deep inside", pack([]any{1.5, []any{stored("later", []any{raw{mInvalid}})}, 0}), ReasonInvalidByte},
		{"hashes longer than the payload", pack([]any{1.5, []any{[]any{"BlockRemoved", raw{mArray32, 0xff, 0xff, 0xff, 0xff, 1}}}, 0}), ReasonLengthOverflow},
		{"tokens longer than the payload", pack([]any{1.5, []any{[]any{"BlockStored", []any{1}, nil, raw{mArray32, 0x7f, 0xff, 0xff, 0xff, 1}, 4, nil}}, 0}), ReasonLengthOverflow},
		{"map longer than the payload", pack([]any{1.5, []any{raw{mMap32, 0xff, 0xff, 0xff, 0xff, 1}}, 0}), ReasonLengthOverflow},
		{"text longer than the payload", pack([]any{1.5, []any{[]any{raw{mStr32, 0xff, 0xff, 0xff, 0xff, 1}}}, 0}), ReasonTruncated},
		{"more events than there are", append(append([]byte{fixArray + 3}, pack(1.5)...), append([]byte{fixArray + 2}, append(pack(remove), 0)...)...), ReasonTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			for name, err := range map[string]error{"decoding": run(&d, c.payload), "Check": Check(c.payload)} {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("%s: %v, want an *Error", name, err)
				}
				if e.Reason != c.want || e.Len != len(c.payload) || e.Offset > e.Len {
					t.Errorf("%s: %v, want %v", name, err, c.want)
				}
			}
			// The decoder is as good as new, and an error stays.
			var ev Event
			if _, err := d.Reset(c.payload); err == nil {
				for more := true; more; more, err = d.Next(&ev) {
				}
				if again, err2 := d.Next(&ev); again || err2 == nil || err == nil {
					t.Errorf("after the error: %v, %v", again, err2)
				}
			}
			if err := run(&d, batchOf(remove)); err != nil {
				t.Errorf("the next good batch: %v", err)
			}
		})
	}
}

// TestDepth: nesting costs no stack, as far as the payload reaches.
func TestDepth(t *testing.T) {
	const depth = 1 << 20
	deep := make(raw, depth)
	for i := range deep {
		deep[i] = fixArray + 1
	}
	deep[depth-1] = mNil
	payload := batchOf(stored("later", deep), []any{"Later", deep}, deep)
	var d Decoder
	if err := run(&d, payload); err != nil {
		t.Error(err)
	}
	if err := Check(payload); err != nil {
		t.Error(err)
	}
	if _, _, err := Describe(payload); err != nil {
		t.Error(err)
	}
}

// TestLengthsBeyondThePayload: whoever sizes something by a length finds 0 where
// it is more than there is, though nobody looked whether it holds.
func TestLengthsBeyondThePayload(t *testing.T) {
	for _, b := range [][]byte{
		{mArray32, 0xff, 0xff, 0xff, 0xff}, {mArray16, 0, 2, mNil}, {fixArray + 1}, {mArray32, 0xff},
		{mMap32, 0xff, 0xff, 0xff, 0xff}, {mMap16, 0, 1, mNil}, {fixMap + 1}, {mMap32, 0xff},
	} {
		list, pairs := cursor{b: b}, cursor{b: b}
		n, ok := list.array()
		m, also := pairs.pairs()
		if n != 0 || m != 0 || ok || also {
			t.Errorf("% x: a list of %d, %v, a map of %d, %v", b, n, ok, m, also)
		}
		if c := (cursor{b: b}); c.value(0) != nil && !c.bad() {
			t.Errorf("% x is a value", b)
		}
	}
}

// TestBuffersShrink: one giant event does not stay resident.
func TestBuffersShrink(t *testing.T) {
	var d Decoder
	giant := batchOf([]any{"BlockStored", many(1, 2*keepBuffers), nil, many(1, 2*keepBuffers), 1, nil})
	if err := run(&d, giant); err != nil {
		t.Fatal(err)
	}
	if cap(d.hashes) <= keepBuffers {
		t.Fatal("the event is not a giant")
	}
	if err := run(&d, batchOf()); err != nil {
		t.Fatal(err)
	}
	if cap(d.hashes) > keepBuffers || cap(d.tokens) > keepBuffers || len(d.seen.slots) > keepBuffers {
		t.Errorf("kept %d hashes, %d tokens, %d slots", cap(d.hashes), cap(d.tokens), len(d.seen.slots))
	}
}
