package fuzz

import (
	"testing"

	"github.com/cairn-kv/cairn/tree"
	"github.com/cairn-kv/cairn/tree/model/differ"
)

// applyLimit bounds the events of one input.
const applyLimit = 200

// applyHolders are the holders of every input: both policies, with one TP shard
// and with two.
var applyHolders = []differ.Op{
	{Kind: differ.Add, Holder: 0, Policy: tree.Copies, Shards: 1},
	{Kind: differ.Add, Holder: 1, Policy: tree.Set, Shards: 1},
	{Kind: differ.Add, Holder: 2, Policy: tree.Copies, Shards: 2},
}

// FuzzApply reads four bytes as one event for the index, plays all of them on
// the index and the reference model, asks after each, and drains both: they
// must agree. The bytes are: what happens; to whom, on which tier and shard;
// the first name; how many blocks and how their contents run.
func FuzzApply(f *testing.F) {
	seed(f, "apply")
	index := func() tree.Interface { return tree.New(tree.Options{Seed: 1}) }
	f.Fuzz(func(t *testing.T, program []byte) {
		ops := append([]differ.Op(nil), applyHolders...)
		for ; len(program) >= 4 && len(ops) < applyLimit; program = program[4:] {
			ops = append(ops, event(program), differ.Op{Kind: differ.Query, Contents: run(uint64(program[3]&3), 12)})
		}
		ops = append(ops, differ.Op{Kind: differ.Drain})
		if _, fail := differ.Replay(index, ops, differ.Options{}); fail != nil {
			t.Errorf("%v\n%s", fail, differ.Text(ops))
		}
	})
}

// event makes four bytes an event.
func event(b []byte) differ.Op {
	who := int(b[1]) % len(applyHolders)
	o := differ.Op{Holder: who, Tier: tree.Tier(b[1] >> 2 & 3), Span: 1, Shard: b[1] >> 4 & 1 % uint8(applyHolders[who].Shards)}
	name, n := uint64(b[2]&31), int(b[3]>>2&7)+1
	switch b[0] % 16 {
	default:
		o.Kind, o.Root = differ.Store, 0
		o.HasParent, o.Parent = b[2]&32 != 0, name
		o.KeepMeaning, o.SkipUnknown = b[0]&64 != 0, b[0]&128 != 0
		o.Names, o.Contents = run(name, n), run(uint64(b[3]&3)+uint64(b[3]>>5), n)
	case 8, 9, 10, 11:
		o.Kind, o.Names = differ.Remove, run(name, n)
	case 12:
		o.Kind, o.Names = differ.Place, run(name, n)
	case 13:
		o.Kind = differ.Clear
	case 14:
		o.Kind = differ.ClearShard
	case 15:
		o.Kind = differ.Step
	}
	return o
}

// run is n numbers behind first.
func run(first uint64, n int) []uint64 {
	v := make([]uint64, n)
	for i := range v {
		v[i] = first + 1 + uint64(i)
	}
	return v
}
