// Command aibrix plays a corpus on AIBrix v0.7.0: the prefix table that it
// fills from engines' events, SyncPrefixHashTable.
//
// The table hashes tokens itself. Here a block is the 8 bytes of its content,
// and a block of as many bytes is what the table is told to hash
// (AIBRIX_PREFIX_CACHE_BLOCK_SIZE, which it reads before main begins, so the
// driver starts itself again with it). A store of several blocks is handed over
// block by block: the table would hash all of them behind the first one's
// parent. Answers are percent of the prompt; blocks are put together from them,
// exactly for prompts of up to 100.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"syscall"

	table "github.com/vllm-project/aibrix/pkg/utils/syncprefixcacheindexer"
	"k8s.io/klog/v2"

	"github.com/cairn-kv/cairn/perf/corpus"
	"github.com/cairn-kv/cairn/perf/load"
)

// settings are read by the table's package when the program starts.
var settings = map[string]string{
	"AIBRIX_PREFIX_CACHE_BLOCK_SIZE":       "8",
	"AIBRIX_SYNC_MAX_PREFIXES_PER_CONTEXT": "1000000000",
}

const model = "m"

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if os.Getenv("AIBRIX_PREFIX_CACHE_BLOCK_SIZE") != settings["AIBRIX_PREFIX_CACHE_BLOCK_SIZE"] {
		if err := again(); err != nil {
			fmt.Fprintf(os.Stderr, "aibrix: %v\n", err)
			os.Exit(1)
		}
	}
	os.Exit(load.Drive(load.Contestant{
		Name: "aibrix", About: "AIBrix v0.7.0, SyncPrefixHashTable, events of one block, hashing of 8 bytes a block included",
		Concurrent: true, Factors: corpus.Private | corpus.Copies | corpus.Clears,
		New: func(h corpus.Header) (load.Index, error) { return newIndex(h), nil },
	}, os.Args[1:], os.Stdout, os.Stderr))
}

func again() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	env := os.Environ()
	for name, value := range settings {
		env = append(env, name+"="+value)
	}
	return syscall.Exec(self, os.Args, env)
}

type index struct {
	table   *table.SyncPrefixHashTable
	pods    []string
	ready   map[string]struct{}
	numbers map[string]int
}

func newIndex(h corpus.Header) *index {
	x := &index{table: table.NewSyncPrefixHashTable(), ready: map[string]struct{}{}, numbers: map[string]int{}}
	for i := range h.Holders {
		pod := fmt.Sprintf("pod-%d", i)
		x.pods = append(x.pods, pod)
		x.ready[pod] = struct{}{}
		x.numbers[pod] = i
	}
	return x
}

func (x *index) Apply(events []corpus.Op) {
	for i := range events {
		o := &events[i]
		var err error
		switch o.Kind {
		case corpus.Store:
			parent := int64(o.Parent)
			stored := table.BlockStored{ModelName: model, LoraID: -1, SourcePod: x.pods[o.Holder]}
			if o.HasParent {
				stored.ParentBlockHash = &parent
			}
			for k := 0; k < len(o.Words) && err == nil; k += 2 {
				stored.BlockHashes = []int64{int64(o.Words[k])}
				stored.Tokens = [][]byte{binary.LittleEndian.AppendUint64(nil, o.Words[k+1])}
				err = x.table.ProcessBlockStored(stored)
				parent = int64(o.Words[k])
				stored.ParentBlockHash = &parent
			}
		case corpus.Remove:
			removed := table.BlockRemoved{ModelName: model, LoraID: -1, SourcePod: x.pods[o.Holder]}
			for _, name := range o.Words {
				removed.BlockHashes = append(removed.BlockHashes, int64(name))
			}
			err = x.table.ProcessBlockRemoved(removed)
		case corpus.Clear:
			err = x.table.ProcessAllBlocksCleared(table.AllBlocksCleared{})
		}
		if err != nil {
			panic(err) // it has no reason to
		}
	}
}

func (x *index) Sync() {}

func (x *index) Reader() load.Reader { return &reader{x: x} }

type reader struct {
	x       *index
	tokens  []byte
	percent map[string]int
	blocks  int
}

func (r *reader) Match(contents []uint64) int {
	r.tokens, r.blocks = r.tokens[:0], len(contents)
	for _, c := range contents {
		r.tokens = binary.LittleEndian.AppendUint64(r.tokens, c)
	}
	r.percent, _ = r.x.table.MatchPrefix(model, -1, r.tokens, r.x.ready)
	return len(r.percent)
}

func (r *reader) Digest() uint64 {
	var sum uint64
	for pod, percent := range r.percent {
		if depth := (percent*r.blocks + 99) / 100; depth > 0 {
			sum += corpus.Digest(r.x.numbers[pod], depth)
		}
	}
	return sum
}
