package fuzz

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/wire"
)

// isJSON says by its first byte whether a payload is JSON.
func isJSON(payload []byte) bool {
	return len(payload) > 0 && bytes.IndexByte([]byte("{[ \t\r\n"), payload[0]) >= 0
}

// jsonDepth is how many lists and maps may be one within the other in text that
// must be taken.
const jsonDepth = 64

// FuzzJSON: no text makes the decoder panic, and what it says of text is what it
// says of the same values as another library writes them in MessagePack.
func FuzzJSON(f *testing.F) {
	seed(f, "json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > decodeLimit || !isJSON(text) || !utf8.Valid(text) {
			t.Skip("no text, or more of it than is needed")
		}
		var d wire.Decoder
		batch, events, err := decode(&d, text)
		if check := wire.Check(text); (check == nil) != (err == nil) {
			t.Fatalf("decoded with %v, checked with %v", err, check)
		}
		packed, ok := repack(text)
		if !ok {
			if err == nil && !json.Valid(text) && !json.Valid(lines(text)) {
				t.Fatal("no JSON, and taken for a batch")
			}
			return
		}
		var other wire.Decoder
		b, same, err2 := decode(&other, packed)
		if b != batch || (err2 == nil) != (err == nil) || !reflect.DeepEqual(same, events) {
			t.Fatalf("%+v, %+v, %v; as MessagePack %x: %+v, %+v, %v", batch, events, err, packed, b, same, err2)
		}
		for i := range events {
			checkEvent(t, &events[i])
		}
	})
}

// trim leaves out white space as JSON has it, which is less than Unicode's.
func trim(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// lines makes one list of values that follow each other, as far as they are
// values.
func lines(text []byte) []byte {
	list := []byte{'['}
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var v json.RawMessage
		if d.Decode(&v) != nil {
			break
		}
		list = append(append(list, v...), ',')
	}
	if len(trim(text[d.InputOffset():])) != 0 {
		return nil
	}
	return append(bytes.TrimSuffix(list, []byte{','}), ']')
}

// repack reads one value and writes it as MessagePack, fields in their order.
// It returns false for text that is not one value, or whose numbers or nesting
// the two sides may see differently.
func repack(text []byte) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	out, ok := repackValue(nil, d, 0)
	if !ok || len(trim(text[d.InputOffset():])) != 0 {
		return nil, false
	}
	return out, true
}

func repackValue(out []byte, d *json.Decoder, depth int) ([]byte, bool) {
	token, err := d.Token()
	if err != nil {
		return nil, false
	}
	switch v := token.(type) {
	case nil:
		return msgp.AppendNil(out), true
	case bool:
		return msgp.AppendBool(out, v), true
	case string:
		return msgp.AppendString(out, v), true
	case json.Number:
		var i int64
		var u uint64
		switch {
		case len(v) > 60:
			return nil, false
		case json.Unmarshal([]byte(v), &i) == nil:
			return msgp.AppendInt64(out, i), true
		case json.Unmarshal([]byte(v), &u) == nil:
			return msgp.AppendUint64(out, u), true
		}
		x, err := v.Float64()
		return msgp.AppendFloat64(out, x), err == nil && !math.IsInf(x, 0)
	case json.Delim:
		if depth == jsonDepth {
			return nil, false
		}
		n := uint32(0)
		var body []byte
		ok := true
		for ; d.More(); n++ {
			if v == '{' {
				if body, ok = repackValue(body, d, depth); !ok {
					return nil, false
				}
			}
			if body, ok = repackValue(body, d, depth+1); !ok {
				return nil, false
			}
		}
		if _, err := d.Token(); err != nil {
			return nil, false
		}
		if v == '{' {
			return append(msgp.AppendMapHeader(out, n), body...), true
		}
		return append(msgp.AppendArrayHeader(out, n), body...), true
	}
	return nil, false
}
