package zmtp

import (
	"sync"
	"sync/atomic"
)

// memory bounds what the message buffers of several connections take together,
// in bytes. Safe for concurrent use.
type memory struct {
	limit int64
	used  atomic.Int64
}

// share is what one connection takes of a memory. Its reader claims and
// releases; whoever closes the connection gives back all of it. A nil share has
// no bound. Buffers grow rarely, so that the lock is off the way of messages.
type share struct {
	of     *memory
	mu     sync.Mutex
	held   int64
	closed bool
}

// claim takes n bytes, or reports that they are not there.
func (s *share) claim(n int) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.of.used.Add(int64(n)) > s.of.limit {
		s.of.used.Add(-int64(n))
		return false
	}
	s.held += int64(n)
	return true
}

// release gives n bytes back.
func (s *share) release(n int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.held -= int64(n)
		s.of.used.Add(-int64(n))
	}
}

// close gives back what is held; there will be no more of it.
func (s *share) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.of.used.Add(-s.held)
	s.held = 0
}
