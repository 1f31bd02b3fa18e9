package shard

import (
	"sync"
	"testing"
)

// TestPositionIsNeverTorn drives progress alone, much faster than a ring could:
// a sequence read beside the state of another incarnation would show.
func TestPositionIsNeverTorn(t *testing.T) {
	var g progress
	incarnations := uint32(3_000_000)
	if testing.Short() || RaceEnabled {
		incarnations = 200_000
	}
	end := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for n := 0; ; n++ {
			applied := g.position(sawApplied, &g.applied)
			begun := g.position(sawBegun, &g.begun)
			for _, at := range []Position{applied, begun} {
				if at.Any && at.Seq != uint64(at.Incarnation) {
					t.Errorf("incarnation %d with the sequence of %d", at.Incarnation, at.Seq)
					return
				}
			}
			if begun.Incarnation == applied.Incarnation && !begun.Covers(applied) {
				t.Errorf("applied %+v, and then begun no more than %+v", applied, begun)
				return
			}
			if n%64 == 0 {
				select {
				case <-end:
					return
				default:
				}
			}
		}
	})
	for i := range incarnations {
		g.restart(i)
		if i%2 == 0 {
			g.begin(i, uint64(i)) // else the batch is empty
		}
		g.publish(i, uint64(i))
	}
	close(end)
	readers.Wait()
}
