package residency

import (
	"errors"

	"github.com/cairn-kv/cairn/engine/identity"
)

// Protocol is an ingress protocol: what a raw stream's word covers, and how long
// the cache owner's inventory lives. Its spellings stand in package identity.
type Protocol = identity.Protocol

const (
	// FrameworkV1 is a plain engine stream without owned residency. No slot
	// accepts it.
	FrameworkV1 = identity.Framework
	// VLLMResidencyV1 is durable and advisory: a guard process keeps the pool
	// across restarts of the engine.
	VLLMResidencyV1 = identity.VLLMResidency
	// HiCacheV1 is engine-local: the pool's memory dies with the engine.
	HiCacheV1 = identity.HiCache
)

// Domains is a set of residency domains.
type Domains uint8

const (
	// WorkerDomain is the framework's own cache.
	WorkerDomain Domains = 1 << iota
	// CacheOwnerDomain is the pool of the cache library.
	CacheOwnerDomain
	// BothDomains are the two.
	BothDomains = WorkerDomain | CacheOwnerDomain
)

// String returns worker, cache_owner, both or none.
func (d Domains) String() string {
	switch d {
	case WorkerDomain:
		return "worker"
	case CacheOwnerDomain:
		return "cache_owner"
	case BothDomains:
		return "both"
	}
	return "none"
}

// ErrDomain says that a clear's domain is stated and is none.
var ErrDomain = errors.New(`residency: domain: want "worker" or "cache_owner", or no such key for both`)
