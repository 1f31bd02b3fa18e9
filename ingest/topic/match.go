package topic

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// MaxName is the longest source or model that a topic may name, in bytes.
const MaxName = 256

// Names is what a topic says. Source and Model are parts of the topic that was
// matched, and as long-lived as that; nil if the template does not name them.
type Names struct {
	Source []byte
	Model  []byte
	Rank   int // -1 if the template names none
}

// Mismatch says why a topic is not one of a template's. It is an error, so that
// it can be counted by its value and printed.
type Mismatch uint8

// The reasons.
const (
	Matched    Mismatch = iota
	TooLong             // longer than MaxTopic
	OtherText           // text of the template is not there
	EmptyField          // a placeholder stands for nothing
	LongName            // source or model of more than MaxName bytes
	BadName             // source or model that is not UTF-8, or has control characters
	BadRank             // a rank that is no decimal number below 65536
	NumMismatches
)

var mismatches = [NumMismatches]string{
	Matched:    "matched",
	TooLong:    "too_long",
	OtherText:  "other_text",
	EmptyField: "empty_field",
	LongName:   "long_name",
	BadName:    "bad_name",
	BadRank:    "bad_rank",
}

// String returns the reason as it stands in counters.
func (m Mismatch) String() string {
	if m < NumMismatches {
		return mismatches[m]
	}
	return fmt.Sprintf("mismatch %d", uint8(m))
}

// Match reads a topic. It returns Matched, or why there are no names.
func (t *Template) Match(topic []byte) (Names, Mismatch) {
	n := Names{Rank: -1}
	if len(topic) > MaxTopic {
		return n, TooLong
	}
	if len(t.parts) == 0 {
		return n, Matched
	}
	rest, ok := cut(topic, t.parts[0].text)
	if !ok {
		return n, OtherText
	}
	for i := range t.parts {
		f := t.parts[i].field
		if f == fieldNone {
			break // text at the end, which has been cut off
		}
		// Up to the text that follows, where it stands first; text at the very
		// end must be the end, so there the last counts.
		value := rest
		switch next := t.following(i); {
		case len(rest) == 0:
			return n, EmptyField
		case next == "":
			rest = nil
		case i+2 == len(t.parts) && t.parts[i+1].field == fieldNone:
			if !bytes.HasSuffix(rest, []byte(next)) {
				return n, OtherText
			}
			value, rest = rest[:len(rest)-len(next)], nil
		default:
			at := bytes.Index(rest, []byte(next))
			if at < 0 {
				return n, OtherText
			}
			value, rest = rest[:at], rest[at+len(next):]
		}
		if len(value) == 0 {
			return n, EmptyField
		}
		if m := n.set(f, value); m != Matched {
			return n, m
		}
	}
	if len(rest) > 0 {
		return n, OtherText
	}
	return n, Matched
}

// following is the text behind placeholder i, "" at the end.
func (t *Template) following(i int) string {
	if i+1 < len(t.parts) {
		return t.parts[i+1].text
	}
	return ""
}

func cut(p []byte, text string) (rest []byte, ok bool) {
	if len(p) < len(text) || string(p[:len(text)]) != text {
		return nil, false
	}
	return p[len(text):], true
}

// set takes the value of one placeholder.
func (n *Names) set(f field, value []byte) Mismatch {
	switch f {
	case fieldSource, fieldModel:
		if len(value) > MaxName {
			return LongName
		}
		if !clean(value) {
			return BadName
		}
		if f == fieldSource {
			n.Source = value
		} else {
			n.Model = value
		}
	case fieldRank:
		rank := 0
		for _, c := range value {
			if c < '0' || c > '9' || rank > 0xffff {
				return BadRank
			}
			rank = 10*rank + int(c-'0')
		}
		if rank > 0xffff {
			return BadRank
		}
		n.Rank = rank
	}
	return Matched
}

// clean reports whether a name can be shown: what comes from the network ends
// up in logs and in answers.
func clean(p []byte) bool {
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		if r == utf8.RuneError && size <= 1 || r < ' ' || r >= 0x7f && r < 0xa0 {
			return false
		}
		p = p[size:]
	}
	return true
}
