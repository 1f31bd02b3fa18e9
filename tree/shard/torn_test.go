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
			if at := g.position(); at.Any && at.Seq != uint64(at.Incarnation) {
				t.Errorf("incarnation %d with the sequence of %d", at.Incarnation, at.Seq)
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
		g.publish(i, uint64(i))
	}
	close(end)
	readers.Wait()
}
