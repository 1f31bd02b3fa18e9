package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/tree"
)

var sourceKeys = []string{
	"id", "model", "endpoint", "shards", "push", "replay", "ranks", "protocol", "topic",
	"policy", "main_group", "first_seq", "python_root", "mm_ids", "hint",
}

// Words of the enumerations that only the file has; those of the engine are
// checked by the engine.
var (
	policies = []string{tree.Copies: "copies", tree.Set: "set"}
	mmIDs    = []string{"auto", "bare"}
)

func (r *reader) sources(c *Config, n ast.Node) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, "sources", "a list of sources, each with id, model and endpoint")
		return
	}
	for i, v := range list.Values {
		c.Sources = append(c.Sources, r.source(v, fmt.Sprintf("sources[%d]", i)))
	}
}

// source reads one entry. Types are checked here; what the values may be is
// the engine's to say, in its own words, once all of them are readable.
func (r *reader) source(n ast.Node, path string) engine.Source {
	s := defaultSource()
	at := map[string]ast.Node{}
	before := len(r.problems)
	r.mapping(n, path, sourceKeys, func(key string, v ast.Node) bool {
		at[key] = v
		p := join(path, key)
		switch key {
		case "id":
			r.text(v, p, &s.ID)
		case "model":
			r.text(v, p, &s.Model)
		case "endpoint":
			r.text(v, p, &s.Endpoint)
		case "shards":
			r.endpoints(v, p, &s.Shards)
		case "push":
			r.truth(v, p, &s.Push)
		case "replay":
			r.text(v, p, &s.Replay)
		case "ranks":
			r.whole(v, p, 1, engine.DefaultMaxRanks, func(n uint64) { s.Ranks = int(n) })
		case "protocol":
			r.text(v, p, &s.Protocol)
		case "topic":
			r.text(v, p, &s.Topic)
		case "policy":
			r.word(v, p, policies, func(i int) { s.Policy = tree.Policy(i) })
		case "main_group":
			r.whole(v, p, 0, math.MaxInt32, func(n uint64) { s.MainGroup = int(n) })
		case "first_seq":
			r.whole(v, p, 0, 1, func(n uint64) { s.FirstSeq = n })
		case "python_root":
			root := true
			r.truth(v, p, &root)
			s.NoPythonRoot = !root
		case "mm_ids":
			r.word(v, p, mmIDs, func(i int) { s.BareMM = mmIDs[i] == "bare" })
		case "hint":
			s.Hint = r.hint(v, p)
		default:
			return false
		}
		return true
	})
	if len(r.problems) == before {
		r.engine(n, path, &s, at)
	}
	return s
}

// engine lets the engine judge a source, and says where in the file what it
// found stands.
func (r *reader) engine(n ast.Node, path string, s *engine.Source, at map[string]ast.Node) {
	err := s.Validate()
	if err == nil {
		return
	}
	var f *engine.FieldError
	if !errors.As(err, &f) {
		r.add(n, path, "", err)
		return
	}
	field := f.Field
	if i := strings.IndexAny(field, ".["); i >= 0 {
		field = field[:i]
	}
	if v := at[field]; v != nil {
		n = v
	}
	// Some of the engine's words begin with the value, which stands there already.
	r.add(n, join(path, f.Field), f.Value+":", errors.New(strings.TrimPrefix(f.Want, f.Value+" ")))
}

// endpoints reads a list of TP shard endpoints.
func (r *reader) endpoints(n ast.Node, path string, dst *[]string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, path, "a list with one endpoint per TP shard")
		return
	}
	if len(list.Values) == 0 {
		r.add(n, path, "", bad("is empty", "one endpoint per TP shard"))
	}
	for i, v := range list.Values {
		var e string
		r.text(v, fmt.Sprintf("%s[%d]", path, i), &e)
		*dst = append(*dst, e)
	}
}

func (r *reader) hint(n ast.Node, path string) *engine.HintConfig {
	h := &engine.HintConfig{}
	r.mapping(n, path, []string{"worker_type", "endpoint", "stride"}, func(key string, v ast.Node) bool {
		p := join(path, key)
		switch key {
		case "worker_type":
			r.text(v, p, &h.WorkerType)
		case "endpoint":
			r.text(v, p, &h.Endpoint)
		case "stride":
			r.whole(v, p, 1, math.MaxUint16, func(n uint64) { h.Stride = int(n) })
		default:
			return false
		}
		return true
	})
	return h
}

// text reads a string.
func (r *reader) text(n ast.Node, path string, dst *string) {
	if s, ok := scalar(n, text); ok {
		*dst = s
	} else {
		r.wrongType(n, path, text.String())
	}
}

// truth reads true or false.
func (r *reader) truth(n ast.Node, path string, dst *bool) {
	if s, ok := scalar(n, flag); ok {
		*dst = s == "true"
	} else {
		r.wrongType(n, path, flag.String())
	}
}

// word reads one of words and passes on which.
func (r *reader) word(n ast.Node, path string, words []string, set func(i int)) {
	s, ok := scalar(n, text)
	if !ok {
		r.wrongType(n, path, choice(words))
		return
	}
	for i, w := range words {
		if s == w {
			set(i)
			return
		}
	}
	r.add(n, path, strconv.Quote(s), oneOf(s, words))
}

// whole reads a whole number within [least, most].
func (r *reader) whole(n ast.Node, path string, least, most uint64, set func(uint64)) {
	want := fmt.Sprintf("a whole number from %d", least)
	if most < math.MaxInt32 {
		want += fmt.Sprintf(" to %d", most)
	}
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		r.wrongType(n, path, want)
		return
	}
	v, err := strconv.ParseUint(fmt.Sprint(i.Value), 10, 64)
	if err != nil || v < least || v > most {
		r.add(n, path, i.Token.Value, bad("is out of range", want))
		return
	}
	set(v)
}
