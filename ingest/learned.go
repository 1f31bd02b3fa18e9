package ingest

import "sync/atomic"

// Learned is what the streams of one source learn together. The zero value is
// ready; any goroutine may use it.
type Learned struct {
	unit  atomic.Uint64 // tokens; 0 until the first store with tokens
	keyed atomic.Bool
}

// Unit returns how many tokens the index steps by for this source, 0 if that
// is not known yet.
func (l *Learned) Unit() int { return int(l.unit.Load()) }

// Keyed reports whether the source has shown salts or other extra keys.
func (l *Learned) Keyed() bool { return l.keyed.Load() }

// fit returns the unit for blocks of size tokens, which it always divides. It
// only ever becomes smaller.
func (l *Learned) fit(size int) int {
	for {
		old := l.unit.Load()
		unit := old
		switch {
		case old == 0:
			unit = uint64(size)
		case uint64(size)%old != 0:
			unit = gcd(old, uint64(size))
		}
		if unit == old || l.unit.CompareAndSwap(old, unit) {
			return int(unit)
		}
	}
}

func (l *Learned) setKeyed() {
	if !l.keyed.Load() {
		l.keyed.Store(true)
	}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
