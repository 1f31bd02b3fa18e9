package tree_test

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// Limits for the collector with a million memberships: objects beyond those of
// an empty process, and bytes that it has to look through for pointers. Time is
// no limit here: it says what else runs on the machine.
const (
	heapMemberships = 1_000_000
	heapObjects     = 1000
	heapScanned     = 1 << 20
)

// TestHeap holds the promise that the collector does not notice how much an
// index holds: bulk data has no pointers and lies in few, large objects.
func TestHeap(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's own objects and time would count")
	}
	objectsBefore, scannedBefore := live()
	x := tree.New(tree.Options{Seed: 1})
	fillHeap(t, x)
	objectsAfter, scannedAfter := live()
	objects, scanned := int64(objectsAfter)-int64(objectsBefore), int64(scannedAfter)-int64(scannedBefore)
	if objects >= heapObjects {
		t.Errorf("%d memberships take %d heap objects, want fewer than %d", x.Stats().Residencies, objects, heapObjects)
	}
	if scanned >= heapScanned {
		t.Errorf("of %d memberships the collector looks through %d bytes, want fewer than %d", x.Stats().Residencies, scanned, heapScanned)
	}
	t.Logf("%d memberships: %d objects, %d bytes to look through, %d bytes a membership",
		x.Stats().Residencies, objects, scanned, x.Stats().Bytes/x.Stats().Residencies)
	runtime.KeepAlive(x)
}

// fillHeap gives an index a million memberships in every form it keeps: shared
// and forked chains, a run that many hold, own names, tiers, holes, copies, TP
// shards and waiting blocks.
func fillHeap(t *testing.T, x *tree.Index) {
	t.Helper()
	var owners []tree.Owner
	for i := range 40 {
		shards := 1
		if i%10 == 9 {
			shards = 2
		}
		h, err := x.AddHolder(tree.Copies, shards)
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, tree.Owner{Holder: h})
	}
	const length, fork, event = 48, 20, 16
	for chain := uint64(0); x.Stats().Residencies < heapMemberships; chain++ {
		for i := range 3 {
			o, own := owners[(int(chain)*7+i*11)%len(owners)], uint64(0)
			if i == 2 && chain%16 == 0 {
				own = 1 << 60
			}
			s := tree.Store{Span: 1}
			for from := 0; from < length; from += event {
				s.Pairs = s.Pairs[:0]
				for p := from; p < from+event; p++ {
					id := chain<<8 | uint64(p)
					if p < fork { // shared by the chains of a family
						id = chain/8<<8 | uint64(p)
					}
					name := (id + 1) * 0x9e3779b97f4a7c15
					s.Pairs = append(s.Pairs, name^own, name>>7)
				}
				last := s.Pairs[len(s.Pairs)-2]
				o.Tier, o.Shard = tree.Device, 0
				x.Store(o, &s)
				o.Shard = 1
				x.Store(o, &s) // refused by holders with one shard
				o.Shard = 0
				switch chain % 32 {
				case 5:
					o.Tier = tree.Host
					x.Store(o, &s)
				case 6:
					x.Remove(o, []uint64{s.Pairs[10]})
				case 7:
					x.Store(o, &s) // copies
				case 8:
					x.Store(o, &tree.Store{Span: 1, HasParent: true, Parent: ^name(chain), Pairs: []uint64{^last, 1}})
				}
				s.HasParent, s.Parent = true, last
			}
		}
	}
	st := x.Stats()
	if st.Waiting == 0 || st.Runs == 0 {
		t.Fatalf("not every form is there: %+v", st)
	}
}

func name(i uint64) uint64 { return (i + 1) * 0xd6e8feb86659fd93 }

// live is the number of live heap objects, and the bytes of heap that the
// collector looks through for pointers.
func live() (objects, scanned uint64) {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept through the first
	s := []metrics.Sample{{Name: "/gc/heap/objects:objects"}, {Name: "/gc/scan/heap:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}
