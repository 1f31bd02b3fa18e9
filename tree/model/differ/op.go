package differ

import (
	"fmt"
	"strings"

	"github.com/cairn-kv/cairn/tree"
)

// Kind says what an Op does.
type Kind uint8

const (
	Add        Kind = iota // make the holder (Policy, Shards)
	Store                  // Names with Span Contents each, behind Parent
	Place                  // Names gain Tier
	Remove                 // Names lose a copy on Tier
	Clear                  // the holder, all shards
	ClearShard             // Shard of the holder
	Drop                   // the holder, for good
	Hide
	Show
	Query // compare all holders and views, Names and Stats for Root, Contents
	Step  // one piece of deferred work
	Drain // empty every holder by removes, clears and drops; compare with nothing
	numKinds
)

var kindNames = [numKinds]string{"Add", "Store", "Place", "Remove", "Clear", "ClearShard", "Drop", "Hide", "Show", "Query", "Step", "Drain"}

// String returns the name of the constant.
func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// global says whether ops of this kind name no holder.
func (k Kind) global() bool { return k == Query || k == Step || k == Drain }

// Nobody is the label of a holder that no index ever gave out.
const Nobody = -1

// Op is one step of a test: a call to both indexes, or a comparison.
type Op struct {
	Kind   Kind
	Holder int // label, given by Add; stays valid (as a dead holder) after Drop

	Policy tree.Policy // Add
	Shards int         // Add

	Tier  tree.Tier // Store, Place, Remove
	Shard uint8     // Store, Place, Remove, ClearShard

	Root        tree.Root // Store, Query
	HasParent   bool      // Store
	Parent      uint64    // Store
	Span        int       // Store
	KeepMeaning bool      // Store
	SkipUnknown bool      // Store

	Names    []uint64 // Store, Place, Remove
	Contents []uint64 // Store: Span per name; Query: the query

	Depth int // Query: at most so many units of names; 0 = as deep as the answer
}

// pairs lays a Store's names and contents out as tree.Store wants them. What
// does not fit the shape is kept at the end, so that bad shapes stay bad.
func (o *Op) pairs() []uint64 {
	span := max(o.Span, 0)
	var pairs []uint64
	rest := o.Contents
	for _, name := range o.Names {
		n := min(span, len(rest))
		pairs = append(append(pairs, name), rest[:n]...)
		rest = rest[n:]
	}
	return append(pairs, rest...)
}

// String prints o as an element of a Go []differ.Op literal.
func (o Op) String() string {
	f := []string{"Kind: differ." + o.Kind.String()}
	add := func(name string, on bool, v any) {
		if on {
			f = append(f, fmt.Sprintf("%s: %v", name, v))
		}
	}
	list := func(name string, v []uint64) {
		if len(v) > 0 {
			f = append(f, fmt.Sprintf("%s: []uint64{%s}", name, strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ", "), "[]")))
		}
	}
	add("Holder", o.Holder != 0, o.Holder)
	add("Policy", o.Policy != 0, o.Policy)
	add("Shards", o.Shards != 0, o.Shards)
	add("Tier", o.Tier != 0, o.Tier)
	add("Shard", o.Shard != 0, o.Shard)
	add("Root", o.Root != 0, o.Root)
	add("HasParent", o.HasParent, o.HasParent)
	add("Parent", o.Parent != 0, o.Parent)
	add("Span", o.Span != 0, o.Span)
	add("KeepMeaning", o.KeepMeaning, o.KeepMeaning)
	add("SkipUnknown", o.SkipUnknown, o.SkipUnknown)
	list("Names", o.Names)
	list("Contents", o.Contents)
	add("Depth", o.Depth != 0, o.Depth)
	return "{" + strings.Join(f, ", ") + "}"
}

// Text prints ops as a Go literal that a test can Replay.
func Text(ops []Op) string {
	var b strings.Builder
	b.WriteString("[]differ.Op{\n")
	for _, o := range ops {
		fmt.Fprintf(&b, "\t%v,\n", o)
	}
	b.WriteString("}")
	return b.String()
}
