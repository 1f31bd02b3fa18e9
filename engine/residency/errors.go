package residency

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrClosed: the registry was closed.
	ErrClosed = errors.New("residency: closed")
	// ErrNoHost: the scope has no host.
	ErrNoHost = errors.New("residency: no host serves the scope")
	// ErrHostExists: the scope has a host already; a second one would make two
	// supervisors of one slot.
	ErrHostExists = errors.New("residency: the scope has a host")
	// ErrHostWithdrawn: the scope's host ended while the call was under way.
	ErrHostWithdrawn = errors.New("residency: the host was withdrawn")
	// ErrUnknownLease: there is no such registration; it may have expired.
	ErrUnknownLease = errors.New("residency: no such lease")
	// ErrUnknownOwner: no slot has the owner.
	ErrUnknownOwner = errors.New("residency: no such owner")
	// ErrReleased: the registration was released or expired while it was under
	// way.
	ErrReleased = errors.New("residency: the registration was released")
	// ErrFenced: the incarnation's slot was fenced; only a new incarnation of
	// the worker is attached again.
	ErrFenced = errors.New("residency: fenced until the worker restarts with a new incarnation")
	// ErrInUse: the owner has live intents.
	ErrInUse = errors.New("residency: the owner is in use")
)

// FieldError says which field cannot be used, with its value and what would be
// right.
type FieldError struct {
	Field string
	Value string
	Want  string
}

// Error reads: residency: ingress_protocol "x": want one of ….
func (e *FieldError) Error() string {
	return "residency: " + e.Field + " " + strconv.Quote(e.Value) + ": want " + e.Want
}

// CapacityError: the scope has no free slot for an owner.
type CapacityError struct {
	Scope    string
	MaxSlots int
	Owner    OwnerID
	Rank     uint32
}

// Error names the scope, its limit, and who found no room.
func (e *CapacityError) Error() string {
	return fmt.Sprintf("residency: scope %q: all %d slots are taken, none is free for owner %q (rank %d): raise max_slots or remove a detached owner",
		e.Scope, e.MaxSlots, e.Owner, e.Rank)
}

// ChangedError: a known intent came again with another content. What was known
// stays as it was.
type ChangedError struct {
	Owner       OwnerID
	Incarnation uint64
	Field       string
	Have, Got   string
}

// Error names the intent, the field and both values.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("residency: intent %d of owner %q is known with %s %q, not %q: a changed intent needs a new incarnation",
		e.Incarnation, e.Owner, e.Field, e.Have, e.Got)
}

// ImmutableError: an intent differs from its owner's slot in something that
// never changes during the slot's life.
type ImmutableError struct {
	Owner     OwnerID
	Field     string
	Have, Got string
}

// Error names the field and both values.
func (e *ImmutableError) Error() string {
	return fmt.Sprintf("residency: the slot of owner %q has %s %q, the intent wants %q: it cannot change while the slot lives",
		e.Owner, e.Field, e.Have, e.Got)
}

// AmbiguousError: more than one live intent claims an owner.
type AmbiguousError struct {
	Owner        OwnerID
	Incarnations []uint64 // ascending
}

// Error names the owner and the incarnations.
func (e *AmbiguousError) Error() string {
	all := make([]string, len(e.Incarnations))
	for i, n := range e.Incarnations {
		all[i] = strconv.FormatUint(n, 10)
	}
	return fmt.Sprintf("residency: owner %q is claimed by incarnations %s: want one", e.Owner, strings.Join(all, ", "))
}

// HostMismatchError: an intent targets another life of the host.
type HostMismatchError struct {
	Scope     string
	Have, Got uint64
}

// Error names both instances.
func (e *HostMismatchError) Error() string {
	return fmt.Sprintf("residency: scope %q: target_host %d, but the host is %d: find the host again and register anew", e.Scope, e.Got, e.Have)
}

// AttachError says which step of an attach failed.
type AttachError struct {
	Owner      OwnerID
	Generation uint64
	Step       string // build, barrier, open, start, advertise, ready
	Err        error
}

// Error names owner, generation and step.
func (e *AttachError) Error() string {
	return fmt.Sprintf("residency: attach of owner %q, generation %d: %s: %s", e.Owner, e.Generation, e.Step, inner(e.Err))
}

// Unwrap returns the cause.
func (e *AttachError) Unwrap() error { return e.Err }

// RankError says which rank of a registration failed.
type RankError struct {
	Rank  uint32
	Owner OwnerID
	Err   error
}

// Error names the rank and its owner.
func (e *RankError) Error() string {
	return fmt.Sprintf("residency: rank %d, owner %q: %s", e.Rank, e.Owner, inner(e.Err))
}

// inner is the text of an error behind another one of ours, which has said the
// package's name.
func inner(err error) string { return strings.TrimPrefix(err.Error(), "residency: ") }

// Unwrap returns the cause.
func (e *RankError) Unwrap() error { return e.Err }

// RegisterError is how a registration ended: with the error that came first, be
// it the caller's cancellation, the worker's own error, or a rank that could
// not be attached. What went wrong afterwards, while it was undone, stands in
// Secondary and never in the first one's place.
type RegisterError struct {
	ID        string
	First     error
	Secondary []error
}

// Error begins with the first error.
func (e *RegisterError) Error() string {
	s := fmt.Sprintf("residency: registration %q: %s", e.ID, inner(e.First))
	for _, err := range e.Secondary {
		s += "; then: " + inner(err)
	}
	return s
}

// Unwrap returns the first error, then the others.
func (e *RegisterError) Unwrap() []error { return append([]error{e.First}, e.Secondary...) }
