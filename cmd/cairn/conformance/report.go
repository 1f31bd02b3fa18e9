package conformance

import (
	"fmt"
	"io"
	"strings"
)

// Report is the result of a run over files.
type Report struct {
	Files []*File `json:"files"`
}

// File is what became of one file.
type File struct {
	Name    string `json:"file"`
	Kind    string `json:"kind,omitempty"` // wire, replay, index, transport, capture, hashes
	Played  int    `json:"played"`         // messages and operations played
	Checks  int    `json:"checks"`         // answers compared
	Bounds  int    `json:"bounds"`         // those of Checks that any smaller answer passes too
	Skipped []Skip `json:"skipped,omitempty"`
	// Error says why the file could not be judged: unreadable, an unknown kind
	// of line, nothing to check exactly, a time limit.
	Error string `json:"error,omitempty"`
	// Differences are all answers that are not what the file says.
	Differences []Difference `json:"differences,omitempty"`
}

// Difference is one answer that is not what the file says.
type Difference struct {
	Line     int    `json:"line"`           // in the file, from 1
	Case     string `json:"case,omitempty"` // W05, T21, Q05 or the stream of a capture
	Step     string `json:"step"`           // what was asked, and when
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// Skip is something known that is not played yet, by name.
type Skip struct {
	Name   string `json:"name"`
	Count  int    `json:"count"` // cases or lines
	Reason string `json:"reason"`
}

// skip counts one thing that is not played.
func (f *File) skip(name, reason string) {
	for i := range f.Skipped {
		if f.Skipped[i].Name == name && f.Skipped[i].Reason == reason {
			f.Skipped[i].Count++
			return
		}
	}
	f.Skipped = append(f.Skipped, Skip{Name: name, Count: 1, Reason: reason})
}

// differ notes a difference.
func (f *File) differ(line int, name, step string, expected, got any) {
	f.Differences = append(f.Differences, Difference{
		Line: line, Case: name, Step: step,
		Expected: fmt.Sprint(expected), Got: fmt.Sprint(got),
	})
}

// compare counts a check and notes a difference if the two are not equal.
func compare[T comparable](f *File, line int, name, step string, expected, got T) {
	f.Checks++
	if expected != got {
		f.differ(line, name, step, expected, got)
	}
}

// OK reports whether every file was judged and nothing differed.
func (r *Report) OK() bool {
	for _, f := range r.Files {
		if f.Error != "" || len(f.Differences) > 0 {
			return false
		}
	}
	return len(r.Files) > 0
}

// maxShown bounds the differences of one file in text; --json has them all.
const maxShown = 20

// WriteText prints the report for people: one line a file, then every
// difference (the first maxShown of a file), what was not played by name, and
// the sum.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	var played, checks, bounds, differences, errors, skipped int
	for _, f := range r.Files {
		played, checks, bounds, differences = played+f.Played, checks+f.Checks, bounds+f.Bounds, differences+len(f.Differences)
		state := "ok"
		switch {
		case f.Error != "":
			state = "ERROR"
			errors++
		case len(f.Differences) > 0:
			state = "DIFF"
		case f.Checks == 0:
			state = "skip"
		}
		fmt.Fprintf(&b, "%-5s %-9s %s: %d played, %s", state, f.Kind, f.Name, f.Played, checked(f.Checks, f.Bounds))
		if n := len(f.Differences); n > 0 {
			fmt.Fprintf(&b, ", %d differences", n)
		}
		b.WriteByte('\n')
		if f.Error != "" {
			fmt.Fprintf(&b, "        %s\n", f.Error)
		}
		for i, d := range f.Differences {
			if i == maxShown {
				fmt.Fprintf(&b, "        … and %d more (see --json)\n", len(f.Differences)-maxShown)
				break
			}
			fmt.Fprintf(&b, "        line %d %s: %s: expected %s, got %s\n", d.Line, d.Case, d.Step, d.Expected, d.Got)
		}
		for _, s := range f.Skipped {
			skipped += s.Count
			fmt.Fprintf(&b, "        not played: %s (%d): %s\n", s.Name, s.Count, s.Reason)
		}
	}
	fmt.Fprintf(&b, "%d files, %d played, %s, %d differences, %d errors, %d not played\n",
		len(r.Files), played, checked(checks, bounds), differences, errors, skipped)
	_, err := io.WriteString(w, b.String())
	return err
}

// checked tells checks, and how many of them are the weaker kind.
func checked(checks, bounds int) string {
	if bounds == 0 {
		return fmt.Sprintf("%d checks", checks)
	}
	return fmt.Sprintf("%d checks, %d of them upper bounds", checks, bounds)
}
