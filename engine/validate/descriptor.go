package validate

import (
	"fmt"
	"iter"
	"strings"

	"github.com/cairn-kv/cairn/engine/identity"
)

// Descriptor is what a worker says of one of its dp ranks before it serves.
type Descriptor struct {
	Worker    uint64 // worker id, that of the process
	Rank      uint32 // global dp rank
	Owner     identity.CacheOwnerID
	Domain    identity.IndexerDomain
	BlockSize uint32 // tokens, > 0
	Protocol  string // ingress protocol, with owned residency
	// RawEndpoints are where the rank's publishers listen, tcp://host:port: one,
	// or one for every TP shard.
	RawEndpoints []string
	RawTopic     string // ZeroMQ topic; required where the owner is engine-local
}

const wantOwner = "an owner of its own for every rank"

// Descriptors checks all descriptors of one worker process. list is what the
// list is called where it came from: fields are named list[i].… . The error is
// nil or Errors.
func Descriptors(list string, process uint64, all []Descriptor) error {
	var f findings
	if len(all) == 0 {
		f.add(EmptyDescriptors, list, "[]", "is empty", "at least one global dp rank")
	}
	ranks := make(map[uint32]int, len(all))
	owners := make(map[identity.CacheOwnerID]int, len(all))
	for i := range all {
		d := &all[i]
		at := fmt.Sprintf("%s[%d].", list, i)
		if d.Worker != process {
			f.add(DescriptorWorker, at+"worker_id", number(d.Worker), "is not the id of the process that sends it, "+number(process), "one worker id for all ranks of a process")
		}
		if first, taken := ranks[d.Rank]; taken {
			f.add(DuplicateRank, at+"dp_rank", number(d.Rank), fmt.Sprintf("rank %d stands at positions %d and %d", d.Rank, first, i), "one descriptor for every global dp rank")
		} else {
			ranks[d.Rank] = i
		}
		if first, taken := owners[d.Owner]; taken && all[first].Rank != d.Rank {
			f.add(DuplicateOwner, at+"cache_owner_id", d.Owner.String(), fmt.Sprintf("ranks %d and %d share it", all[first].Rank, d.Rank), wantOwner)
		} else if !taken {
			owners[d.Owner] = i
		}
		rank := fmt.Sprintf("rank %d ", d.Rank)
		if d.BlockSize == 0 {
			f.add(DescriptorSize, at+"kv_block_size", "0", rank+"has no block size", "tokens per block, > 0")
		}
		if d.Owner.Domain() != d.Domain {
			f.add(DescriptorDomain, at+"indexer_domain_id", d.Domain.String(), "its owner is of domain "+d.Owner.Domain().String(), "the domain of the owner, which stands before the first / of its id")
		}
		p, known := owned(&f, DescriptorProtocol, at+"ingress_protocol", d.Protocol)
		for field, ep := range rawEndpoints(at, d.RawEndpoints) {
			if strings.TrimSpace(ep) == "" {
				f.add(DescriptorEndpoint, field, ep, rank+"has no endpoint", "tcp://host:port of its publisher")
				continue
			}
			_, err := Endpoint(field, ep)
			f.note(err)
		}
		if known && p.EngineLocal() && d.RawTopic == "" {
			f.add(DescriptorTopic, at+"raw_topic", "", rank+"is engine-local and would take the events of the process before it", "a topic that no other engine incarnation has")
		}
	}
	return f.err()
}

// rawEndpoints names every endpoint of a list by its field. An empty list is one
// empty endpoint.
func rawEndpoints(at string, list []string) iter.Seq2[string, string] {
	return func(yield func(field, endpoint string) bool) {
		field := at + "raw_zmq_endpoint"
		if len(list) == 0 {
			yield(field, "")
			return
		}
		for i, ep := range list {
			name := field
			if len(list) > 1 {
				name = fmt.Sprintf("%s[%d]", field, i)
			}
			if !yield(name, ep) {
				return
			}
		}
	}
}

// owned checks that a protocol has owned residency.
func owned(f *findings, r Rule, field, protocol string) (identity.Protocol, bool) {
	p, known := identity.ParseProtocol(protocol)
	if known && p.Owned() {
		return p, true
	}
	why := "is no protocol"
	if known {
		why = "carries no residency of a cache owner"
	}
	f.add(r, field, protocol, why, "one of "+strings.Join(identity.OwnedProtocols(), ", "))
	return p, false
}
