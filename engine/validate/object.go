package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Object reads one JSON object strictly: no number passes through a float64, no
// field is unknown, none stands twice, and null is no value. Every problem is
// kept with the path of its field; Err gives all of them at the end.
//
// An Object is for one goroutine.
type Object struct {
	at     string // what stands before its fields' names: "", "ranks[1]."
	fields map[string]json.RawMessage
	asked  map[string]bool
	f      *findings // shared by all objects of a document
}

// ReadObject begins to read a document. The result is never nil; a document
// that is no object has no fields and an Err.
func ReadObject(data []byte) *Object {
	o := &Object{f: new(findings)}
	dec := json.NewDecoder(bytes.NewReader(data))
	o.read(dec, "body")
	if len(o.f.list) > 0 {
		return o
	}
	if _, err := dec.Token(); err != io.EOF {
		o.f.add(JSONSyntax, "body", "", "something follows the object", "one JSON object")
	}
	return o
}

// read takes the members of an object that is called name in errors.
func (o *Object) read(dec *json.Decoder, name string) {
	o.fields, o.asked = map[string]json.RawMessage{}, map[string]bool{}
	const want = "a JSON object"
	t, err := dec.Token()
	if err != nil {
		o.f.add(JSONSyntax, name, "", "is no JSON: "+err.Error(), want)
		return
	}
	if t != json.Delim('{') {
		o.f.add(JSONType, name, fmt.Sprint(t), "is no object", want)
		return
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			o.f.add(JSONSyntax, name, "", "is no JSON: "+err.Error(), want)
			return
		}
		k := key.(string) // the decoder lets nothing else be a key
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			o.f.add(JSONSyntax, o.Path(k), "", "is no JSON: "+err.Error(), want)
			return
		}
		if _, twice := o.fields[k]; twice {
			o.f.add(JSONTwice, o.Path(k), brief(v), "stands twice", "every field once")
			continue
		}
		o.fields[k] = v
	}
	if _, err := dec.Token(); err != nil {
		o.f.add(JSONSyntax, name, "", "is no JSON: "+err.Error(), want)
	}
}

// brief is a value short enough for an error.
func brief(v json.RawMessage) string {
	const most = 80
	if len(v) > most {
		return string(v[:most]) + "…"
	}
	return string(v)
}

// Path is the name of a field in errors.
func (o *Object) Path(key string) string {
	if key == "" {
		key = `""`
	}
	return o.at + key
}

// Has reports whether a field is stated.
func (o *Object) Has(key string) bool {
	_, ok := o.fields[key]
	return ok
}

// Require notes every key that is not stated. Of a document that is no JSON it
// cannot be told what is missing.
func (o *Object) Require(keys ...string) {
	if slices.ContainsFunc(o.f.list, func(e *Error) bool { return e.Rule == JSONSyntax }) {
		return
	}
	for _, k := range keys {
		if !o.Has(k) {
			o.f.add(JSONMissing, o.Path(k), "", "is not stated", "a value")
		}
	}
}

// Add notes a problem with a field. err is one of this package's.
func (o *Object) Add(err error) { o.f.note(err) }

func (o *Object) wrong(key, what string) {
	o.f.add(JSONType, o.Path(key), brief(o.fields[key]), "is not "+what, what)
}

// take returns a field that is stated, and marks it as known.
func (o *Object) take(key string) (json.RawMessage, bool) {
	o.asked[key] = true
	v, ok := o.fields[key]
	return v, ok
}

// Text reads a string; "" if it is absent.
func (o *Object) Text(key string) (s string) {
	v, ok := o.take(key)
	if !ok {
		return ""
	}
	if v[0] != '"' || json.Unmarshal(v, &s) != nil {
		o.wrong(key, "a string")
		return ""
	}
	return s
}

// Uint reads an integer of lo … hi in plain decimal, as a number or as a
// string; ok is false if it is absent or wrong.
func (o *Object) Uint(key string, lo, hi uint64) (n uint64, ok bool) {
	v, stated := o.take(key)
	if !stated {
		return 0, false
	}
	text := string(v)
	switch c := v[0]; {
	case c == '"':
		if json.Unmarshal(v, &text) != nil {
			o.wrong(key, "an integer")
			return 0, false
		}
	case c != '-' && (c < '0' || c > '9'):
		o.wrong(key, "an integer")
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != text || n < lo || n > hi {
		o.f.add(JSONNumber, o.Path(key), text, "is out of range or no plain decimal", fmt.Sprintf("an integer of %d … %d, as a number or a string", lo, hi))
		return 0, false
	}
	return n, true
}

// Texts reads a list of strings; nil if it is absent.
func (o *Object) Texts(key string) (all []string) {
	v, ok := o.take(key)
	if !ok {
		return nil
	}
	const what = "a list of strings"
	var items []json.RawMessage
	if v[0] != '[' || json.Unmarshal(v, &items) != nil {
		o.wrong(key, what)
		return nil
	}
	for i, item := range items {
		var s string
		if item[0] != '"' || json.Unmarshal(item, &s) != nil {
			o.f.add(JSONType, fmt.Sprintf("%s%s[%d]", o.at, key, i), brief(item), "is not a string", what)
			continue
		}
		all = append(all, s)
	}
	return all
}

// ByName reads an object whose values are strings; nil if it is absent.
func (o *Object) ByName(key string) map[string]string {
	v, ok := o.take(key)
	if !ok {
		return nil
	}
	sub := &Object{at: o.at + key + ".", f: o.f}
	sub.read(json.NewDecoder(bytes.NewReader(v)), o.at+key)
	all := make(map[string]string, len(sub.fields))
	for _, k := range slices.Sorted(maps.Keys(sub.fields)) {
		all[k] = sub.Text(k)
	}
	return all
}

// Raw reads an object without judging its fields; nil if it is absent.
func (o *Object) Raw(key string) map[string]json.RawMessage {
	v, ok := o.take(key)
	if !ok {
		return nil
	}
	sub := &Object{at: o.at + key + ".", f: o.f}
	sub.read(json.NewDecoder(bytes.NewReader(v)), o.at+key)
	return sub.fields
}

// Objects reads a list of objects; nil if it is absent. They share Err with
// their document; each needs its own End. Items that cannot be read are noted
// and left out.
func (o *Object) Objects(key string) (all []*Object) {
	v, ok := o.take(key)
	if !ok {
		return nil
	}
	var items []json.RawMessage
	if v[0] != '[' || json.Unmarshal(v, &items) != nil {
		o.wrong(key, "a list of objects")
		return nil
	}
	for i, item := range items {
		name := fmt.Sprintf("%s%s[%d]", o.at, key, i)
		sub := &Object{at: name + ".", f: o.f}
		before := len(o.f.list)
		if sub.read(json.NewDecoder(bytes.NewReader(item)), name); len(o.f.list) == before {
			all = append(all, sub)
		}
	}
	return all
}

// End notes every field that was not asked for.
func (o *Object) End() {
	for _, k := range slices.Sorted(maps.Keys(o.fields)) {
		if !o.asked[k] {
			o.f.add(JSONUnknown, o.Path(k), brief(o.fields[k]), "is no field here", "one of "+strings.Join(slices.Sorted(maps.Keys(o.asked)), ", "))
		}
	}
}

// Err is nil or Errors: everything that was found in the document.
func (o *Object) Err() error { return o.f.err() }
