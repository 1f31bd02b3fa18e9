package fleet

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// lossy decides what is lost on the way. It is its shard's alone.
type lossy struct {
	Loss
	rng  *rand.Rand
	left int // of the gap at hand
}

func newLossy(c *Config, rank, index, more int) lossy {
	return lossy{Loss: c.Loss, rng: rand.New(rand.NewPCG(c.Seed^0x10557, uint64(rank)<<40|uint64(index)<<20|uint64(more)))}
}

// gap reports whether the next batch is not sent.
func (l *lossy) gap() bool {
	if l.left == 0 && l.Gap > 0 && l.rng.Float64() < l.Gap {
		l.left = 1 + l.rng.IntN(max(l.GapMax, 1))
	}
	if l.left == 0 {
		return false
	}
	l.left--
	return true
}

// cut reports whether connections break before the next batch.
func (l *lossy) cut() bool { return l.Cut > 0 && l.rng.Float64() < l.Cut }

// archive keeps a stream's last batches and serves them on its replay endpoint,
// with old framing and recent in turn.
type archive struct {
	stats *counters
	keeps int
	drop  float64

	mu      sync.Mutex
	batches []archived
	rng     *rand.Rand
	served  int
}

type archived struct {
	seq     uint64
	payload []byte
}

func newArchive(c *Config, stats *counters) *archive {
	return &archive{stats: stats, keeps: c.Replay, drop: c.Loss.Replay, rng: rand.New(rand.NewPCG(c.Seed, 0xa5c1))}
}

// keep keeps a copy of a batch; a is nil if there is no archive.
func (a *archive) keep(seq uint64, payload []byte) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.batches = append(a.batches, archived{seq, bytes.Clone(payload)})
	if len(a.batches) >= 2*a.keeps {
		a.batches = append(a.batches[:0:0], a.batches[len(a.batches)-a.keeps:]...)
	}
}

// from returns what is kept from a sequence on, and which part of it is dropped
// on the way.
func (a *archive) from(seq uint64) (batches []archived, recent bool, dropFrom, dropTo int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := a.batches[max(0, len(a.batches)-a.keeps):]
	for len(kept) > 0 && kept[0].seq < seq {
		kept = kept[1:]
	}
	a.served++
	batches, recent = append(batches, kept...), a.served%2 == 0
	if n := len(kept); n > 1 && a.drop > 0 && a.rng.Float64() < a.drop {
		dropFrom = 1 + a.rng.IntN(n-1)
		dropTo = dropFrom + 1 + a.rng.IntN(n-dropFrom)
	}
	return batches, recent, dropFrom, dropTo
}

// serve answers one request.
func (a *archive) serve(_ context.Context, request [][]byte, reply zmtp.Reply) {
	if len(request) != 2 || len(request[0]) != 0 || len(request[1]) != 8 {
		return // engines do not answer anything else
	}
	a.stats.asked.Add(1)
	batches, recent, dropFrom, dropTo := a.from(binary.BigEndian.Uint64(request[1]))
	send := func(seq uint64, payload []byte) error {
		n := binary.BigEndian.AppendUint64(nil, seq)
		if recent {
			return reply(nil, nil, n, payload)
		}
		return reply(nil, n, payload)
	}
	for i, b := range batches {
		if i >= dropFrom && i < dropTo {
			continue
		}
		if send(b.seq, b.payload) != nil {
			return
		}
	}
	_ = send(math.MaxUint64, nil)
}
