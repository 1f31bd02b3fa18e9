package tree_test

import "github.com/cairn-kv/cairn/tree"

// checked is an index that looks at all its invariants after each change.
type checked struct{ *tree.Index }

func (c checked) ok(o tree.Outcome) tree.Outcome {
	if err := c.Check(); err != nil {
		panic(err)
	}
	return o
}
func (c checked) Store(o tree.Owner, s *tree.Store) tree.Outcome { return c.ok(c.Index.Store(o, s)) }
func (c checked) Remove(o tree.Owner, n []uint64) tree.Outcome   { return c.ok(c.Index.Remove(o, n)) }
func (c checked) Place(o tree.Owner, n []uint64) tree.Outcome    { return c.ok(c.Index.Place(o, n)) }
func (c checked) ClearShard(h tree.Holder, s int)                { c.Index.ClearShard(h, s); c.ok(tree.Outcome{}) }
