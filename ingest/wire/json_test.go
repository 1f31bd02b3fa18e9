package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// valueOf reads JSON text by way of its MessagePack.
func valueOf(t *testing.T, text string) (any, error) {
	t.Helper()
	var tr transcoder
	b, err := tr.run([]byte(text))
	if err != nil {
		return nil, err
	}
	c := cursor{b: b}
	v := c.value(0)
	if c.over(); c.bad() {
		t.Fatalf("%s: %x: %v", text, b, c.err())
	}
	if len(b) > 5*len(text)/2+9 {
		t.Fatalf("%d bytes of %d", len(b), len(text))
	}
	return v, nil
}

func TestJSONValues(t *testing.T) {
	for _, c := range []struct {
		text string
		want any
	}{
		{`null`, nil}, {`true`, true}, {` false `, false},
		{`0`, int64(0)}, {`-0`, int64(0)}, {`127`, int64(127)}, {`-32`, int64(-32)}, {`-33`, int64(-33)},
		{`9223372036854775807`, int64(1<<63 - 1)}, {`18446744073709551615`, uint64(1<<64 - 1)},
		{`-9223372036854775808`, int64(-1 << 63)},
		{`18446744073709551616`, 18446744073709551616.0}, {`-9223372036854775809`, -9223372036854775809.0},
		{`1.5`, 1.5}, {`-2e3`, -2000.0}, {`1E-2`, 0.01}, {`10.0`, 10.0}, {`0e0`, 0.0},
		{`""`, ""}, {`"a\"\\\/\b\f\n\r\t"`, "a\"\\/\b\f\n\r\t"}, {`"\u00e9é"`, "éé"},
		{`"\ud83d\ude00"`, "😀"}, {`"\ud83dx"`, "�x"}, {`"\ude00"`, "�"}, {`"\ud83d\u0041"`, "�A"}, {`"\ud83d\ud83d\ude00"`, "�😀"},
		{`"` + strings.Repeat("x", 40) + `"`, strings.Repeat("x", 40)},
		{`[]`, []any{}}, {`{ }`, map[string]any{}}, {`[ 1 , [ ] ,{"a":[2]}]`, []any{int64(1), []any{}, map[string]any{"a": []any{int64(2)}}}},
		{`{"a":{"b":{}},"c":null}`, map[string]any{"a": map[string]any{"b": map[string]any{}}, "c": nil}},
		{"{\"a\":1}\n{\"a\":2}\n", []any{map[string]any{"a": int64(1)}, map[string]any{"a": int64(2)}}},
		{"1 2", []any{int64(1), int64(2)}},
	} {
		got, err := valueOf(t, c.text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %#v, %v, want %#v", c.text, got, err, c.want)
		}
	}
}

func TestJSONErrors(t *testing.T) {
	for _, c := range []struct {
		text string
		why  Reason
		at   int
	}{
		{"", ReasonTruncated, 0}, {"  ", ReasonTruncated, 2},
		{"[", ReasonTruncated, 1}, {"[1", ReasonTruncated, 2}, {"[1,", ReasonTruncated, 3}, {`{"a`, ReasonTruncated, 3},
		{`{"a"`, ReasonTruncated, 4}, {`{"a":`, ReasonTruncated, 5}, {`{"a":1`, ReasonTruncated, 6}, {`{"a":1,`, ReasonTruncated, 7},
		{"[1,]", ReasonInvalidByte, 3}, {`{"a":1,}`, ReasonInvalidByte, 7}, {"[1}", ReasonInvalidByte, 2}, {`{1:2}`, ReasonInvalidByte, 1},
		{`{"a" 1}`, ReasonInvalidByte, 5}, {`["a" "b"]`, ReasonInvalidByte, 5}, {"]", ReasonInvalidByte, 0},
		{"nul", ReasonTruncated, 3}, {"nulx", ReasonInvalidByte, 3}, {"[True]", ReasonInvalidByte, 1},
		{"01", ReasonNone, 0}, // two values
		{"[01]", ReasonInvalidByte, 2}, {"-", ReasonTruncated, 1}, {"[-a]", ReasonInvalidByte, 2}, {"1.", ReasonTruncated, 2}, {"[1.a]", ReasonInvalidByte, 3},
		{"1e", ReasonTruncated, 2}, {"[+1]", ReasonInvalidByte, 1}, {"[.5]", ReasonInvalidByte, 1}, {"NaN", ReasonInvalidByte, 0},
		{"\"a\nb\"", ReasonInvalidByte, 2}, {`"\x"`, ReasonInvalidByte, 2}, {`"\u12g4"`, ReasonInvalidByte, 5}, {`"\u12`, ReasonTruncated, 5},
		{strings.Repeat("7", 65), ReasonInvalidByte, 0},
		{strings.Repeat("[", maxJSONDepth) + "1" + strings.Repeat("]", maxJSONDepth), ReasonNone, 0},
		{strings.Repeat("[", maxJSONDepth+1), ReasonNesting, maxJSONDepth},
	} {
		_, err := valueOf(t, c.text)
		var e *Error
		switch {
		case c.why == ReasonNone:
			if err != nil {
				t.Errorf("%q: %v", c.text, err)
			}
		case !errors.As(err, &e) || e.Reason != c.why || e.Offset != c.at || e.Len != len(c.text):
			t.Errorf("%q: %v, want %v at %d", c.text, err, c.why, c.at)
		}
	}
}

// TestJSONLikeOthers compares with the standard library on random text, whole
// and damaged.
func TestJSONLikeOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	var build func(depth int) any
	build = func(depth int) any {
		switch k := rng.IntN(8); {
		case k == 0:
			return nil
		case k == 1:
			return rng.IntN(2) == 0
		case k == 2:
			return int64(rng.Uint64()) >> rng.IntN(64)
		case k == 3:
			return rng.Uint64()
		case k == 4:
			return rng.NormFloat64()
		case k == 5 || depth == 0:
			return []string{"", "é\"\\\n", "type", "<&>", "\u2028"}[rng.IntN(5)]
		case k == 6:
			list := make([]any, rng.IntN(4))
			for i := range list {
				list[i] = build(depth - 1)
			}
			return list
		}
		m := map[string]any{}
		for range rng.IntN(4) {
			m[[]string{"a", "b", "ö"}[rng.IntN(3)]] = build(depth - 1)
		}
		return m
	}
	same, refused := 0, 0
	for range 5000 {
		text, err := json.Marshal(build(5))
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			text[rng.IntN(len(text))] = "[]{},:\"\\0 x"[rng.IntN(11)]
		}
		if !utf8.Valid(text) {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var want any
		valid := json.Valid(text)
		got, err := valueOf(t, string(text))
		switch {
		case !valid:
			if err == nil && d.Decode(&want) != nil {
				t.Fatalf("%s: taken", text)
			}
			refused++
		case err != nil:
			t.Fatalf("%s: %v", text, err)
		default:
			if err := d.Decode(&want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(plainNumbers(want), got) {
				t.Fatalf("%s: %#v", text, got)
			}
			same++
		}
	}
	if same < 1000 || refused < 1000 {
		t.Errorf("%d the same, %d refused", same, refused)
	}
}

func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		var i int64
		var u uint64
		if json.Unmarshal([]byte(v), &i) == nil {
			return i
		}
		if json.Unmarshal([]byte(v), &u) == nil {
			return u
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// asJSON is a value of a test as JSON, false if JSON has no word for it.
func asJSON(b *bytes.Buffer, v any) bool {
	switch v := v.(type) {
	case raw, []byte:
		return false
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			if !asJSON(b, x) {
				return false
			}
		}
		b.WriteByte(']')
		return true
	case pairs:
		b.WriteByte('{')
		for i, x := range v {
			if _, ok := x.(string); i%2 == 0 && !ok {
				return false
			}
			if i > 0 {
				b.WriteByte(",:"[i%2])
			}
			if !asJSON(b, x) {
				return false
			}
		}
		b.WriteByte('}')
		return true
	}
	text, err := json.Marshal(v)
	b.Write(text)
	return err == nil
}

// TestJSONMeansTheSame plays random batches of every dialect in both forms.
func TestJSONMeansTheSame(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(8, 9))}
	compared := 0
	var d Decoder
	for range 3000 {
		batch := []any{1.5, []any{g.event(), g.event()}, g.IntN(9)}
		var text bytes.Buffer
		if !asJSON(&text, batch) {
			continue // it has bytes in it
		}
		compared++
		wantBatch, want, err := Describe(pack(batch))
		if err != nil {
			t.Fatal(err)
		}
		gotBatch, got, err := Describe(text.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", text.Bytes(), err)
		}
		if wantBatch != gotBatch || !reflect.DeepEqual(want, got) {
			t.Fatalf("%s:\n%+v\n%+v", text.Bytes(), want, got)
		}
		if err := Check(text.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := run(&d, text.Bytes()[:text.Len()-1]); err == nil {
			t.Fatalf("%s without its end was taken", text.Bytes())
		}
	}
	if compared < 100 {
		t.Errorf("only %d batches", compared)
	}
}
