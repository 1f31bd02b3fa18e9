package validate

import (
	"strconv"
	"strings"
)

// Error is one refusal.
type Error struct {
	Rule  Rule
	Field string // path of the field: descriptors[1].dp_rank
	Value string // as it was given, without quotes
	Why   string // what is wrong with it
	Want  string // what would be right
}

// Error reads: descriptors[1].dp_rank "0": is the rank of descriptors[0] too; wants …
func (e *Error) Error() string {
	return e.Field + " " + quote(e.Value) + ": " + e.Why + "; wants " + e.Want
}

// Unwrap gives the rule, so that errors.Is finds it.
func (e *Error) Unwrap() error { return e.Rule }

// quote keeps a wrong value short enough for a log line.
func quote(s string) string {
	const most = 256
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// Errors is everything that was found wrong with one thing, at least one.
type Errors []*Error

// Error joins the texts.
func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "; and ")
}

// Unwrap gives every single error to errors.Is and errors.As.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// findings collects errors on the way through one thing.
type findings struct {
	list Errors
}

func (f *findings) add(r Rule, field, value, why, want string) {
	f.list = append(f.list, &Error{Rule: r, Field: field, Value: value, Why: why, Want: want})
}

// note takes the errors of a part, if there are any.
func (f *findings) note(err error) {
	switch err := err.(type) {
	case nil:
	case *Error:
		f.list = append(f.list, err)
	case Errors:
		f.list = append(f.list, err...)
	}
}

// err is nil if nothing was found: an empty Errors is no error.
func (f *findings) err() error {
	if len(f.list) == 0 {
		return nil
	}
	return f.list
}

func number[T uint | uint32 | uint64 | int](v T) string {
	return strconv.FormatUint(uint64(v), 10)
}
