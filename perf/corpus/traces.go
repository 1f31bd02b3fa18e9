package corpus

import (
	"bytes"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/cairn-kv/cairn/perf/fleet"
)

//go:embed synthetic.jsonl.zst
var syntheticFile []byte // see ATTRIBUTION.md

var conversation = sync.OnceValue(func() []Trace {
	t, err := fleet.Conversation(0)
	if err != nil {
		panic(fmt.Sprintf("corpus: %v", err)) // embedded
	}
	return t
})

var synthetic = sync.OnceValue(func() []Trace {
	z, err := zstd.NewReader(bytes.NewReader(syntheticFile), zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(fmt.Sprintf("corpus: embedded trace: %v", err))
	}
	defer z.Close()
	t, err := fleet.ReadTrace(z, 0)
	if err != nil {
		panic(fmt.Sprintf("corpus: embedded trace: %v", err))
	}
	return t
})

// agent is a made trace: 1,500 requests of sessions that all begin with the
// same 267 ids. A session asks ten times, with an id more each time, 11 of its
// own on average. Of 142 K tokens 96 % are shared.
func agent() []Trace {
	const sessions, turns, trunk = 150, 10, 267
	return sharing(sessions, turns, trunk, 6, 444)
}

// long is a made trace: 1,500 requests of 125 ids, all but the last shared.
func long() []Trace { return sharing(1500, 1, 124, 1, 16) }

// turns is a made trace: 400 conversations of ten turns, 30 seconds apart. A
// prompt is all that was said before, answers included, and an id more; three
// answers in ten are asked for again, and the conversation goes on from the last.
func turns() []Trace {
	const sessions, turns = 400, 10
	random, id := rand.New(rand.NewPCG(1, 1)), uint32(0)
	next := func() []uint32 { id++; return []uint32{id} }
	var t []Trace
	for s := range sessions {
		ids, at := []uint32{0}, uint64(s)*1500
		for range turns {
			ids = append(ids, next()...)
			var answer []uint32
			for again := true; again; again = random.IntN(10) < 3 {
				answer = next()
				t = append(t, Trace{IDs: slices.Clone(ids), Millis: at, Input: len(ids) * TokensPerID, Output: TokensPerID, Answer: answer})
				at += 30_000
			}
			ids = append(ids, answer...)
		}
	}
	return t
}

// sharing makes sessions that begin alike. A few run side by side and take
// turns, half a second apart; of its own a session has the given number of ids
// at first.
func sharing(sessions, turns, trunk, own, output int) []Trace {
	const abreast = 50
	var t []Trace
	for from := 0; from < sessions; from += abreast {
		for turn := range turns {
			for s := from; s < min(from+abreast, sessions); s++ {
				ids := make([]uint32, 0, trunk+own+turn)
				for i := range trunk {
					ids = append(ids, uint32(i))
				}
				for i := range own + turn {
					ids = append(ids, uint32(trunk+s*1024+i))
				}
				t = append(t, Trace{IDs: ids, Millis: uint64(len(t)) * 500, Input: len(ids) * TokensPerID, Output: output})
			}
		}
	}
	return t
}
