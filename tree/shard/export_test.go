package shard

// Queued returns how many Do calls wait for the writer.
func (s *Shard) Queued() int { return len(s.control) }

// RingWords returns the size of a port's ring.
func (p *Port) RingWords() int { return p.ring.Cap() }

// Watched reports whether somebody waits for the port.
func (p *Port) Watched() bool { return p.Watch() != nil }

// Watch identifies what those who wait for the port wait at; nil: nobody does.
func (p *Port) Watch() *watch { return p.watch.Load() }

// MinRingBytes is the smallest ring.
const MinRingBytes = minRingBytes

// ProgressChunk is how many ports' Progress stand side by side.
const ProgressChunk = progressChunk
