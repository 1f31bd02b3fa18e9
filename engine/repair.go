package engine

import (
	"fmt"
	"time"

	"github.com/cairn-kv/cairn/ingest"
)

// RepairOptions bound how streams make up for what they missed, by asking their
// publishers' replay endpoints. Zero fields mean the defaults.
type RepairOptions struct {
	// AtOnce is how many repairs run at the same time. 0 means 8 over the whole
	// process, engines together.
	AtOnce int
	// HoldBatches and HoldBytes bound the live messages of one stream that wait
	// for its repair. 0 means 4,096 and 32 MiB.
	HoldBatches, HoldBytes int
	// Silence is how long a repair may bring nothing, Total how long it may
	// take. 0 means 5 s and 30 s.
	Silence, Total time.Duration
	// Cooldown is the time in which a stream earns one more repair; the first
	// four need none. 0 means 30 s, negative none.
	Cooldown time.Duration
	// ProbeAfter is how long a publisher is quiet until it is asked whether its
	// last messages were lost; then more and more rarely, down to once a
	// minute. 0 means 5 s, negative never.
	ProbeAfter time.Duration
	// Snapshot, if set, says who gives the whole state of a stream's publisher,
	// where a replay cannot help or there is none; nil for nobody. It is called
	// once a stream.
	Snapshot func(source string, rank, tpShard int) ingest.Snapshotter
}

func (o *RepairOptions) check(bad func(field string, value any, want string) error) error {
	switch {
	case o.AtOnce < 0:
		return bad("repair.at_once", o.AtOnce, "wants at least 1, or 0 for 8 over the process")
	case o.HoldBatches < 0:
		return bad("repair.hold_batches", o.HoldBatches, "wants at least 1, or 0 for 4096")
	case o.HoldBytes < 0:
		return bad("repair.hold_bytes", o.HoldBytes, "wants at least 1, or 0 for 32 MiB")
	case o.Silence < 0:
		return bad("repair.silence", o.Silence, "wants a duration above 0, or 0 for 5 s")
	case o.Total < 0:
		return bad("repair.total", o.Total, "wants a duration above 0, or 0 for 30 s")
	}
	return nil
}

// limit is what the streams of an engine share; nil is the process's.
func (o *RepairOptions) limit() *ingest.Limit {
	if o.AtOnce == 0 {
		return nil
	}
	return ingest.NewLimit(o.AtOnce)
}

// repairBounds are what all repairs of the feed's stream keep to, and who gives
// it a snapshot.
func (f *feed) repairBounds() ingest.Repair {
	o := &f.src.engine.opt.Repair
	r := ingest.Repair{
		Limit:       f.src.engine.repairs,
		HoldBatches: o.HoldBatches, HoldBytes: o.HoldBytes,
		Silence: o.Silence, Total: o.Total, Cooldown: o.Cooldown, ProbeAfter: o.ProbeAfter,
	}
	if o.Snapshot != nil {
		r.Snapshot = o.Snapshot(f.src.spec.ID, f.rank, f.tp)
	}
	return r
}

// repair is how the feed's stream is repaired.
func (f *feed) repair() (ingest.Repair, error) {
	r := f.repairBounds()
	base := f.src.spec.Replay
	if n := len(f.src.spec.ShardReplays); n > 0 {
		base = f.src.spec.ShardReplays[f.tp]
	}
	if d := f.src.spec.Discover; d != nil && d.Replay {
		r.Endpoint = announcedReplay
	}
	if base == "" {
		return r, nil
	}
	var err error
	if r.Endpoint, err = RankEndpoint(base, f.rank); err != nil {
		return r, fmt.Errorf("engine: source %q: replay: %w", f.src.spec.ID, err)
	}
	return r, nil
}
