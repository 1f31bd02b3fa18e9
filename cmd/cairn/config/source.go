package config

import (
	"fmt"
	"math"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

var sourceKeys = []string{
	"id", "model", "endpoint", "shards", "replay", "ranks", "protocol", "topic",
	"policy", "main_group", "first_seq", "python_root", "hint",
}

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

// source reads one entry; what belongs together inside it is checked here,
// where the position in the file is still known.
func (r *reader) source(n ast.Node, path string) Source {
	s := defaultSource()
	at := map[string]ast.Node{}
	r.mapping(n, path, sourceKeys, func(key string, v ast.Node) bool {
		at[key] = v
		p := join(path, key)
		switch key {
		case "id":
			r.text(v, p, &s.ID, checkName)
		case "model":
			r.text(v, p, &s.Model, checkName)
		case "endpoint":
			r.text(v, p, &s.Endpoint, func(e string) error { return checkEndpoint(e, 1) })
		case "shards":
			r.endpoints(v, p, &s.Shards)
		case "replay":
			r.text(v, p, &s.Replay, func(e string) error { return checkEndpoint(e, 1) })
		case "ranks":
			r.whole(v, p, 1, MaxRanks, func(n uint64) { s.Ranks = int(n) })
		case "protocol":
			r.text(v, p, &s.Protocol, func(name string) error { return oneOf(name, Protocols) })
		case "topic":
			r.text(v, p, &s.Topic, func(t string) error {
				if len(t) > MaxTopicBytes {
					return bad(fmt.Sprintf("is %d bytes long", len(t)), fmt.Sprintf("a prefix of at most %d bytes", MaxTopicBytes))
				}
				return nil
			})
		case "policy":
			r.text(v, p, &s.Policy, func(name string) error { return oneOf(name, Policies) })
		case "main_group":
			r.whole(v, p, 0, math.MaxInt32, func(n uint64) { s.MainGroup = int(n) })
		case "first_seq":
			r.whole(v, p, 0, math.MaxUint64-1, func(n uint64) { s.FirstSeq = n })
		case "python_root":
			if b, ok := scalar(v, flag); ok {
				s.PythonRoot = b == "true"
			} else {
				r.wrongType(v, p, flag.String())
			}
		case "hint":
			s.Hint = r.hint(v, p)
		default:
			return false
		}
		return true
	})
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		r.together(n, path, &s, at)
	}
	return s
}

// together checks the keys of one source against each other.
func (r *reader) together(n ast.Node, path string, s *Source, at map[string]ast.Node) {
	for _, key := range []string{"id", "model"} {
		if at[key] == nil {
			r.add(n, join(path, key), "", bad("is missing", "every source has an id and a model"))
		}
	}
	endpoint, shards := at["endpoint"], at["shards"]
	switch {
	case endpoint == nil && shards == nil:
		r.add(n, join(path, "endpoint"), "", bad("is missing", "endpoint, or shards with one endpoint per TP shard"))
	case endpoint != nil && shards != nil:
		r.add(shards, join(path, "shards"), "", bad("stands beside endpoint", "one of the two: endpoint for an aggregated stream, shards for one stream per TP shard"))
	}
	if s.Ranks <= 1 {
		return
	}
	check := func(key string, n ast.Node, e string) {
		if err := checkEndpoint(e, s.Ranks); n != nil && e != "" && err != nil {
			r.add(n, key, strconv.Quote(e), err)
		}
	}
	check(join(path, "endpoint"), endpoint, s.Endpoint)
	check(join(path, "replay"), at["replay"], s.Replay)
	for i, e := range s.Shards {
		check(fmt.Sprintf("%s.shards[%d]", path, i), shards, e)
	}
}

// endpoints reads a list of TP shard endpoints.
func (r *reader) endpoints(n ast.Node, path string, dst *[]string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, path, "a list with one endpoint per TP shard")
		return
	}
	if len(list.Values) < 2 || len(list.Values) > MaxTPShards {
		r.add(n, path, "", bad(fmt.Sprintf("has %d endpoints", len(list.Values)), fmt.Sprintf("2 to %d (use endpoint for a source with one stream)", MaxTPShards)))
	}
	seen := map[string]int{}
	for i, v := range list.Values {
		p := fmt.Sprintf("%s[%d]", path, i)
		var e string
		r.text(v, p, &e, func(e string) error { return checkEndpoint(e, 1) })
		if before, twice := seen[e]; twice && e != "" {
			r.add(v, p, strconv.Quote(e), bad(fmt.Sprintf("is %s[%d] too", path, before), "one endpoint per TP shard"))
		}
		seen[e] = i
		*dst = append(*dst, e)
	}
}

func (r *reader) hint(n ast.Node, path string) *Hint {
	h := &Hint{}
	role := false
	r.mapping(n, path, []string{"worker_type", "endpoint"}, func(key string, v ast.Node) bool {
		p := join(path, key)
		switch key {
		case "worker_type":
			role = true
			r.text(v, p, &h.WorkerType, func(name string) error { return oneOf(name, WorkerTypes) })
		case "endpoint":
			r.text(v, p, &h.Endpoint, checkControl)
		default:
			return false
		}
		return true
	})
	if !role {
		r.add(n, join(path, "worker_type"), "", bad("is missing", choice(WorkerTypes)))
	}
	return h
}

// text reads a string and checks it.
func (r *reader) text(n ast.Node, path string, dst *string, check func(string) error) {
	s, ok := scalar(n, text)
	if !ok {
		r.wrongType(n, path, text.String())
		return
	}
	if err := check(s); err != nil {
		r.add(n, path, strconv.Quote(s), err)
		return
	}
	*dst = s
}

// whole reads a whole number within [least, most].
func (r *reader) whole(n ast.Node, path string, least, most uint64, set func(uint64)) {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
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
