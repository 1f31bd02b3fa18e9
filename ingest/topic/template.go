package topic

import (
	"fmt"
	"strings"
)

// MaxTemplate is the longest template, and MaxTopic the longest topic, in bytes.
const (
	MaxTemplate = 1 << 10
	MaxTopic    = 4 << 10
)

// Fields are the placeholders a template may have.
const Fields = "{source}, {model}, {rank} or {any}"

type field uint8

const (
	fieldNone field = iota // the end of the template
	fieldSource
	fieldModel
	fieldRank
	fieldAny
)

var fieldNames = map[string]field{"source": fieldSource, "model": fieldModel, "rank": fieldRank, "any": fieldAny}

// part is a text and the placeholder behind it.
type part struct {
	text  string
	field field
}

// Template is what topics look like. Make one with Parse; the zero value matches
// every topic and names nothing.
type Template struct {
	text  string
	parts []part
	has   [fieldAny + 1]bool
}

// SyntaxError says what is wrong with a template, and where.
type SyntaxError struct {
	Template string
	Offset   int    // in bytes
	What     string // what is wrong there
	Want     string // what would be right
}

// Error reads: topic template "kv@{pod}", offset 3: {pod} is no placeholder; want {source}, …
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("topic template %.64q, offset %d: %s; want %s", e.Template, e.Offset, e.What, e.Want)
}

// Parse compiles a template. The error is a *SyntaxError. An empty template
// matches every topic and names nothing.
func Parse(text string) (*Template, error) {
	t := &Template{text: text}
	bad := func(at int, what, want string) (*Template, error) {
		return nil, &SyntaxError{Template: text, Offset: at, What: what, Want: want}
	}
	if len(text) > MaxTemplate {
		return bad(MaxTemplate, fmt.Sprintf("%d bytes are too many", len(text)), fmt.Sprintf("at most %d", MaxTemplate))
	}
	var literal strings.Builder
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case (c == '{' || c == '}') && strings.HasPrefix(text[i+1:], string(c)):
			literal.WriteByte(c)
			i += 2
		case c == '}':
			return bad(i, "} closes nothing", "}} for a brace that is part of the topic")
		case c != '{':
			literal.WriteByte(c)
			i++
		default:
			name, _, closed := strings.Cut(text[i+1:], "}")
			if !closed {
				return bad(i, "{ is not closed", Fields+", or {{ for a brace that is part of the topic")
			}
			f, known := fieldNames[name]
			switch {
			case !known:
				return bad(i, fmt.Sprintf("{%.32s} is no placeholder", name), Fields)
			case t.has[f] && f != fieldAny:
				return bad(i, fmt.Sprintf("{%s} stands twice", name), "it once, and {any} for what does not matter")
			case len(t.parts) > 0 && literal.Len() == 0:
				return bad(i, fmt.Sprintf("nothing tells {%s} from the placeholder in front of it", name), "a text between them, as in {source}@{model}")
			}
			t.has[f] = true
			t.parts = append(t.parts, part{literal.String(), f})
			literal.Reset()
			i += len(name) + 2
		}
	}
	if literal.Len() > 0 {
		t.parts = append(t.parts, part{text: literal.String()})
	}
	return t, nil
}

// String returns the template as it was given.
func (t *Template) String() string { return t.text }

// Prefix is what all topics of the template begin with: the subscription.
func (t *Template) Prefix() string {
	if len(t.parts) == 0 {
		return ""
	}
	return t.parts[0].text
}

// NamesSource, NamesModel and NamesRank report whether topics say these.
func (t *Template) NamesSource() bool { return t.has[fieldSource] }

// NamesModel reports whether topics say the model.
func (t *Template) NamesModel() bool { return t.has[fieldModel] }

// NamesRank reports whether topics say the dp rank.
func (t *Template) NamesRank() bool { return t.has[fieldRank] }
