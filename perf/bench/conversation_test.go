package bench

import (
	"fmt"
	"testing"

	"github.com/cairn-kv/cairn/tree"
)

// BenchmarkConversation plays the conversation trace on 8 and on 128 engines
// that together keep 131,072 blocks. Stores of new and of known blocks are those
// of engines with prompts of their own, and of a replica of each.
func BenchmarkConversation(b *testing.B) {
	for _, s := range []Shape{
		{Engines: 8, Capacity: 16384},
		{Engines: 128, Capacity: 1024},
	} {
		b.Run(fmt.Sprintf("%dx%d", s.Engines, s.Capacity), func(b *testing.B) {
			plain := Simulate(conversation(), s)
			s.Apart, s.Replicas = true, 2
			apart := Simulate(conversation(), s)
			for _, m := range []struct {
				name   string
				corpus *Corpus
				unit   string
				per    func(cost) float64
				kinds  []Kind
			}{
				{"store-new", apart, "block", cost.perBlock, []Kind{StoreNew}},
				{"store-known", apart, "block", cost.perBlock, []Kind{StoreKnown}},
				{"remove", plain, "block", cost.perBlock, []Kind{Remove}},
				{"match", plain, "match", cost.perCall, []Kind{Query}},
				{"mixed", plain, "block", cost.perBlock, nil},
			} {
				b.Run(m.name, func(b *testing.B) {
					compare(b, m.unit, m.per, func(newTree func() tree.Interface) cost {
						return playCorpus(m.corpus, newTree, m.kinds...)
					})
				})
			}
		})
	}
}
