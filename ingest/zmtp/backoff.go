package zmtp

import (
	"context"
	"math/rand/v2"
	"time"
)

// Defaults of Backoff.
const (
	DefaultBackoffMin = 50 * time.Millisecond
	DefaultBackoffMax = 5 * time.Second
)

// Backoff is an exponential back-off with jitter: each delay lies between half
// and the whole of a value that doubles from Min to Max, so that a thousand
// streams whose host came back do not all dial in the same millisecond. The
// zero value is ready to use. Not safe for concurrent use.
type Backoff struct {
	Min, Max time.Duration // 0 means the defaults

	next time.Duration
}

// Next returns the delay before the next attempt and doubles the one after it.
func (b *Backoff) Next() time.Duration {
	lo := defaultTo(b.Min, DefaultBackoffMin)
	hi := max(lo, defaultTo(b.Max, DefaultBackoffMax))
	if b.next == 0 {
		b.next = lo
	}
	d := b.next
	b.next = min(hi, 2*d)
	return d/2 + rand.N(d/2+1)
}

// Reset starts again at Min: the last attempt bore fruit.
func (b *Backoff) Reset() { b.next = 0 }

// Wait sleeps for Next, or until ctx ends, whose cause it then returns.
func (b *Backoff) Wait(ctx context.Context) error {
	t := time.NewTimer(b.Next())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
