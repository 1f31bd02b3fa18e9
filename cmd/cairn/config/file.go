package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Parse reads a configuration file over the defaults. name appears in errors.
// All problems are returned, joined, each a *Problem; the Config is then not
// to be used. Parse checks values one by one; Validate checks them together.
func Parse(name string, data []byte) (Config, error) {
	c := Default()
	r := reader{name: name}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return c, syntax(name, err)
	}
	if len(file.Docs) > 1 {
		return c, &Problem{Where: name, Key: "document", What: "is one of several in the file", Want: "one YAML document"}
	}
	if len(file.Docs) == 1 && file.Docs[0].Body != nil {
		r.root(&c, file.Docs[0].Body)
	}
	return c, errors.Join(r.problems...)
}

// syntax makes a Problem of what the YAML parser says, with its position.
func syntax(name string, err error) error {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil {
		return &Problem{Where: name, Key: "yaml", What: err.Error()}
	}
	at := y.GetToken().Position
	return &Problem{
		Where: fmt.Sprintf("%s:%d:%d", name, at.Line, at.Column),
		Key:   "yaml", What: y.GetMessage(),
	}
}

// reader walks the YAML tree against the tables and collects problems.
type reader struct {
	name     string
	problems []error
}

func (r *reader) where(n ast.Node) string {
	if tok := n.GetToken(); tok != nil && tok.Position != nil {
		return fmt.Sprintf("%s:%d:%d", r.name, tok.Position.Line, tok.Position.Column)
	}
	return r.name
}

func (r *reader) add(n ast.Node, key, value string, err error) {
	r.problems = append(r.problems, problem(r.where(n), key, value, err))
}

// wrongType notes that a node is not what a key wants.
func (r *reader) wrongType(n ast.Node, key, want string) {
	value, what := describe(n)
	if s, ok := n.(*ast.IntegerNode); ok && want == text.String() {
		want = fmt.Sprintf("a string (quote it: %q)", s.Token.Value)
	}
	r.add(n, key, value, bad(what, want))
}

// describe renders a node for an error: its value, and what it is.
func describe(n ast.Node) (value, what string) {
	switch n := n.(type) {
	case *ast.NullNode:
		return "", "has no value"
	case *ast.IntegerNode:
		return n.Token.Value, "is a number"
	case *ast.FloatNode:
		return n.Token.Value, "is a fraction"
	case *ast.BoolNode:
		return n.Token.Value, "is a truth value"
	case *ast.StringNode:
		return strconv.Quote(n.Value), "is a string"
	case *ast.LiteralNode:
		return strconv.Quote(n.Value.Value), "is a string"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "", "is a mapping"
	case *ast.SequenceNode:
		return "", "is a list"
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return "", "uses an anchor, alias or merge key, which cairn's configuration has no use for"
	}
	return "", "is a " + strings.ToLower(n.Type().String())
}

// mapping calls field for every key of a mapping; field reports whether it
// knows the key. known lists the keys for the error of one it does not.
func (r *reader) mapping(n ast.Node, path string, known []string, field func(key string, value ast.Node) bool) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		key := path
		if key == "" {
			key = "document"
		}
		r.wrongType(n, key, "a mapping with the keys "+strings.Join(known, ", "))
		return
	}
	for _, v := range values {
		key := v.Key.GetToken().Value
		if !field(key, v.Value) {
			r.problems = append(r.problems, unknownKey(r.where(v.Key), join(path, key), key, known))
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// rootKeys are the keys of the document, in the order of the documentation.
func rootKeys() []string {
	var keys []string
	for i := range Settings {
		if !strings.Contains(Settings[i].Key, ".") {
			keys = append(keys, Settings[i].Key)
		}
	}
	return append(keys, "log", "hints", "repair", "sources", "listeners")
}

func (r *reader) root(c *Config, n ast.Node) {
	r.mapping(n, "", rootKeys(), func(key string, v ast.Node) bool {
		switch key {
		case "log":
			r.mapping(v, "log", []string{"level", "format"}, func(key string, v ast.Node) bool {
				return r.setting(c, "log."+key, v)
			})
			return true
		case "hints":
			r.hints(&c.Hints, v)
			return true
		case "repair":
			r.repair(&c.Repair, v)
			return true
		case "sources":
			r.sources(c, v)
			return true
		case "listeners":
			r.listeners(c, v)
			return true
		}
		return !strings.Contains(key, ".") && r.setting(c, key, v)
	})
}

// setting reads one scalar of the table; false if there is no such key.
func (r *reader) setting(c *Config, key string, n ast.Node) bool {
	s, ok := Lookup(key)
	if !ok {
		return false
	}
	value, ok := scalar(n, s.kind)
	if !ok {
		r.wrongType(n, key, s.kind.String())
	} else if err := s.set(c, value); err != nil {
		shown, _ := describe(n)
		r.add(n, key, shown, err)
	}
	return true
}

// scalar returns the text of a node if its type fits the kind.
func scalar(n ast.Node, k kind) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, k == text || k == duration || k == size
	case *ast.LiteralNode:
		return n.Value.Value, k == text
	case *ast.IntegerNode:
		return fmt.Sprint(n.Value), k == number || k == size
	case *ast.BoolNode:
		return strconv.FormatBool(n.Value), k == flag
	}
	return "", false
}
