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
	"id", "model", "endpoint", "shards", "push", "discover", "replay", "shard_replays", "plain",
	"ranks", "protocol", "topic", "policy", "main_group", "first_seq", "python_root", "mm_ids",
	"block_size", "zero_parent", "hybrid", "extra_keys", "unsound", "hint",
}

// Words of the enumerations that only the file has; those of the engine are
// checked by the engine.
var (
	policies = []string{tree.Copies: "copies", tree.Set: "set"}
	mmIDs    = []string{"auto", "bare"}
	zeroes   = []string{"root", "unknown"}
	visibles = []string{"visible", "invisible"}
	unsounds = []string{"refuse", "take"}
)

func (r *reader) sources(c *Config, n ast.Node) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, "sources", "a list of sources, each with id, model and endpoint")
		return
	}
	for i, v := range list.Values {
		at := places{}
		before := len(r.problems)
		path := fmt.Sprintf("sources[%d]", i)
		s := r.source(v, path, "", at)
		if len(r.problems) == before {
			r.engine(path, s.Validate(), at)
		}
		c.Sources = append(c.Sources, s)
	}
}

// places are where in the file fields stand, by the engine's name for them: the
// whole, under "", and its fields, such as hint or sources[1].model.
type places map[string]ast.Node

// find returns the node of a field, or of what it is part of.
func (p places) find(field string) ast.Node {
	for field != "" && p[field] == nil {
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return p[field]
}

// source reads one entry; name is what the engine calls it. Types are checked
// here; what the values may be is the engine's to say, in its own words, once
// all of them are readable.
func (r *reader) source(n ast.Node, path, name string, at places) engine.Source {
	s := defaultSource()
	at[name] = n
	r.mapping(n, path, sourceKeys, func(key string, v ast.Node) bool {
		at[join(name, key)] = v
		p := join(path, key)
		switch key {
		case "id":
			r.text(v, p, &s.ID)
		case "endpoint":
			r.text(v, p, &s.Endpoint)
		case "shards":
			r.endpoints(v, p, "TP shard", &s.Shards)
		case "push":
			r.truth(v, p, &s.Push)
		case "discover":
			s.Discover = r.discovery(v, p, join(name, key), at)
		case "replay":
			r.text(v, p, &s.Replay)
		case "shard_replays":
			r.endpoints(v, p, "TP shard", &s.ShardReplays)
		case "plain":
			s.Plain = r.plain(v, p)
		case "ranks":
			r.whole(v, p, 1, engine.DefaultMaxRanks, func(n uint64) { s.Ranks = int(n) })
		case "topic":
			r.text(v, p, &s.Topic)
		case "hint":
			s.Hint = r.hint(v, p)
		default:
			return r.dialect(key, v, p, &s)
		}
		return true
	})
	return s
}

// dialectKeys are what the publishers of a listener have in common.
var dialectKeys = []string{"model", "protocol", "policy", "main_group", "first_seq", "python_root", "mm_ids", "block_size", "zero_parent", "hybrid", "extra_keys", "unsound"}

// dialect reads a key of dialectKeys; false if it is none.
func (r *reader) dialect(key string, v ast.Node, p string, s *engine.Source) bool {
	switch key {
	case "model":
		r.text(v, p, &s.Model)
	case "protocol":
		r.text(v, p, &s.Protocol)
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
	case "block_size":
		r.whole(v, p, 0, 1<<16, func(n uint64) { s.BlockSize = int(n) })
	case "zero_parent":
		r.word(v, p, zeroes, func(i int) { s.ZeroParentUnknown = zeroes[i] == "unknown" })
	case "hybrid":
		r.truth(v, p, &s.Hybrid)
	case "extra_keys":
		r.word(v, p, visibles, func(i int) { s.InvisibleKeys = visibles[i] == "invisible" })
	case "unsound":
		r.word(v, p, unsounds, func(i int) { s.TakeUnsound = unsounds[i] == "take" })
	default:
		return false
	}
	return true
}

// engine reports what the engine says about what was read, and where in the file
// that stands.
func (r *reader) engine(path string, err error, at places) {
	for _, err := range each(err) {
		f, ok := errors.AsType[*engine.FieldError](err)
		if !ok {
			r.add(at[""], path, "", err)
			continue
		}
		// Some of the engine's words begin with the value, which stands there already.
		r.add(at.find(f.Field), join(path, f.Field), f.Value+":", errors.New(strings.TrimPrefix(f.Want, f.Value+" ")))
	}
}

// each returns the errors that were joined.
func each(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// endpoints reads a list of endpoints, one for each of what.
func (r *reader) endpoints(n ast.Node, path, what string, dst *[]string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, path, "a list with one endpoint per "+what)
		return
	}
	if len(list.Values) == 0 {
		r.add(n, path, "", bad("is empty", "one endpoint per "+what))
	}
	for i, v := range list.Values {
		var e string
		r.text(v, fmt.Sprintf("%s[%d]", path, i), &e)
		*dst = append(*dst, e)
	}
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
