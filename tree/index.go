package tree

import (
	"math/rand/v2"
	"sync/atomic"
)

// Options are the settings of an index. The zero value is right.
type Options struct {
	// WaitingPerHolder bounds the blocks one holder may have waiting for an
	// unknown parent; beyond it the oldest are dropped and counted. Default
	// 65,536.
	WaitingPerHolder int
	// Waiting bounds the blocks that wait over all holders; beyond it a holder
	// that announces one more gives up its own oldest. Default 1,048,576.
	Waiting int
	// Bytes is the byte budget of arenas and tables, hard; 0: none. At least
	// 2 MiB. Beyond it whoever holds most loses blocks, so that those who want
	// more than there is hold equally many; what still finds no room is refused:
	// see Stats.
	Bytes int
	// Seed fixes the hashing of internal tables, for tests; 0 draws one.
	Seed uint64
}

// The defaults of Options.WaitingPerHolder and Options.Waiting.
const (
	DefaultWaiting    = 1 << 16
	DefaultWaitingAll = 1 << 20
)

// Index is the index itself: see the package comment.
type Index struct {
	// Readers' side: written by the writer alone, and seldom, read by anyone.
	// What every walk looks at comes first.
	epoch      atomic.Uint64   // moves whenever owners or shown change
	readHook   func()          // tests: called within a reader's walk
	shown      []atomic.Uint64 // a bit by lane id: its holder may be told of
	links      links
	runs       [classes]slab
	cells      [cellClasses]slab
	owners     []atomic.Uint32 // by lane id: whose it is; 0: nobody's
	seats      atomic.Uint64   // moves behind each change of an owner
	sides      slab
	nameArrays [classes]slab
	planes     [classes - 4]slab // readers look at those of nameless positions alone
	thinned    []atomic.Uint64   // a bit by holder: it has lost blocks for the budget

	// What readers write, when they lose, and the writer's answers to it.
	_             cacheLine
	retries       atomic.Uint64
	pleas         atomic.Pointer[plea]
	pleasAnswered atomic.Uint64

	// The writer's own.
	_          cacheLine
	meter      meter
	budget     budget
	logs       slab
	names      nameTable // name → block, where it is the run's
	exceptions table     // (lane, block) → support list
	siblings   table     // (run, offset) → children there beyond the first

	supports     slab
	ownNamesLive int // in the tables of all holders

	waits       slab
	waitSeq     uint64
	waitLimit   int // per holder
	waitBound   int // in all
	waitingAll  int
	waitingGone int // of cleared holders, not yet taken back
	waitParents table
	waitNames   table

	holders     []holderState
	holdersFree []uint32
	holdersLive int
	lanes       []laneState
	lanesFree   []uint32
	retired     []uint32
	partly      uint32 // run that the first of them is being taken out of, 0 if none

	op          op
	homes       [maxHomes]uint64 // hashes of names looked up together
	suspects    [maxHomes]uint8  // those that some block may bear
	lines       [lead]uintptr    // addresses for fetchLines
	fetched     int              // blocks of the event whose lines are asked for,
	expected    int              // and those of its holder's own table
	recents     []uint64         // entries of the last names of events
	comings     [Foresight]coming
	comingNext  int
	untold      int // stored events since one was told of
	dead        bitmap
	denseFrom   int      // minDense, 0 in tests
	groupFrom   uint16   // minGroup
	looseFrom   int      // minLoose
	moveFrom    uint32   // the class, 1 in tests
	shrunk      []uint32 // runs whose end has died, to be moved
	lonely      []uint32 // runs that lead to nothing but one other, to become one with it
	removals    int      // events, for mergeEvery
	line        []uint32 // a chain that becomes one
	joined      []lane   // its lanes as one
	joinedAt    []uint16 // by lane id: where it is in joined, if it is there
	lifted      []lifted // lanes of dense cells that the call has changed, or may have
	laneScratch []lane
	tally       [maxCap + 1]uint16 // lanes by reach
	changed     [numGroups]int
	seen        []uint64 // a filter of the names of an event
	moves       []move
	path        []spot
	units       []uint64
	pair        []uint64
	work        []uint64
	waitQueue   []uint32
	logScratch  []uint32
	logAges     []uint64

	hook func(point) // tests: called between two stores of the writer
}

// cacheLine keeps what lies before it and behind it out of one line of memory:
// a word that is written takes its line from all who read in it.
type cacheLine [64]byte

// maxHomes is how many names are looked up together at most.
const maxHomes = 64

// point names a place between two stores that readers can tell apart.
type point uint8

const (
	stepLink point = iota
	stepUnlink
	stepVersion
	stepCell
	stepGroup
	stepAppend
	stepRaise
	stepLower
	stepRows
	stepNames
	stepView
	stepOwner
	numPoints
)

// mark is where tests stop the writer.
func (x *Index) mark(p point) {
	if x.hook != nil {
		x.hook(p)
	}
}

// New makes an empty index.
func New(o Options) *Index {
	x := &Index{
		waitLimit: o.WaitingPerHolder, denseFrom: minDense, groupFrom: minGroup, looseFrom: minLoose,
		moveFrom: moveFrom, untold: Foresight + 1,
	}
	if x.waitLimit <= 0 {
		x.waitLimit = DefaultWaiting
	}
	if x.waitBound = o.Waiting; x.waitBound <= 0 {
		x.waitBound = DefaultWaitingAll
	}
	seed := o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	x.budget.init(o.Bytes, mix(seed, 5, 0))
	x.meter.limit = x.budget.limit / 64 * 63 // the rest is for small segments of tables
	m, words := &x.meter, x.budget.chunkWords()
	m.chunk = words
	if x.budget.limit > 0 {
		x.waitBound = min(x.waitBound, x.budget.limit/8/waitingCost)
	}
	for c := range x.runs {
		x.runs[c].init(strideOf(uint32(c)), words, m)
		x.nameArrays[c].init(capOf(uint32(c)), words, m)
	}
	for k := range x.cells {
		x.cells[k].init(cellStride(k), words, m)
	}
	for k := range x.planes {
		x.planes[k].init(1+1<<k, words, m)
	}
	x.sides.init(sideWords, words, m)
	x.logs.init(logWords, words, m)
	x.supports.init(supportWords, words, m)
	x.waits.init(waitWords, words, m)
	x.links.init(mix(seed, 1, 0), m)
	x.names.init(mix(seed, 2, 0), m)
	for i, t := range []*table{&x.exceptions, &x.siblings, &x.waitParents, &x.waitNames} {
		t.init(mix(seed, 3, uint64(i)), fewSegments, m)
	}
	x.recents = make([]uint64, recentEnds)
	x.owners = make([]atomic.Uint32, maxLanes)
	x.shown = make([]atomic.Uint64, maxLanes/64)
	x.thinned = make([]atomic.Uint64, 1<<16/64)
	x.lanes = make([]laneState, 1)
	m.bytes += len(x.owners)*4 + (len(x.shown)+len(x.thinned)+len(x.recents))*8 + len(x.budget.behind)
	return x
}

// Step gives back some memory of cleared holders, and makes one run of a
// chain that dead branches have left. See Writer.
func (x *Index) Step() bool {
	x.called()
	x.mergeLonely()
	return x.reclaim(reclaimPerStep)
}

// Stats describes the index. See Writer.
func (x *Index) Stats() Stats {
	s := Stats{
		Holders: x.holdersLive, Waiting: x.waitingAll, Names: x.names.live + x.ownNamesLive, Links: x.links.live,
		Deferred: len(x.retired), Retries: x.retries.Load(), Pleas: x.pleasAnswered.Load(),
	}
	for i := range x.holders {
		if id := x.holders[i].lane; id != 0 {
			s.Residencies += x.lanes[id].residencies
		}
	}
	for c := range x.runs {
		s.Runs += x.runs[c].live
	}
	s.Bytes, s.Budget = x.meter.bytes, x.budget.limit
	s.Evicted, s.Refused = x.budget.evicted, x.budget.refused
	return s
}
