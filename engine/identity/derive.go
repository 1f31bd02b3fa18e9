package identity

import (
	"crypto/rand"
	"encoding/binary"

	"lukechampine.com/blake3"
)

// What is hashed in front of the values, so that equal values of two kinds
// give different ids.
const (
	attachmentTag  = "dynamo/kv-state-attachment-record/v2"
	hostTag        = "dynamo/kv-state-host/v2"
	workerKeyTag   = "dynamo/residency-owner/worker/v1"
	cacheKeyTag    = "dynamo/residency-owner/cache-owner/v1"
	maxDerivedSize = 128 // bytes of the longest input; one BLAKE3 chunk has 1,024
)

// MaxID is the largest derived id and incarnation: 53 bits, so that it survives
// JSON readers that make every number a float64.
const MaxID = 1<<53 - 1

// Key orders owners that hold equally much.
type Key [16]byte

// AttachmentRecord is the id of the record that binds a publisher's slot to a
// worker in one generation. It is 1 … MaxID.
func AttachmentRecord(publisher, generation uint64) uint64 {
	b := append(make([]byte, 0, maxDerivedSize), attachmentTag...)
	b = binary.BigEndian.AppendUint64(b, publisher)
	return narrow(binary.BigEndian.AppendUint64(b, generation))
}

// HostDiscovery is the id under which a host with this connection is found. It
// is 1 … MaxID.
func HostDiscovery(connection uint64) uint64 {
	b := append(make([]byte, 0, maxDerivedSize), hostTag...)
	return narrow(binary.BigEndian.AppendUint64(b, connection))
}

func narrow(b []byte) uint64 {
	sum := blake3.Sum256(b)
	return mask(binary.BigEndian.Uint64(sum[:8]))
}

func mask(v uint64) uint64 { return max(v&MaxID, 1) }

// NewIncarnation draws the incarnation of an intent: random, 1 … MaxID.
func NewIncarnation() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: it ends the process instead
	return mask(binary.BigEndian.Uint64(b[:]))
}

// WorkerOwnerKey is the key of a worker's own blocks.
func WorkerOwnerKey(worker uint64, rank uint32) Key {
	b := append(make([]byte, 0, maxDerivedSize), workerKeyTag...)
	b = binary.BigEndian.AppendUint64(b, worker)
	return key(binary.BigEndian.AppendUint32(b, rank))
}

// Origins are the bytes that say, for three parts of an owner id, where that
// part came from. Other programs hash them into the owner's key.
type Origins struct {
	Semantics, Scope, Slot byte
}

// CacheOwnerKey is the key of a cache owner, whose parts came from where o
// says. KnownOrigins are the ones to use.
func CacheOwnerKey(id CacheOwnerID, o Origins) Key {
	b := append(make([]byte, 0, maxDerivedSize), cacheKeyTag...)
	b = append(append(b, id.Semantics[:]...), o.Semantics)
	b = append(append(b, id.Scope[:]...), o.Scope)
	b = binary.BigEndian.AppendUint64(b, id.DataCenter)
	return key(append(append(b, id.Slot[:]...), o.Slot))
}

func key(b []byte) Key {
	sum := blake3.Sum256(b)
	return Key(sum[:16])
}
