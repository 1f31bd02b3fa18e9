package validate

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readAll reads the document that the tests are about.
func readAll(text string) (*Object, map[string]any) {
	o := ReadObject([]byte(text))
	got := map[string]any{"text": o.Text("text"), "texts": o.Texts("texts"), "names": o.ByName("names"), "raw": o.Raw("raw")}
	got["n"], _ = o.Uint("n", 1, math.MaxUint64)
	for _, sub := range o.Objects("list") {
		sub.Require("rank")
		r, _ := sub.Uint("rank", 0, 7)
		got["rank"] = r
		sub.End()
	}
	o.End()
	return o, got
}

func TestObject(t *testing.T) {
	o, got := readAll(`{"text":"a\u00e9","texts":["b","c"],"names":{"0":"d"},"raw":{"x":1.5},"n":"18446744073709551615","list":[{"rank":7}]}`)
	if err := o.Err(); err != nil {
		t.Fatal(err)
	}
	if got["text"] != "aé" || !slices.Equal(got["texts"].([]string), []string{"b", "c"}) || !maps.Equal(got["names"].(map[string]string), map[string]string{"0": "d"}) ||
		got["n"] != uint64(math.MaxUint64) || got["rank"] != uint64(7) {
		t.Errorf("read %v", got)
	}
	if o, got := readAll(` {} `); o.Err() != nil || got["texts"].([]string) != nil || got["names"].(map[string]string) != nil {
		t.Errorf("empty: %v, %v", o.Err(), got)
	}
}

func TestObjectIntegersAreExact(t *testing.T) {
	for _, n := range []uint64{1, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<63 - 1, 1 << 63, math.MaxUint64} {
		text := strconv.FormatUint(n, 10)
		for _, v := range []string{text, `"` + text + `"`} {
			o, got := readAll(`{"n":` + v + `}`)
			if o.Err() != nil || got["n"] != n {
				t.Errorf("%s is read as %v, %v", v, got["n"], o.Err())
			}
		}
	}
}

func TestObjectRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text, field, value string
		refusal
	}{
		{"nothing", ``, "body", "", refusal{JSONSyntax, []string{"JSON"}}},
		{"no JSON", `{"text"`, "text", "", refusal{JSONSyntax, nil}},
		{"nameless", `{"":1}`, `""`, "1", refusal{JSONUnknown, nil}},
		{"cut off", `{"text":"a"`, "body", "", refusal{JSONSyntax, nil}},
		{"bad value", `{"text":x}`, "text", "", refusal{JSONSyntax, nil}},
		{"trailing", `{} {}`, "body", "", refusal{JSONSyntax, []string{"follows"}}},
		{"trailing junk", `{}x`, "body", "", refusal{JSONSyntax, []string{"follows"}}},
		{"a list", `[]`, "body", "[", refusal{JSONType, []string{"no object"}}},
		{"null", `null`, "body", "<nil>", refusal{JSONType, []string{"no object"}}},
		{"text is a number", `{"text":1}`, "text", "1", refusal{JSONType, []string{"a string"}}},
		{"text is null", `{"text":null}`, "text", "null", refusal{JSONType, []string{"a string"}}},
		{"texts is a string", `{"texts":"a"}`, "texts", `"a"`, refusal{JSONType, []string{"a list of strings"}}},
		{"one of texts", `{"texts":["a",1]}`, "texts[1]", "1", refusal{JSONType, []string{"a list of strings"}}},
		{"one of names", `{"names":{"0":1}}`, "names.0", "1", refusal{JSONType, []string{"a string"}}},
		{"names is a list", `{"names":[]}`, "names", "[", refusal{JSONType, []string{"a JSON object"}}},
		{"raw is a string", `{"raw":"x"}`, "raw", "x", refusal{JSONType, []string{"object"}}},
		{"list is an object", `{"list":{}}`, "list", "{}", refusal{JSONType, []string{"a list of objects"}}},
		{"one of list", `{"list":[1]}`, "list[0]", "1", refusal{JSONType, []string{"no object"}}},
		{"unknown", `{"texst":"a"}`, "texst", `"a"`, refusal{JSONUnknown, []string{"list, n, names, raw, text, texts"}}},
		{"another case", `{"Text":"a"}`, "Text", `"a"`, refusal{JSONUnknown, nil}},
		{"unknown inside", `{"list":[{"rank":1,"x":2}]}`, "list[0].x", "2", refusal{JSONUnknown, []string{"rank"}}},
		{"twice", `{"text":"a","text":"b"}`, "text", `"b"`, refusal{JSONTwice, nil}},
		{"twice inside", `{"list":[{"rank":1,"rank":1}]}`, "list[0].rank", "1", refusal{JSONTwice, nil}},
		{"twice in names", `{"names":{"0":"a","0":"b"}}`, "names.0", `"b"`, refusal{JSONTwice, nil}},
		{"missing", `{"list":[{}]}`, "list[0].rank", "", refusal{JSONMissing, []string{"not stated"}}},
		{"too large", `{"list":[{"rank":8}]}`, "list[0].rank", "8", refusal{JSONNumber, []string{"0 … 7"}}},
		{"truth value", `{"n":true}`, "n", "true", refusal{JSONType, []string{"an integer"}}},
		{"float", `{"n":1.0}`, "n", "1.0", refusal{JSONNumber, nil}},
		{"exponent", `{"n":1e3}`, "n", "1e3", refusal{JSONNumber, nil}},
		{"negative", `{"n":-1}`, "n", "-1", refusal{JSONNumber, nil}},
		{"zero", `{"n":0}`, "n", "0", refusal{JSONNumber, []string{"1 … "}}},
		{"over 64 bits", `{"n":18446744073709551616}`, "n", "18446744073709551616", refusal{JSONNumber, nil}},
		{"text of a number", `{"n":"0x10"}`, "n", "0x10", refusal{JSONNumber, nil}},
		{"leading zero", `{"n":"01"}`, "n", "01", refusal{JSONNumber, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, _ := readAll(c.text)
			c.check(t, o.Err(), c.field, c.value)
		})
	}
	cut := ReadObject([]byte(`{"text": [`))
	cut.Require("text", "list")
	if list, ok := cut.Err().(Errors); !ok || len(list) != 1 || list[0].Rule != JSONSyntax {
		t.Errorf("of what was cut off: %v", cut.Err())
	}
	o, _ := readAll(`{"text":"` + strings.Repeat("x", 1<<16) + `","text":1,"z":1}`)
	if list, ok := o.Err().(Errors); !ok || len(list) != 2 || len(list.Error()) > 1000 {
		t.Errorf("two problems: %.300v", o.Err())
	}
}
