package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAppendString reads what it writes back with another library. Every byte
// that is no UTF-8 is a U+FFFD of its own, as where Go ranges over a string.
func TestAppendString(t *testing.T) {
	texts := []string{"", "plain", `"\/` + "\b\f\n\r\t", "é – 漢 🙂", "\u2028", "bad \xff\xc3 bytes", strings.Repeat("long ", 100)}
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}), string(rune(c)))
	}
	for _, s := range texts {
		b := AppendString([]byte("x"), s)
		var got string
		if err := json.Unmarshal(b[1:], &got); err != nil || got != string([]rune(s)) {
			t.Errorf("%q is written as %s, read as %q, %v", s, b[1:], got, err)
		}
	}
	dst := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { AppendString(dst, texts[2]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
