package shard

import (
	"sync"
	"testing"
)

// TestPositionIsNeverTorn drives a Progress alone, much faster than a ring could:
// a sequence read beside the state of another incarnation would show.
func TestPositionIsNeverTorn(t *testing.T) {
	var g Progress
	incarnations := uint32(3_000_000)
	if testing.Short() || RaceEnabled {
		incarnations = 200_000
	}
	end := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		of, many := []*Progress{&g}, []Position(nil)
		for n := 0; ; n++ {
			applied := g.Applied()
			many = AppendApplied(many[:0], of)
			begun := g.Begun()
			for _, at := range []Position{applied, many[0], begun} {
				if at.Any && at.Seq != uint64(at.Incarnation) {
					t.Errorf("incarnation %d with the sequence of %d", at.Incarnation, at.Seq)
					return
				}
			}
			for _, at := range [][2]Position{{applied, many[0]}, {many[0], begun}} {
				if at[1].Incarnation == at[0].Incarnation && !at[1].Covers(at[0]) {
					t.Errorf("applied %+v, then %+v, and then begun no more than %+v", applied, many[0], begun)
					return
				}
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
