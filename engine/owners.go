package engine

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/cairn-kv/cairn/engine/identity"
	"github.com/cairn-kv/cairn/engine/residency"
)

// OnLoss says what a durable owner's inventory is worth after a loss for good:
// the missed batches may have held removals.
type OnLoss uint8

const (
	// ClearOnLoss empties the owner's domain; it goes on, degraded. The default.
	ClearOnLoss OnLoss = iota
	// KeepOnLoss keeps what was learnt, as upstream does: the owner goes on,
	// degraded and advisory, and may be offered in hints.
	KeepOnLoss
)

// ParseOnLoss reads clear, keep, or nothing, which is clear.
func ParseOnLoss(s string) (OnLoss, error) {
	switch s {
	case "", "clear":
		return ClearOnLoss, nil
	case "keep":
		return KeepOnLoss, nil
	}
	return 0, &FieldError{Field: "on_loss", Value: fmt.Sprintf("%q", s), Want: "wants clear or keep"}
}

// String returns clear or keep.
func (o OnLoss) String() string {
	if o == KeepOnLoss {
		return "keep"
	}
	return "clear"
}

// OnGap says what becomes of a slot whose stream misses a batch.
type OnGap uint8

const (
	// RetireOnGap takes an engine-local owner out until its worker restarts, as
	// upstream does; for a durable one the gap is a loss, see OnLoss. The default.
	RetireOnGap OnGap = iota
	// RepairOnGap hides both domains and asks the publisher's replay endpoint, or
	// a snapshot, for what is missing. What cannot be had is RetireOnGap's. A
	// sequence that goes back is never repaired.
	RepairOnGap
)

// ParseOnGap reads retire, repair, or nothing, which is retire.
func ParseOnGap(s string) (OnGap, error) {
	switch s {
	case "", "retire":
		return RetireOnGap, nil
	case "repair":
		return RepairOnGap, nil
	}
	return 0, &FieldError{Field: "on_gap", Value: fmt.Sprintf("%q", s), Want: "wants retire or repair"}
}

// String returns retire or repair.
func (o OnGap) String() string {
	if o == RepairOnGap {
		return "repair"
	}
	return "retire"
}

// OwnerOptions are about owners that attach at run time.
type OwnerOptions struct {
	// OnLoss is for durable owners; an engine-local one is fenced by a loss.
	OnLoss OnLoss
	// OnGap is for all: engine-local and durable ones. Repairs are bounded by
	// Options.Repair, whose Snapshot is asked with the worker's id as the source.
	OnGap OnGap
	// RequireFirstSeq takes a first sequence above 0 for a gap. The topic of an
	// attachment is its own, so what comes first shows what was joined too late
	// for.
	RequireFirstSeq bool
	// Registry tunes the control plane. Its RecordID and Logger are the
	// engine's unless they are set.
	Registry residency.Options
}

// Residency is the control plane of owners that attach at run time: hosts,
// registrations, slots. Workers that register there are sources named by their
// worker id in decimal, their cache owners by the owner id; both are in answers
// from the moment that the registration is complete, and RemoveSource does not
// know them. Any goroutine may use it; Close ends it.
func (e *Engine) Residency() *residency.Registry { return e.owners.registry }

// openOwners gives the engine its control plane.
func (e *Engine) openOwners() {
	o := e.opt.Owners.Registry
	if o.RecordID == nil {
		o.RecordID = identity.AttachmentRecord
	}
	if o.Logger == nil {
		o.Logger = e.opt.Logger.With(slog.String("part", "residency"))
	}
	e.owners = &plane{engine: e, slots: map[residency.SlotID]*attachedSlot{}, names: map[string]*source{}}
	e.owners.registry = residency.New(e.owners, o)
}

// closeOwners ends all attachments, while there are still writers to clear for
// them.
func (e *Engine) closeOwners(ctx context.Context) error {
	if err := e.owners.registry.Close(ctx); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// cacheOwnerKey is what orders cache owners of equal depth: the key derived
// from an identity of the known form, else our own.
func (e *Engine) cacheOwnerKey(s *residency.Source) [16]byte {
	if id, err := identity.ParseCacheOwnerID(string(s.Owner)); err == nil {
		return identity.CacheOwnerKey(id, identity.KnownOrigins)
	}
	return ownerKey(e.opt.Scope, string(s.Owner), int(s.Rank))
}
