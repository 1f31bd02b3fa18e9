package ingest

import (
	"context"
	"errors"

	"github.com/cairn-kv/cairn/ingest/wire"
	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/shard"
)

// pythonRoot is Python's hash(()): the parent SGLang 0.4.6 to 0.4.10 names for
// blocks that have none.
const pythonRoot = 5740354900026072187

// ownerPool is the ownership of a cache owner's events.
const ownerPool = "kvcr"

// handle applies one event, or counts why not. errFault fences the source.
func (s *Stream) handle(ctx context.Context, rank int, ev *wire.Event) (Cause, error) {
	rank, mine, cause := s.owner(rank, ev)
	if cause != "" {
		return cause, errMalformed
	}
	if !mine {
		return "", nil
	}
	d, ok, cause := s.domain(ev)
	if cause != "" {
		return cause, errFault
	}
	if cause, err := s.vet(d, ev); err != nil && ok {
		return cause, err
	}
	switch ev.Kind {
	case wire.Skipped, wire.Rejected:
		s.tally.reason(ev.Reason)
		return "", nil
	}
	if !ok {
		s.tally.count(skipUnknownOwnership)
		return "", nil
	}
	switch ev.Kind {
	case wire.Clear:
		return "", s.cleared(ctx, rank, d, ev)
	case wire.Store, wire.Remove:
	default:
		return "", nil
	}
	tier := tree.Tier(ev.Tier()) // both count device, host, disk, shared, unknown
	switch {
	case d == CacheOwner && tier == tree.Device:
		s.tally.reason(wire.ReasonOwnerTier)
		return "", nil
	case ev.Remote():
		s.tally.count(skipLocality)
		return "", nil
	case !s.prefixGroup(ev):
		return "", nil
	case len(ev.Hashes) == 0:
		return "", nil
	}
	if tier == tree.Unknown {
		s.tally.count(noteUnknownMedium)
	}
	at, err := s.slot(ctx, rank, d)
	if at == nil || err != nil {
		return "", err
	}
	if s.opt.ZeroParentUnknown {
		unzero(ev)
	}
	h := at.Head
	h.Tier = tier
	switch {
	case ev.Kind == wire.Remove:
		s.tally.removed += uint64(len(ev.Hashes))
		return "", s.names(ctx, (*shard.Port).Remove, h, ev.Hashes)
	case ev.Placeholder:
		s.tally.placed += uint64(len(ev.Hashes))
		return "", s.names(ctx, (*shard.Port).Place, h, ev.Hashes)
	case s.unsound(ev):
		return CauseUnsound, errFault
	case ev.Contents != nil:
	case ev.OpaqueTokens || len(ev.Tokens) == 0:
		s.tally.count(skipOpaque)
		return "", nil
	case !ev.Even():
		s.tally.reason(wire.ReasonTokenCount)
		return "", nil
	}
	return "", s.store(ctx, rank, d, h, ev)
}

// worker is whom a stream follows, where its events say whose they are.
type worker struct {
	known       bool
	id          uint64
	incarnation uint32
}

// owner tells which rank an event is about, and counts if that is none of the
// stream's. Some dialects give each event its rank, and its worker: a stream
// follows the first that it hears of, for two have no names in common.
func (s *Stream) owner(rank int, ev *wire.Event) (own int, mine bool, cause Cause) {
	if ev.HasRank {
		if ev.Rank < 0 || ev.Rank >= int64(s.maxRanks) {
			s.tally.count(skipRank)
			return 0, false, ""
		}
		rank = int(ev.Rank)
		if rank != s.opt.Rank && s.opt.Attached != nil {
			return 0, false, CauseRank
		}
	}
	if ev.HasWorker {
		if w := &s.worker; !w.known || w.incarnation != s.incarnation {
			*w = worker{true, ev.Worker, s.incarnation}
		}
		if ev.Worker != s.worker.id {
			s.tally.count(skipWorker)
			return 0, false, ""
		}
	}
	return rank, true, ""
}

// zeroName stands for the name 0 where 0 as a parent says that it is not known.
const zeroName = 0x7d1a53c60be4f29a

// unzero takes the special meaning from the name 0: as a parent it is waited
// for then, like any other.
func unzero(ev *wire.Event) {
	if ev.HasParent && ev.Parent == 0 {
		ev.Parent = zeroName
	}
	for i, h := range ev.Hashes {
		if h == 0 {
			ev.Hashes[i] = zeroName
		}
	}
}

// domain tells whose memory an event is about. ok is false if it is a tier
// instance's own, which names no holder of ours; a cause fences the source.
func (s *Stream) domain(ev *wire.Event) (d Domain, ok bool, cause Cause) {
	switch {
	case len(ev.Ownership) == 0:
		return Worker, true, ""
	case string(ev.Ownership) == ownerPool:
		if s.opt.Pool == PoolNone {
			return 0, false, CauseNoPool
		}
		return CacheOwner, true, ""
	case ev.Kind == wire.Skipped || ev.Kind == wire.Rejected:
		return 0, false, "" // its medium and locality may be what is wrong with it
	case ev.Tier() != wire.TierDevice || ev.Remote():
		return 0, false, ""
	}
	return 0, false, CauseOwnership
}

// prefixGroup reports whether an event's group gives prefix residency, and
// counts if not. Removes carry no kind: theirs is their group's.
func (s *Stream) prefixGroup(ev *wire.Event) bool {
	group := int64(0)
	if ev.HasGroup {
		group = ev.Group
	}
	class := wire.Dense
	if ev.Kind == wire.Store {
		class = ev.Class()
	}
	switch {
	case class == wire.Sparse:
		s.tally.count(skipKind)
	case group != s.opt.MainGroup && class == wire.Unstated:
		s.tally.count(skipUnlearnedGroup)
	case group != s.opt.MainGroup:
		s.tally.count(skipGroup)
	case class == wire.Unstated && !ev.Placeholder && !ev.Even():
		s.tally.count(skipKind)
	default:
		return true
	}
	return false
}

// cleared empties one domain of one rank.
func (s *Stream) cleared(ctx context.Context, rank int, d Domain, ev *wire.Event) error {
	if d == Worker && len(ev.Medium) > 0 {
		s.tally.count(skipScopedClear)
		return nil
	}
	at, err := s.slot(ctx, rank, d)
	if at == nil || err != nil {
		return err
	}
	s.tally.clears++
	if err := s.clear(ctx, at); err != nil {
		return err
	}
	s.mend(d, rank)
	return nil
}

// names writes a remove or a location update, in as many records as it takes.
func (s *Stream) names(ctx context.Context, reserve func(*shard.Port, context.Context, shard.Head, int) ([]uint64, error), h shard.Head, names []uint64) error {
	limit := s.port.MaxNames()
	for len(names) > 0 {
		n := min(limit, len(names))
		words, err := reserve(s.port, ctx, h, n)
		if s.room(err) {
			words, err = reserve(s.port, ctx, h, n)
		}
		if err != nil {
			return err
		}
		copy(words, names[:n])
		names = names[n:]
	}
	return nil
}

// refused reports whether an owner's error is about the request alone; others
// end the stream.
func refused(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, shard.ErrClosed)
}
