package ingest

import (
	"context"
	"strconv"

	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/content"
	"github.com/cairn-kv/cairn/tree/shard"
)

// hashedAtOnce is how many units are hashed before they are dealt out to the
// record: few enough to stay in the cache.
const hashedAtOnce = 64

// maxRoots bounds the (unit, look-ahead) pairs a stream remembers.
const maxRoots = 8

// root is a trie as the owner named it.
type root struct {
	unit, lookahead int
	root            tree.Root
}

// blockSize is how many tokens the blocks of a tier have, as the given process
// stores them.
type blockSize struct {
	tokens      int
	incarnation uint32
}

// partial reports whether a store is of a block that is not full: vLLM (0.24 and
// later) names the last one of a prompt, alone, by the granularity of its
// hashes. Blocks of one tier have one size, so one that is a fraction of it is
// such a block. It is none of the prefix, whose next full block has the same
// parent; and its size says nothing about the source's.
func (s *Stream) partial(at *slot, ev *wire.Event) bool {
	size := &at.blocks[ev.Tier()]
	known := size.incarnation == s.incarnation && size.tokens > int(ev.BlockSize)
	if known && ev.KeysHaveSlot && len(ev.Hashes) == 1 && size.tokens%int(ev.BlockSize) == 0 {
		return true
	}
	*size = blockSize{int(ev.BlockSize), s.incarnation}
	return false
}

// store writes a stored event with tokens.
func (s *Stream) store(ctx context.Context, rank int, d Domain, h shard.Head, ev *wire.Event) error {
	size := s.size(ev)
	switch {
	case size == 0:
		s.tally.count(skipBlockSize)
		return nil
	case (ev.Contents == nil || ev.ContentUnit > 0) && s.partial(&s.slots[d][rank], ev):
		s.tally.reason(wire.ReasonPartialBlock)
		return nil
	}
	unit, err := s.fit(ctx, size)
	if err != nil {
		return err
	}
	span := size / unit
	if ev.Contents != nil && told(ev, size) != unit {
		s.tally.count(skipBlockSize) // what parts of a block contain is not told
		return nil
	}
	limit := s.port.MaxBlocks(span)
	if limit == 0 {
		s.tally.count(skipRecordSize)
		return nil
	}
	rt, ok, err := s.root(ctx, unit, ev.Lookahead)
	if !ok || err != nil {
		return err
	}
	if at := &s.slots[d][rank]; at.size != size || at.look != ev.Lookahead {
		at.size, at.look = size, ev.Lookahead
		s.opt.Owner.Learned(rank, d, size, ev.Lookahead)
	}
	if len(ev.Salt) > 0 || len(ev.Keys.Hashes) > 0 || ev.Keyed {
		s.learned.setKeyed()
	}

	keep := h.Tier != tree.Device && ev.KeysHaveSlot && !ev.KeysStated
	sh := shard.StoreHead{
		Root:        rt,
		HasParent:   ev.HasParent && (s.opt.NoPythonRoot || ev.Parent != pythonRoot),
		Parent:      ev.Parent,
		Span:        span,
		KeepMeaning: keep,
		SkipUnknown: keep && s.learned.Keyed(),
	}
	seeds := content.MakeSeedsBytes(s.adapter(ev), ev.Salt)
	first := seeds.First
	if sh.HasParent && sh.Parent != 0 {
		first = seeds.Rest // the salt has been said with block 0
	}

	for i := 0; i < len(ev.Hashes); {
		n := min(limit, len(ev.Hashes)-i)
		words, err := s.port.Store(ctx, h, sh, n)
		if s.room(err) {
			words, err = s.port.Store(ctx, h, sh, n)
		}
		if err != nil {
			return err
		}
		s.pairs(words, ev, i, unit, span, first, seeds.Rest)
		i += n
		first = seeds.Rest
		sh.HasParent, sh.Parent = true, ev.Hashes[i-1]
	}
	s.tally.stored += uint64(len(ev.Hashes))
	return nil
}

// maxBlockSize bounds block sizes that no tokens prove.
const maxBlockSize = 1 << 16

// size is how many tokens a block of the event has; 0 if that is not known,
// which is only where it comes without tokens.
func (s *Stream) size(ev *wire.Event) int {
	size := int(ev.BlockSize)
	if ev.Contents == nil {
		return size
	}
	if !ev.HasBlockSize {
		size = s.opt.BlockSize
	}
	if size == 0 {
		size = s.learned.Unit()
	}
	if size < 0 || size > maxBlockSize {
		return 0
	}
	return size
}

// told is how many tokens each content hash of an event stands for that has
// blocks of size tokens.
func told(ev *wire.Event, size int) int {
	if ev.ContentUnit > 0 {
		return int(ev.ContentUnit)
	}
	return size
}

// pairs fills a record with the blocks from the given one on: names and content
// hashes.
func (s *Stream) pairs(words []uint64, ev *wire.Event, block, unit, span int, first, rest uint64) {
	if ev.Contents != nil {
		for i := range len(words) / (1 + span) {
			at := words[i*(1+span) : (i+1)*(1+span)]
			at[0] = ev.Hashes[block+i]
			copy(at[1:], ev.Contents[(block+i)*span:])
		}
		return
	}
	atOnce := max(1, hashedAtOnce/span)
	keyed := len(ev.Keys.Hashes) > 0
	for len(words) > 0 {
		n := min(atOnce, len(words)/(1+span))
		from := block * span * unit
		tokens := ev.Tokens[from : from+n*span*unit+ev.Lookahead]
		var keys *content.Keys
		if keyed {
			keys = s.cutKeys(ev, block, n, span)
		}
		s.contents = content.Append(s.contents[:0], tokens, unit, ev.Lookahead, first, rest, keys)
		first = rest
		if span == 1 {
			for i, c := range s.contents {
				words[2*i] = ev.Hashes[block+i]
				words[2*i+1] = c
			}
		} else {
			for i := range n {
				words[i*(1+span)] = ev.Hashes[block+i]
				copy(words[i*(1+span)+1:(i+1)*(1+span)], s.contents[i*span:])
			}
		}
		words = words[n*(1+span):]
		block += n
	}
}

// cutKeys gives the extra keys of n blocks unit by unit. A block of several
// units has them in each: which of its units an image touches is not told.
func (s *Stream) cutKeys(ev *wire.Event, block, n, span int) *content.Keys {
	s.keys.Reset()
	for b := block; b < block+n; b++ {
		var own []uint64
		if b < len(ev.Keys.Ends) {
			begin := 0
			if b > 0 {
				begin = ev.Keys.Ends[b-1]
			}
			own = ev.Keys.Hashes[begin:ev.Keys.Ends[b]]
		}
		for range span {
			s.keys.Hashes = append(s.keys.Hashes, own...)
			s.keys.Ends = append(s.keys.Ends, len(s.keys.Hashes))
		}
	}
	return &s.keys
}

// adapter is what names the adapter of an event, empty for the base model.
func (s *Stream) adapter(ev *wire.Event) []byte {
	if len(ev.LoraName) > 0 || !ev.HasLoraID || ev.LoraID == 0 {
		return ev.LoraName
	}
	b := append(s.namespace[:0], "id:"...)
	b = strconv.AppendInt(b, ev.LoraID, 10)
	b = append(b, '@')
	s.namespace = append(b, s.opt.Source...)
	return s.namespace
}

// fit returns the unit for blocks of a size. If that is not the unit the stream
// has taught with, what it taught is cleared: names of both units would hang
// behind each other.
func (s *Stream) fit(ctx context.Context, size int) (int, error) {
	unit := s.learned.fit(size)
	old := s.unit
	s.unit = unit
	if old == 0 || old == unit {
		return unit, nil
	}
	s.log.Warn("block sizes have no common unit but a smaller one", "block_size", size, "unit", unit, "was", old, "seq", s.seq)
	s.lose(CauseGeometry) // never fences: nothing was missed
	return unit, s.clearAll(ctx)
}

// root returns the trie of a unit and look-ahead; not ok if the owner refuses,
// which is counted.
func (s *Stream) root(ctx context.Context, unit, lookahead int) (r tree.Root, ok bool, err error) {
	for i := range s.roots {
		if k := &s.roots[i]; k.unit == unit && k.lookahead == lookahead {
			return k.root, true, nil
		}
	}
	r, err = s.opt.Owner.Root(unit, lookahead)
	if err != nil {
		if !refused(ctx, err) {
			return 0, false, err
		}
		s.setError(err)
		s.tally.count(skipRefused)
		return 0, false, nil
	}
	if len(s.roots) == maxRoots {
		s.roots = s.roots[1:]
	}
	s.roots = append(s.roots, root{unit, lookahead, r})
	return r, true, nil
}
