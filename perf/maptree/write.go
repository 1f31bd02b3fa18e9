package maptree

import "github.com/cairn-kv/cairn/tree"

// owner returns the holder of a valid owner, else nil.
func (t *Tree) owner(o tree.Owner) *holder {
	if o.Tier >= tree.NumTiers || o.Shard != 0 {
		return nil
	}
	return t.holders[o.Holder]
}

// Store implements tree.Writer. Span must be 1.
func (t *Tree) Store(o tree.Owner, s *tree.Store) (out tree.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.owner(o)
	if out.Reason = t.judge(h, s); out.Reason != tree.Accepted {
		return out
	}
	// at is where the next block goes; nil: it waits for the name parent.
	at, parent := t.root(s.Root), s.Parent
	if s.HasParent {
		// A parent that waits under a newer meaning is not the block it was.
		p := h.names[s.Parent]
		if p != nil && h.orphans[s.Parent] == nil {
			at = p.at
		} else if p != nil || s.Parent != 0 {
			at = nil
		}
	}
	for i := 0; i < len(s.Pairs); i += 2 {
		name := s.Pairs[i]
		if s.KeepMeaning {
			if b := h.names[name]; b != nil {
				t.add(h, b, o.Tier, &out)
				at, parent = b.at, name
				continue
			}
			if s.SkipUnknown {
				out.Unknown++
				at, parent = nil, name
				continue
			}
			if w := h.orphans[name]; w != nil {
				w.add(h.policy, o.Tier)
				out.Waiting++
				at, parent = nil, name
				continue
			}
		}
		if at != nil {
			at = t.child(at, s.Pairs[i+1])
			t.add(h, t.announce(h, name, at, &out), o.Tier, &out)
		} else {
			t.wait(h, name, parent, s.Pairs[i+1]).add(h.policy, o.Tier)
			out.Waiting++
		}
		parent = name
	}
	if len(h.orphans) > 0 {
		for i := 0; i < len(s.Pairs); i += 2 {
			if h.orphans[s.Pairs[i]] == nil {
				t.attach(h, s.Pairs[i], &out)
			}
		}
		t.bound(h, &out)
	}
	return out
}

// judge says whether the event as a whole is acceptable.
func (t *Tree) judge(h *holder, s *tree.Store) tree.Reason {
	if h == nil {
		return tree.BadOwner
	}
	if s.Span != 1 || len(s.Pairs)%2 != 0 || s.Root > tree.MaxRoot {
		return tree.BadShape
	}
	if len(s.Pairs) == 2 {
		if s.HasParent && s.Pairs[0] == s.Parent {
			return tree.SelfParent
		}
		return tree.Accepted
	}
	clear(t.seen)
	for i := 0; i < len(s.Pairs); i += 2 {
		if s.HasParent && s.Pairs[i] == s.Parent {
			return tree.SelfParent
		}
		t.seen[s.Pairs[i]] = struct{}{}
		if len(t.seen) != i/2+1 {
			return tree.DuplicateName
		}
	}
	return tree.Accepted
}

// announce makes a holder's name mean the block at a node, with the copies it
// has of an earlier meaning or that wait under it.
func (t *Tree) announce(h *holder, name uint64, at *node, out *tree.Outcome) *block {
	b := h.names[name]
	switch {
	case b == nil:
		b = &block{name: name}
		h.names[name] = b
		t.names++
		t.join(h, b, at)
	case b.at != at:
		out.Moved++
		was := b.at
		t.unlink(h, b)
		t.join(h, b, at)
		t.prune(was) // now that the new place, which may be near, has its block
	}
	if w := h.orphans[name]; w != nil {
		t.withdraw(h, w)
		for tier, n := range w.copies {
			for ; n > 0; n-- {
				t.add(h, b, tree.Tier(tier), out)
			}
		}
	}
	return b
}

// add adds a copy of a resident block.
func (t *Tree) add(h *holder, b *block, tier tree.Tier, out *tree.Outcome) {
	n := &b.copies[tier]
	if *n == 0 {
		out.New++
		t.residencies++
	} else {
		out.Known++
	}
	if *n == 0 || h.policy == tree.Copies {
		*n++
	}
}

// Place implements tree.Writer.
func (t *Tree) Place(o tree.Owner, names []uint64) (out tree.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.owner(o)
	if h == nil {
		return tree.Outcome{Reason: tree.BadOwner}
	}
	for _, name := range names {
		if b := h.names[name]; b != nil {
			t.add(h, b, o.Tier, &out)
		} else {
			out.Unknown++
		}
	}
	return out
}

// Remove implements tree.Writer. It also withdraws waiting blocks.
func (t *Tree) Remove(o tree.Owner, names []uint64) (out tree.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.owner(o)
	if h == nil {
		return tree.Outcome{Reason: tree.BadOwner}
	}
	for _, name := range names {
		if b := h.names[name]; b != nil && b.copies[o.Tier] > 0 {
			take(&b.copies, h.policy, o.Tier)
			if b.copies[o.Tier] == 0 {
				out.Removed++
				t.residencies--
			}
			if b.copies == ([tree.NumTiers]uint32{}) {
				delete(h.names, name)
				t.names--
				t.leave(h, b)
			}
		} else if w := h.orphans[name]; w != nil && w.copies[o.Tier] > 0 {
			take(&w.copies, h.policy, o.Tier)
			if w.copies == ([tree.NumTiers]uint32{}) {
				t.withdraw(h, w)
			}
		} else {
			out.Unknown++
		}
	}
	return out
}

// take takes one copy, or all under Set.
func take(copies *[tree.NumTiers]uint32, p tree.Policy, tier tree.Tier) {
	if p == tree.Set {
		copies[tier] = 0
	} else {
		copies[tier]--
	}
}
