package fleet

// slot is one place where a block can be, of one TP shard: a domain and a tier.
type slot uint8

const (
	onDevice   slot = iota // worker's device
	onHost                 // worker's host memory
	onDisk                 // worker's disk
	poolMemory             // cache owner's host memory
	poolDisk               // cache owner's disk
	numSlots
)

func (s slot) pool() bool { return s >= poolMemory }

// kind is what an event says.
type kind uint8

const (
	stored  kind = iota
	located      // a store without tokens: known names, one tier more
	removed
	cleared // the worker's tiers, or the pool's, by slot
)

// event is one published event. Blocks of a stored one are a chain.
type event struct {
	kind   kind
	slot   slot
	blocks []block
}
