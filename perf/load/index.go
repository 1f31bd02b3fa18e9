package load

import (
	"fmt"

	"github.com/cairn-kv/cairn/perf/corpus"
)

// Index is a contestant: anything that is told of stores and removes and asked
// about prompts. One goroutine calls Apply, Sync and Reader.
type Index interface {
	// Apply takes in events in their order: stores, removes, clears. It may
	// return before they can be seen. It keeps nothing of them.
	Apply(events []corpus.Op)
	// Sync returns once everything applied can be seen by readers.
	Sync()
	// Reader makes a reader. Each belongs to one goroutine; they work beside
	// Apply if the contestant is concurrent.
	Reader() Reader
}

// Reader asks a contestant.
type Reader interface {
	// Match finds the leading blocks every holder has and returns how many
	// holders have one at least. The answer stays in whatever form the
	// contestant gives it, with all its figures there.
	Match(contents []uint64) int
	// Digest is the digest of the last Match, on any tier: the sum of
	// corpus.Digest over holders with a depth above 0.
	Digest() uint64
}

// Contestant makes indexes of one kind.
type Contestant struct {
	Name       string
	About      string // what it is: module, version, structure, settings
	Concurrent bool   // readers may work beside the writer
	// Factors a corpus may have. A corpus with others is not played.
	Factors corpus.Factors
	// Holders is the most holders it takes; 0: any number.
	Holders int
	// New makes an empty index for the holders of a corpus.
	New func(corpus.Header) (Index, error)
}

// takes says why a corpus cannot be played, nil if it can.
func (c *Contestant) takes(h corpus.Header) error {
	if other := h.Factors &^ (c.Factors | corpus.Equal | corpus.Holes); other != 0 {
		return fmt.Errorf("does not know %v", other)
	}
	if c.Holders > 0 && h.Holders > c.Holders {
		return fmt.Errorf("takes at most %d holders", c.Holders)
	}
	return nil
}

// Sized is an index that knows what it takes, beyond what the heap shows.
type Sized interface {
	// Bytes is the memory of the index.
	Bytes() int
}
