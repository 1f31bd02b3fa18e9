// Package residency is the control plane of cache owners: who wishes to attach,
// which slot serves whom, under which generation, and when a slot may be
// believed. It moves no block: what has to happen to streams and to the index
// it asks of a [Plane].
//
//	worker ──Register──▶ Registry ─────────────── routes ──▶ Plane.Publish
//	 (all ranks,          │  scope: host, max slots            (readers)
//	  one lease)          │  owner: incarnation → intent
//	                      ▼
//	                   keeper, one goroutine per owner
//	                      │ intents say what should be
//	                      ▼
//	                    slot ── Barrier, Open, Start, Stop ──▶ Plane
//	                      ▲                                      │
//	                      └────── Fault, Ended, Changed ◀────────┘
//
// # A slot
//
//	           attach                    listener ended
//	DETACHED ---------> ATTACHED/ready ----------------> QUARANTINED
//	   ^  ^                |     |                            |
//	   |  +---- detach ----+     | gap (engine-local), fault  | detach
//	   |                         v                            |
//	   |                      FENCED  (until worker restart)  |
//	   +------------------------------------------------------+
//
// Where gaps are repaired before a slot is retired, a gap leaves it attached:
// while a repair is under way, and until its end is applied, the plane says
// [PlaneStatus].Repairing and the slot is neither schedulable nor hint ready. It
// is fenced if the repair fails.
//
// Each attach has a generation, one more than the last; what an older one
// reports is counted and ignored. Three flags stick to a slot: worker_failed,
// cache_owner_failed and source_failed. They end with the incarnation that
// earned them: another incarnation of the worker gets a new slot.
//
// What is to be done with a slot follows from the live intents of its owner,
// and from nothing else:
//
//	none   detach; a durable slot that once served stays and counts, any other
//	       is removed
//	one    attach, unless it is attached for that incarnation; before, detach
//	       what else there is
//	more   ambiguous: detach, and wait until one is left
//
// # Two lifetimes
//
// A durable owner's pool outlives the engine: its entries stay over detach and
// attach, and serve hints meanwhile. An engine-local one dies with the engine:
// both domains are emptied by every attach and detach, and a lost batch fences
// both.
//
// # Visibility
//
// [Registry.Routing] is an immutable snapshot behind one atomic pointer. What it
// says is in the answers of queries already: the plane is told first. Every
// change takes away what it puts in doubt before the call that causes it
// returns, raises the revision, and only then begins what takes time. Readiness
// is judged from [Facts] that were gathered without a lock; the verdict is kept
// only if the revision is still the one they were gathered under.
//
// A registration is all or nothing: its slots attach in rank order, and none is
// schedulable before all are. The last step makes all of them so in one
// snapshot.
//
// # Concurrency
//
// Every method of Registry may be called by any goroutine. One mutex guards the
// records; it is never held while anything is waited for, and no reader of the
// routing takes it. One goroutine per owner (its keeper) does what takes time,
// one step after the other; it ends when the owner has neither intents nor a
// slot. Instead of a queue of commands a keeper has one pending wake-up and
// looks at what should be, so there is nothing to overflow.
//
// Plane calls Fault, Ended and Changed from its own goroutines. They never wait
// for a keeper. All other waiting is bounded by a context, all clean-up by
// [Options.CleanupTimeout].
//
// # Proof
//
// Subtests carry the ids of the rows that they hold, and a test finds one for
// every row. What this package promises of steps, engine holds over sockets:
// readers at full speed, every step cut off, and attachments by the thousand:
//
//	CAIRN_CYCLES=10000 go test -run TestCycles -v ./engine
package residency
