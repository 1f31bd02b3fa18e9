package config

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Where string // file:line:column, the variable's or the flag's name; may be ""
	Key   string // path such as sources[1].hint.endpoint
	Value string // the value as written, quoted where it is text; "" if there is none
	What  string // what is wrong with it
	Want  string // what would be right
}

// Error is one line: where, key, value, what is wrong and what would be right.
func (p *Problem) Error() string {
	var b strings.Builder
	if p.Where != "" {
		b.WriteString(p.Where)
		b.WriteString(": ")
	}
	b.WriteString(p.Key)
	b.WriteString(": ")
	if p.Value != "" {
		b.WriteString(p.Value)
		b.WriteByte(' ')
	}
	b.WriteString(p.What)
	if p.Want != "" {
		b.WriteString("; want ")
		b.WriteString(p.Want)
	}
	return b.String()
}

// choice renders the members of an enumeration: "a, b or c".
func choice(members []string) string {
	if len(members) == 1 {
		return members[0]
	}
	return strings.Join(members[:len(members)-1], ", ") + " or " + members[len(members)-1]
}

// nearest returns the known word that a typo most likely meant, or "".
func nearest(word string, known []string) string {
	best, least := "", 3 // three edits are another word
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}

// distance counts the insertions, deletions and substitutions from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// unknownKey is the problem of a key that no table knows.
func unknownKey(where, path, key string, known []string) *Problem {
	want := choice(known)
	if n := nearest(key, known); n != "" {
		want = fmt.Sprintf("%s (known here: %s)", n, strings.Join(known, ", "))
	}
	return &Problem{Where: where, Key: path, What: "is not a known key", Want: want}
}
