// Command llm-d plays a corpus on llm-d-kv-cache v0.9.0: its in-memory index
// and its scorer, called as its own indexer calls them. `default` keeps the
// limit of 10 pods a block, `raised` has one of as many pods as there are.
//
// Tokens are not hashed here, as for no contestant: what the index calls request
// keys are chained from contents by a mixer that costs a nanosecond or two.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/llm-d/llm-d-kv-cache/pkg/kvcache"
	"github.com/llm-d/llm-d-kv-cache/pkg/kvcache/kvblock"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/cairn-kv/cairn/perf/corpus"
	"github.com/cairn-kv/cairn/perf/load"
)

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if len(os.Args) < 2 || os.Args[1] != "default" && os.Args[1] != "raised" {
		fmt.Fprintln(os.Stderr, "llm-d: want default or raised, then the arguments of a driver")
		os.Exit(2)
	}
	raised := os.Args[1] == "raised"
	limit := "10 pods a block, its default"
	if raised {
		limit = "as many pods a block as there are"
	}
	os.Exit(load.Drive(load.Contestant{
		Name: "llm-d", About: "llm-d-kv-cache v0.9.0, InMemoryIndex and LongestPrefixScorer, " + limit,
		Concurrent: true, Factors: corpus.Private | corpus.Copies | corpus.Clears,
		New: func(h corpus.Header) (load.Index, error) { return newIndex(h, raised) },
	}, os.Args[2:], os.Stdout, os.Stderr))
}

type index struct {
	blocks  *kvblock.InMemoryIndex
	scorer  kvcache.KVBlockScorer
	entries [][]kvblock.PodEntry // by holder
	numbers map[string]int       // pod → holder
	engine  []kvblock.BlockHash  // scratch
	request []kvblock.BlockHash
}

func newIndex(h corpus.Header, raised bool) (*index, error) {
	config := kvblock.DefaultInMemoryIndexConfig()
	if raised {
		config.PodCacheSize = h.Holders
	}
	blocks, err := kvblock.NewInMemoryIndex(config)
	if err != nil {
		return nil, err
	}
	scorer, err := kvcache.NewKVBlockScorer(kvcache.DefaultKVBlockScorerConfig())
	if err != nil {
		return nil, err
	}
	x := &index{blocks: blocks, scorer: scorer, numbers: map[string]int{}}
	for i := range h.Holders {
		pod := fmt.Sprintf("pod-%d", i)
		x.entries = append(x.entries, []kvblock.PodEntry{{PodIdentifier: pod, DeviceTier: "gpu"}})
		x.numbers[pod] = i
	}
	return x, nil
}

// next is the request key of a block behind another one.
func next(parent kvblock.BlockHash, content uint64) kvblock.BlockHash {
	x := (uint64(parent) ^ content) * 0x9e3779b97f4a7c15
	return kvblock.BlockHash(x ^ x>>29)
}

func (x *index) Apply(events []corpus.Op) {
	ctx := context.Background()
	for i := range events {
		o := &events[i]
		switch o.Kind {
		case corpus.Store:
			var parent kvblock.BlockHash
			if o.HasParent {
				var err error
				if parent, err = x.blocks.GetRequestKey(ctx, kvblock.BlockHash(o.Parent)); err != nil {
					continue // shows as a wrong answer
				}
			}
			x.engine, x.request = x.engine[:0], x.request[:0]
			for k := 0; k < len(o.Words); k += 2 {
				parent = next(parent, o.Words[k+1])
				x.engine = append(x.engine, kvblock.BlockHash(o.Words[k]))
				x.request = append(x.request, parent)
			}
			if err := x.blocks.Add(ctx, x.engine, x.request, x.entries[o.Holder]); err != nil {
				panic(err) // it has no reason to
			}
		case corpus.Remove:
			for _, name := range o.Words {
				if err := x.blocks.Evict(ctx, kvblock.BlockHash(name), kvblock.EngineKey, x.entries[o.Holder]); err != nil {
					panic(err)
				}
			}
		case corpus.Clear:
			if err := x.blocks.Clear(ctx, x.entries[o.Holder][0].PodIdentifier); err != nil {
				panic(err)
			}
		}
	}
}

func (x *index) Sync() {}

func (x *index) Reader() load.Reader { return &reader{x: x} }

type reader struct {
	x      *index
	keys   []kvblock.BlockHash
	answer map[string]float64
}

func (r *reader) Match(contents []uint64) int {
	ctx := context.Background()
	r.keys = r.keys[:0]
	var key kvblock.BlockHash
	for _, c := range contents {
		key = next(key, c)
		r.keys = append(r.keys, key)
	}
	found, err := r.x.blocks.Lookup(ctx, r.keys, sets.Set[string]{})
	if err != nil {
		panic(err)
	}
	if r.answer, err = r.x.scorer.Score(ctx, r.keys, found); err != nil {
		panic(err)
	}
	return len(r.answer)
}

func (r *reader) Digest() uint64 {
	var sum uint64
	for pod, depth := range r.answer {
		if depth > 0 {
			sum += corpus.Digest(r.x.numbers[pod], int(depth))
		}
	}
	return sum
}
