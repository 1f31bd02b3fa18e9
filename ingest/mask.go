package ingest

import (
	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/tree/content"
)

// Masker makes payloads that a stream would apply just as it does the original
// ones, without the tokens of prompts: content hashes stand in their place, and
// no adapter, salt, extra key or session is named. It serves one stream, on its
// goroutine.
type Masker struct {
	learned *Learned
	decoder wire.Decoder
	ev      wire.Event
	out     wire.Masking
	hashes  []uint64
	// rules is a stream that never runs: its options decide about adapters,
	// salts and keys as the real one's do.
	rules Stream
}

// NewMasker returns a Masker for a stream with these options. o.Learned tells
// the unit that its hashes are of.
func NewMasker(o *Options) *Masker {
	m := &Masker{learned: o.Learned, rules: Stream{opt: *o}}
	m.decoder.BareMultimodal = o.BareMultimodal
	return m
}

// undecodable stands for a payload that cannot be decoded: neither can it.
var undecodable = []byte{0xc1}

// Mask returns the masked form of a payload that the stream has dealt with,
// valid until the next call. It must see all of a stream's payloads, in order.
func (m *Masker) Mask(payload []byte) []byte {
	b, err := m.decoder.Reset(payload)
	if err != nil {
		return undecodable
	}
	m.out.Begin(&b)
	for {
		more, err := m.decoder.Next(&m.ev)
		if err != nil {
			return undecodable
		}
		if !more {
			return m.out.End(&b)
		}
		contents, unit := m.contents(&m.ev)
		m.ev.SelfNamed = contents != nil && !m.ev.HasParent && !m.ev.HasMedium && selfNamed(&m.ev)
		m.out.Event(&m.ev, contents, unit)
	}
}

// contents hashes the blocks of a store as the stream does. Where a stream's
// unit changes in the middle of a batch, what came before is cleared anyway.
func (m *Masker) contents(ev *wire.Event) (contents []uint64, unit int) {
	switch {
	case ev.Kind != wire.Store:
		return nil, 0
	case ev.Contents != nil:
		return ev.Contents, int(ev.ContentUnit)
	case len(ev.Tokens) == 0 || !ev.Even():
		return nil, 0
	}
	size := int(ev.BlockSize)
	if unit = m.learned.Unit(); unit == 0 {
		unit = size
	}
	unit = int(gcd(uint64(unit), uint64(size)))
	seeds := content.MakeSeedsBytes(m.rules.adapter(ev), ev.Salt)
	first := seeds.First
	if m.rules.follows(ev) {
		first = seeds.Rest
	}
	var keys *content.Keys
	if len(ev.Keys.Hashes) > 0 {
		keys = m.rules.cutKeys(ev, 0, len(ev.Hashes), size/unit)
	}
	m.hashes = content.Append(m.hashes[:0], ev.Tokens, unit, ev.Lookahead, first, seeds.Rest, keys)
	return m.hashes, unit
}

// follows reports whether a store's first block has others before it, so that
// the salt has been said with block 0.
func (s *Stream) follows(ev *wire.Event) bool {
	return ev.HasParent && (s.opt.NoPythonRoot || ev.Parent != pythonRoot) && (ev.Parent != 0 || s.opt.ZeroParentUnknown)
}
