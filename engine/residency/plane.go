package residency

import "context"

// Plane is what a slot's life is made of: streams and an index. The engine
// implements it; tests give one that can fail and wait at every step.
//
// Calls about one slot come one after the other, except Clear, Fence, Publish
// and Status, which may come at any time, and never wait for a stream. A call whose
// context ends returns soon, having undone what it began.
//
// The plane reports through [Registry.Fault], [Registry.Ended] and
// [Registry.Changed].
type Plane interface {
	// Build gives a slot its place: an empty holder in each domain, in no
	// answer yet.
	Build(ctx context.Context, s Source) error
	// Barrier empties domains of a slot and makes void whatever of an older
	// generation is still on its way to them. It returns when that is applied:
	// the slot's next cursor.
	Barrier(ctx context.Context, s SlotID, generation uint64, d Domains) (Cursor, error)
	// Open makes the ingress of an attachment: everything that Start needs.
	Open(ctx context.Context, a Attachment) error
	// Start sets the subscribers going. It does not wait for a connection.
	Start(ctx context.Context, a Attachment) error
	// Advertise makes the attachment record known, Withdraw takes it back. A
	// record whose Advertise failed may have landed: it is withdrawn, too.
	Advertise(ctx context.Context, a Attachment) error
	Withdraw(ctx context.Context, a Attachment) error
	// Stop ends the ingress of a generation. What it had received is applied to
	// the domains in drain and to no other. If the streams have not ended when
	// ctx does, they are cut off and the error says so; nothing is left either
	// way. Stopping what was never opened does nothing.
	Stop(ctx context.Context, s SlotID, generation uint64, drain Domains) error
	// Clear empties domains of a slot and voids nothing: what is on its way
	// comes after it. It says so in what the domains' word is worth.
	Clear(ctx context.Context, s SlotID, d Domains) error
	// Fence voids both domains at once: nothing of the slot is visible when it
	// returns, and nothing that is on its way ever will be. It is called on the
	// goroutine that called Fault.
	Fence(s SlotID, generation uint64) error
	// Remove takes a slot out of the index, both domains.
	Remove(ctx context.Context, s SlotID) error
	// Publish shows routes to readers, all of them at once: routes that changed,
	// and the ids of slots that are routed no more. It is called with the
	// registry's lock held, so revisions come in order; it must not call back.
	Publish(revision uint64, changed []Route, gone []SlotID)
	// Status says what the plane knows of a slot.
	Status(s SlotID) PlaneStatus
}

// PlaneStatus is what the plane itself says of a slot; the registry compares it
// with what it believes.
type PlaneStatus struct {
	Owner      OwnerID
	Record     uint64 // of the attachment that is open; 0: none is
	Worker     Worker // of that attachment
	Generation uint64
	// Reachable: every stream has its link up and its handshake done.
	Reachable bool
	// Applied is the last barrier that is applied.
	Applied Cursor
	// Behind: something was received that is not applied, and never will be
	// unless the slot is attached again.
	Behind bool
	// Repairing: a stream misses something that is being asked for, or what came
	// of it is not applied yet. Both domains are hidden meanwhile.
	Repairing bool
}

// Fault is what a plane reports about an attachment that must not go on.
type Fault uint8

const (
	// FaultSource: a gap or regression of an engine-local stream, ownership the
	// protocol does not have, a batch over its limits or of another rank, an
	// exhausted cursor. It fences both domains.
	FaultSource Fault = iota
	// FaultCacheOwner: an event of the cache owner that cannot be true. It fails
	// the cache owner and quarantines the slot.
	FaultCacheOwner
	// FaultWorker: the worker domain cannot be kept. It fails the worker and
	// quarantines the slot.
	FaultWorker
	numFaults
)

var faultNames = [numFaults]string{"source", "cache_owner", "worker"}

// String returns source, cache_owner or worker.
func (f Fault) String() string {
	if f < numFaults {
		return faultNames[f]
	}
	return "unknown"
}
