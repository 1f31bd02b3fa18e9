package engine

import (
	"testing"
	"time"

	"github.com/cairn-kv/cairn/engine/hint"
)

// TestRepairingIsWithheld: while something of a source is asked for, nothing is
// answered from it, everything says so, and afterwards all is as if nothing had
// been missing.
func TestRepairingIsWithheld(t *testing.T) {
	a := newArchive(t)
	p := listen(t, "127.0.0.1", dialects[0])
	p.keep = a.keep
	e := openEngine(t, Options{Repair: RepairOptions{ProbeAfter: -1}})
	if err := e.AddSource(patience(t), Source{ID: "w1", Model: "m", Endpoint: p.pub.Addr(), Replay: a.Addr()}); err != nil {
		t.Fatal(err)
	}
	p.connected()
	applied(t, e, "w1", 0, p.send(store(4, "GPU", "")))
	open := a.hold()
	p.lose(remove("GPU", "", chainNames[3]))
	last := p.send(event{remove: true, names: []uint64{chainNames[2]}, medium: "GPU"})

	eventually(t, "repairing", func() bool { return stateOf(t, e, "w1", 0) == Repairing })
	var ans Answer
	if err := e.Match(asked("m", 256), &ans); err != nil {
		t.Fatal(err)
	}
	if len(ans.Holders) != 0 || len(ans.Flagged) != 1 {
		t.Fatalf("%d holders answer, %d are withheld; want none and one", len(ans.Holders), len(ans.Flagged))
	}
	if f := ans.Flagged[0].Freshness; f.State != Repairing || f.Cause != "gap" || f.Seq != last || f.Applied[1] != 0 || f.visible() {
		t.Errorf("withheld by %+v", f)
	}
	if st := e.Sources()[0]; st.State != Repairing || st.Streams[0].Cause != "gap" || st.Streams[0].Applied != 0 {
		t.Errorf("the source is %+v", st)
	}

	open()
	applied(t, e, "w1", 0, last) // its state was said before
	if st := stateOf(t, e, "w1", 0); st != Exact {
		t.Errorf("repaired, and %v", st)
	}
	if d := depthsOf(t, e, asked("m", 256), "w1", 0, hint.Worker); d.Device != 128 {
		t.Errorf("depths %+v, want 128 tokens", d)
	}
}

// TestShardsAreRepairedFromTheirOwn: every TP shard has a replay endpoint, and a
// holder is withheld as long as any of its shards misses something.
func TestShardsAreRepairedFromTheirOwn(t *testing.T) {
	as := []*archive{newArchive(t), newArchive(t)}
	ps := []*publisher{listen(t, "127.0.0.1", dialects[0]), listen(t, "127.0.0.1", dialects[0])}
	e := openEngine(t, Options{Repair: RepairOptions{ProbeAfter: 50 * time.Millisecond, AtOnce: 1}})
	if err := e.AddSource(patience(t), Source{ID: "w1", Model: "m",
		Shards:       []string{ps[0].pub.Addr(), ps[1].pub.Addr()},
		ShardReplays: []string{as[0].Addr(), as[1].Addr()}}); err != nil {
		t.Fatal(err)
	}
	for i, p := range ps {
		p.keep = as[i].keep
		p.connected()
		p.send(store(4, "GPU", ""))
	}
	open := as[1].hold()
	eventually(t, "held by both", func() bool { return depthsOf(t, e, asked("m", 256), "w1", 0, hint.Worker).Device == 256 })
	ps[1].lose(remove("GPU", "", chainNames[3]))
	ps[1].send(store(1, "GPU", ""))
	eventually(t, "repairing", func() bool { return e.Sources()[0].State == Repairing })
	if d := depthsOf(t, e, asked("m", 256), "w1", 0, hint.Worker); d != (Depths{}) {
		t.Errorf("one shard misses something, and the holder answers %+v", d)
	}
	open()
	eventually(t, "repaired", func() bool {
		return e.Sources()[0].State == Exact && depthsOf(t, e, asked("m", 256), "w1", 0, hint.Worker).Device == 192
	})
	// A tail that one shard lost is found though nothing follows it.
	ps[0].lose(remove("GPU", "", chainNames[1]))
	eventually(t, "the tail", func() bool { return depthsOf(t, e, asked("m", 256), "w1", 0, hint.Worker).Device == 64 })
}

func TestRepairOptionsAreChecked(t *testing.T) {
	for field, o := range map[string]RepairOptions{
		"repair.at_once":      {AtOnce: -1},
		"repair.hold_batches": {HoldBatches: -1},
		"repair.hold_bytes":   {HoldBytes: -1},
		"repair.silence":      {Silence: -1},
		"repair.total":        {Total: -1},
	} {
		_, err := Open(Options{Repair: o})
		if fe, ok := err.(*FieldError); !ok || fe.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, s := range map[string]Source{
		"replay":           {ID: "a", Model: "m", Shards: []string{"tcp://h:1", "tcp://h:2"}, Replay: "tcp://h:3"},
		"shard_replays":    {ID: "a", Model: "m", Shards: []string{"tcp://h:1", "tcp://h:2"}, ShardReplays: []string{"tcp://h:3"}},
		"shard_replays[1]": {ID: "a", Model: "m", Shards: []string{"tcp://h:1", "tcp://h:2"}, ShardReplays: []string{"tcp://h:3", "h:4"}},
	} {
		err := s.Validate()
		if fe, ok := err.(*FieldError); !ok || fe.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
