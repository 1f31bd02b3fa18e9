package tree

// Holder names what an answer names: one (source, dp rank) in one residency
// domain, or a pool. It is opaque, never zero, and never used again for
// another holder during the life of an index.
type Holder uint32

// Root chooses one of the disjoint tries of an index. Callers intern
// (model, unit, look-ahead) to a Root; the index gives it no other meaning.
// Valid roots are 0 … MaxRoot.
type Root uint32

// MaxRoot is the largest legal Root.
const MaxRoot Root = 1<<24 - 1

// Tier is where a block lies. Readers see views, never tiers.
type Tier uint8

const (
	Device   Tier = iota // GPU, NPU, HBM
	Host                 // pinned or pageable host memory
	Disk                 // local disk
	External             // shared or remote storage
	Unknown              // a medium no table knows: counts in ViewAny at most
	NumTiers
)

// View is a question about tiers that a depth answers.
type View uint8

const (
	ViewDevice     View = iota // device alone
	ViewHost                   // host alone
	ViewAny                    // any tier of the holder's own
	ViewDeviceHost             // each block on device or host
	ViewExtension              // a device prefix, then host blocks right behind it
	NumViews
)

// Policy says what repeated stores and removes of one name mean.
type Policy uint8

const (
	Copies Policy = iota // a store adds a copy, a remove takes one
	Set                  // resident after a store, absent after one remove
)

// MaxShards is the largest number of TP shards of one holder.
const MaxShards = 16

// Owner is the smallest thing that holds blocks: a tier of a TP shard of a
// holder. Shard is 0 for aggregated streams.
type Owner struct {
	Holder Holder
	Tier   Tier
	Shard  uint8
}

// Store is one stored event: a chain of blocks behind a parent.
type Store struct {
	Root      Root   // where the chain begins if it has no parent
	HasParent bool   // false: the first block is a root block
	Parent    uint64 // name of the parent; 0 is root unless the owner knows a name 0
	Span      int    // units (index positions) of one block, ≥ 1
	// Pairs holds, per block, its name and then its Span content hashes.
	// The index reads it during the call and keeps nothing of it.
	Pairs []uint64
	// KeepMeaning: the event states no extra keys (a store on another medium
	// than the device). A known name keeps its meaning and gains the tier.
	KeepMeaning bool
	// SkipUnknown, with KeepMeaning: names the owner does not know are skipped.
	SkipUnknown bool
}

// Reason says why a whole event was rejected by the index.
type Reason uint8

const (
	Accepted      Reason = iota
	SelfParent           // the parent is among the event's own names
	DuplicateName        // a name twice in one event
	BadOwner             // no such holder, tier or shard
	BadShape             // Pairs is not a multiple of 1+Span, or Span < 1
	Full                 // the index has no room left: ids exhausted
)

// Outcome counts what one call did. Figures are blocks.
type Outcome struct {
	Reason  Reason
	New     int // residencies that did not exist before
	Known   int // residencies that existed: copies, or nothing under Set
	Waiting int // kept aside for an unknown parent
	Dropped int // waiting blocks given up for the bound, oldest first
	Removed int // residencies that ended
	Unknown int // names in a Remove or Place the owner does not hold
	Moved   int // names announced again for other content
	Refused int // not stored: the byte budget left no room; further copies are Known
}

// Writer is the writing half of an index. All methods belong to one
// goroutine at a time, the shard's writer. Readers never wait for it.
type Writer interface {
	// AddHolder makes a holder with the given number of TP shards (1 … MaxShards).
	AddHolder(p Policy, shards int) (Holder, error)
	// Drop takes a holder away for good, at once for readers.
	Drop(h Holder)
	// Clear empties all tiers and shards of a holder, waiting blocks included,
	// at once for readers.
	Clear(h Holder)
	// ClearShard empties one TP shard of a holder.
	ClearShard(h Holder, shard int)
	// Hide takes a holder out of all answers, Show brings it back; blocks stay.
	Hide(h Holder)
	Show(h Holder)
	// Store applies one stored event.
	Store(o Owner, s *Store) Outcome
	// Place adds a tier to names the owner's holder and shard know already
	// (placeholder stores, location updates).
	Place(o Owner, names []uint64) Outcome
	// Remove applies one removed event.
	Remove(o Owner, names []uint64) Outcome
	// Step does a bounded piece of deferred work and reports whether memory of
	// cleared holders is left to be given back.
	Step() bool
	// Stats describes the index now.
	Stats() Stats
}

// Foreseer is a Writer that likes to be told of events ahead, some Foresight of
// them, to have near what they will need. It applies nothing, keeps nothing of
// the arguments, and answers the same whether it was told or not. All arguments
// are hints: any value of them is right, an owner that does not exist too.
type Foreseer interface {
	// Coming tells of a stored event.
	Coming(o Owner, s *Store)
	// ComingRemove tells of a removed event.
	ComingRemove(o Owner, names []uint64)
}

// Depths is how many leading units of a query one holder holds, per view.
type Depths struct {
	Holder Holder
	Units  [NumViews]uint32
}

// Level is holders that have the same depths of a query, as in Depths. Where
// they are many they are a set of bits, which All and Append read out; a copy of
// a Level is the same level, valid no longer than it.
type Level struct {
	Units [NumViews]uint32

	of         *answer
	from, to   int32 // those of its holders
	set, words int32 // and those of its sets, if it has one: a bit by lane id
}

// Reader answers queries. A Reader is one goroutine's; make one per
// goroutine or pool them. Readers take no lock and wait for nobody.
type Reader interface {
	// Match walks contents from root and returns every visible holder with a
	// depth above zero in some view, deepest ViewAny first, equals in no order.
	// The slice is the reader's own, valid until its next Match. contents must
	// not change until then either: Names reads it again.
	Match(root Root, contents []uint64) []Depths
	// Names appends to dst the engine's names of the leading blocks of the
	// last Match that h holds in view, root first, at most depth units deep.
	// It may give fewer than the depth promised, never a false one: it ends at
	// the first position inside a block of several units, and where tiers or TP
	// shards share no one name. ViewExtension gives none.
	Names(dst []uint64, h Holder, v View, depth int) []uint64
}

// LevelReader is a reader that answers by depth: those of *Index are.
type LevelReader interface {
	Reader
	// Levels is Match by depth instead of by holder: in large fleets most holders
	// have the same, a system prompt and no more, and the answer is a bit for each
	// of them. Every holder is in one level; levels come deepest ViewAny first, none
	// is empty, and several may be alike. They are the reader's own, valid until its
	// next Match or Levels.
	Levels(root Root, contents []uint64) []Level
}

var _ LevelReader = (*reader)(nil)

// Interface is an index as the engine uses it: *Index in production, the
// reference model in tests.
type Interface interface {
	Writer
	NewReader() Reader
}

// Stats describes an index.
type Stats struct {
	Holders     int
	Residencies int    // (holder, tier, name) that every TP shard holds
	Waiting     int    // blocks kept aside for an unknown parent; of cleared holders none
	Runs        int    // live runs
	Names       int    // entries in the name table
	Links       int    // entries in the child table
	Bytes       int    // memory of arenas and tables
	Deferred    int    // cleared holders whose memory is not yet back
	Retries     uint64 // walks that readers began anew
	Pleas       uint64 // queries the writer answered for readers that lost too often
	Budget      int    // what Bytes may be at most; 0: no limit
	Evicted     uint64 // residencies taken away for the budget
	Refused     uint64 // blocks not stored for the budget
}
