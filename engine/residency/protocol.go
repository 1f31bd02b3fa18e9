package residency

import (
	"errors"
	"strings"
)

// Protocol is an ingress protocol: what a raw stream's word covers, and how long
// the cache owner's inventory lives.
type Protocol uint8

const (
	// FrameworkV1 is a plain engine stream without owned residency. No slot
	// accepts it.
	FrameworkV1 Protocol = iota
	// VLLMResidencyV1 is durable and advisory: a guard process keeps the pool
	// across restarts of the engine.
	VLLMResidencyV1
	// HiCacheV1 is engine-local: the pool's memory dies with the engine.
	HiCacheV1
	numProtocols
)

// protocolSpellings are the wire values, the canonical one first. Which one
// HiCache builds send is not certain, so both are taken.
var protocolSpellings = [numProtocols][]string{
	FrameworkV1:     {"framework_v1"},
	VLLMResidencyV1: {"vllm_residency_v1"},
	HiCacheV1:       {"sglang_hicache_v1", "sglang_hi_cache_v1"},
}

// ParseProtocol reads a wire value. The error names the accepted ones.
func ParseProtocol(s string) (Protocol, error) {
	var all []string
	for p, spellings := range protocolSpellings {
		for _, known := range spellings {
			if s == known {
				return Protocol(p), nil
			}
			all = append(all, known)
		}
	}
	return 0, &FieldError{Field: "ingress_protocol", Value: s, Want: "one of " + strings.Join(all, ", ")}
}

// String returns the canonical wire value.
func (p Protocol) String() string {
	if p < numProtocols {
		return protocolSpellings[p][0]
	}
	return "unknown"
}

// Owned reports whether there is a cache owner beside the worker.
func (p Protocol) Owned() bool { return p == VLLMResidencyV1 || p == HiCacheV1 }

// EngineLocal reports whether the cache owner's inventory ends with its engine.
func (p Protocol) EngineLocal() bool { return p == HiCacheV1 }

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
