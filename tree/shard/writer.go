package shard

import (
	"context"

	"github.com/cairn-kv/cairn/tree"
)

const (
	// A turn of one port ends after so many records, or words.
	turnRecords = 64
	turnWords   = 8192
	// Every so many turns a busy writer does a piece of deferred work.
	stepTurns = 64
)

// run is the writer goroutine.
func (s *Shard) run(ctx context.Context) {
	defer close(s.done)
	// A flag instead of ctx.Err in the loop, for that may take a lock.
	defer context.AfterFunc(ctx, func() {
		s.closing.Store(true)
		s.bell.Ring()
	})()
	for next := 0; ; {
		s.runControl()
		if s.closing.Load() {
			break
		}
		if slot := s.bell.Next(next); slot >= 0 {
			next = slot + 1
			s.turn(s.ports[slot])
			if s.turns++; s.turns%stepTurns == 0 {
				s.index.Step()
			}
			continue
		}
		if s.index.Step() {
			continue
		}
		// Ends with ctx too; then the flag is set, now or by a Ring to come.
		_ = s.bell.Wait(ctx)
	}
	s.finish()
}

// finish closes all rings and applies what they hold. It needs no doorbell: a
// closed ring gets nothing new, so each is served until it is empty.
func (s *Shard) finish() {
	for _, p := range s.ports {
		if p != nil {
			p.ring.Close()
		}
	}
	for s.open > 0 {
		for _, p := range s.ports {
			if p != nil {
				s.turn(p)
			}
		}
	}
}

// attach gives p its place. It runs on the writer goroutine, as control.
func (s *Shard) attach(p *Port) {
	p.slot, p.progress = s.bell.Attach(p.ring), s.newProgress()
	if p.slot == len(s.ports) {
		s.ports = append(s.ports, nil)
	}
	s.ports[p.slot] = p
	s.open++
}

// release takes away a port whose ring is closed and empty.
func (s *Shard) release(p *Port) {
	s.bell.Detach(p.slot)
	s.ports[p.slot] = nil
	s.open--
	p.show()
	close(p.released)
}

// turn applies records of one port until its ring is empty or the turn over.
func (s *Shard) turn(p *Port) {
	for records, words := 0, 0; records < turnRecords && words < turnWords; {
		run := p.ring.Peek()
		if run == nil {
			if p.ring.Closed() {
				s.release(p)
			}
			break
		}
		// A run ends where a commit or the buffer ends, and so does a record.
		used := 0
		ahead := foresight{run: run, records: turnRecords - records, words: turnWords - words}
		for used < len(run) && records < turnRecords && words+used < turnWords {
			r := record(run[used:])
			n := r.words()
			s.foretell(&ahead)
			s.apply(p, r[:n:n])
			if r.foreseeable() {
				ahead.told--
			}
			used += n
			records++
		}
		p.ring.Release(used)
		words += used
	}
	p.show() // of a batch that goes on
}

// foresight is how far the index has been told of the records of a run that are
// applied in this turn.
type foresight struct {
	run     []uint64
	used    int // words of it that the index knows of
	told    int // events among them that are still to be applied
	records int // how many more the turn has
	words   int // where a record must begin before, to be in the turn
}

// foretell tells the index of the next records of a run, so that what they need
// is near when it is their turn.
func (s *Shard) foretell(f *foresight) {
	if s.foreseer == nil {
		return
	}
	for f.told < tree.Foresight && f.used < min(len(f.run), f.words) && f.records > 0 {
		r := record(f.run[f.used:])
		n := r.words()
		r = r[:n:n]
		f.used += n
		f.records--
		switch r.kind() {
		case kindStore:
			s.coming = r.store()
			s.foreseer.Coming(r.owner(), &s.coming)
			f.told++
		case kindRemove:
			s.foreseer.ComingRemove(r.owner(), r.names())
			f.told++
		}
	}
}

// apply does what one record says.
func (s *Shard) apply(p *Port, r record) {
	switch r.kind() {
	case kindPad:
		return
	case kindBegin:
		seq, incarnation := r.mark()
		p.progress.begin(incarnation, seq)
		return
	case kindEnd:
		p.tally.Batches++
		p.show()
		seq, incarnation := r.mark()
		if p.progress.publish(incarnation, seq) {
			p.published(seq)
		}
		return
	}
	p.tally.Records++
	if r.gen() != s.gens.current[r.holder()] {
		p.tally.Stale++
		return
	}
	var out tree.Outcome
	switch r.kind() {
	case kindStore:
		s.stored = r.store()
		out = s.index.Store(r.owner(), &s.stored)
	case kindPlace:
		out = s.index.Place(r.owner(), r.names())
	case kindRemove:
		out = s.index.Remove(r.owner(), r.names())
	case kindClear:
		s.index.ClearShard(r.holder(), r.shard())
	}
	p.tally.outcome(out)
}
