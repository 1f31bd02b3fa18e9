package maptree

import (
	"fmt"
	"sync"

	"github.com/cairn-kv/cairn/tree"
)

// maxWaiting is how many blocks of a holder may wait for a parent, as in the
// index and the reference model by default.
const maxWaiting = 1 << 16

// Tree is an index made of maps. See the package comment. Use New.
type Tree struct {
	mu      sync.RWMutex
	roots   map[tree.Root]*node
	holders map[tree.Holder]*holder
	last    tree.Holder // given out so far

	nodes, names, waiting, residencies int

	seen map[uint64]struct{} // names of the event at hand
}

// node is one block of one path.
type node struct {
	parent   *node // nil at a root
	content  uint64
	children map[uint64]*node       // by content; nil until there is one
	holders  map[tree.Holder]*block // nil at a root
}

// block is a resident block of one holder under one of its names.
type block struct {
	name   uint64
	at     *node
	twin   *block // the same holder's block at the same node under another name
	copies [tree.NumTiers]uint32
}

type holder struct {
	id      tree.Holder
	policy  tree.Policy
	hidden  bool
	names   map[uint64]*block
	waiting // blocks whose parent the holder does not know
}

var _ tree.Interface = (*Tree)(nil)

// New returns an empty Tree.
func New() *Tree {
	return &Tree{
		roots:   map[tree.Root]*node{},
		holders: map[tree.Holder]*holder{},
		seen:    map[uint64]struct{}{},
	}
}

// AddHolder implements tree.Writer. shards must be 1.
func (t *Tree) AddHolder(p tree.Policy, shards int) (tree.Holder, error) {
	if shards != 1 {
		return 0, fmt.Errorf("maptree: shards is %d, must be 1", shards)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.holders[t.last] = &holder{id: t.last, policy: p, names: map[uint64]*block{}}
	return t.last, nil
}

// Drop implements tree.Writer.
func (t *Tree) Drop(h tree.Holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if hd := t.holders[h]; hd != nil {
		t.clear(hd)
		delete(t.holders, h)
	}
}

// Clear implements tree.Writer.
func (t *Tree) Clear(h tree.Holder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if hd := t.holders[h]; hd != nil {
		t.clear(hd)
	}
}

// ClearShard implements tree.Writer. A holder has shard 0 alone.
func (t *Tree) ClearShard(h tree.Holder, shard int) {
	if shard == 0 {
		t.Clear(h)
	}
}

func (t *Tree) clear(h *holder) {
	for _, b := range h.names {
		t.leave(h, b)
		for _, n := range b.copies {
			if n > 0 {
				t.residencies--
			}
		}
	}
	t.names -= len(h.names)
	t.waiting -= len(h.orphans)
	h.names = map[uint64]*block{}
	h.waiting = waiting{}
}

// Hide implements tree.Writer.
func (t *Tree) Hide(h tree.Holder) { t.setHidden(h, true) }

// Show implements tree.Writer.
func (t *Tree) Show(h tree.Holder) { t.setHidden(h, false) }

func (t *Tree) setHidden(h tree.Holder, hidden bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if hd := t.holders[h]; hd != nil {
		hd.hidden = hidden
	}
}

// Step implements tree.Writer: nothing is deferred.
func (t *Tree) Step() bool { return false }

// Stats implements tree.Writer. A node counts as a run and as a link; Bytes is
// 0, for what maps take is not known.
func (t *Tree) Stats() tree.Stats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return tree.Stats{
		Holders: len(t.holders), Residencies: t.residencies, Waiting: t.waiting,
		Runs: t.nodes, Links: t.nodes, Names: t.names,
	}
}

func (t *Tree) root(r tree.Root) *node {
	n := t.roots[r]
	if n == nil {
		n = &node{}
		t.roots[r] = n
	}
	return n
}

// child returns the node behind n with the given content, a new one if there
// is none.
func (t *Tree) child(n *node, content uint64) *node {
	c := n.children[content]
	if c == nil {
		c = &node{parent: n, content: content, holders: map[tree.Holder]*block{}}
		if n.children == nil {
			n.children = map[uint64]*node{}
		}
		n.children[content] = c
		t.nodes++
	}
	return c
}

// join puts a block where it lies.
func (t *Tree) join(h *holder, b *block, at *node) {
	b.at, b.twin = at, at.holders[h.id]
	at.holders[h.id] = b
}

// leave takes a block from where it lies.
func (t *Tree) leave(h *holder, b *block) {
	t.unlink(h, b)
	t.prune(b.at)
}

func (t *Tree) unlink(h *holder, b *block) {
	n := b.at
	first := n.holders[h.id]
	switch {
	case first != b:
		for first.twin != b {
			first = first.twin
		}
		first.twin = b.twin
	case b.twin != nil:
		n.holders[h.id] = b.twin
	default:
		delete(n.holders, h.id)
	}
}

// prune takes away a node that holds nothing and leads nowhere, and those
// before it that were there for it alone.
func (t *Tree) prune(n *node) {
	for n.parent != nil && len(n.holders) == 0 && len(n.children) == 0 {
		delete(n.parent.children, n.content)
		t.nodes--
		n = n.parent
	}
}
