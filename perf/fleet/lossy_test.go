package fleet

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// TestLossAndReplay: what is lost on the way is in the archive, and the truth
// does not notice.
func TestLossAndReplay(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	f, err := New(Config{Seed: 3, Replay: 10_000, Loss: Loss{Gap: 0.2, GapMax: 3},
		Engines: []Engine{{ID: "a", Model: "m", Dialect: VLLMMap, BlockSize: 16, Device: 200}}})
	if err != nil {
		t.Fatal(err)
	}
	sources, err := f.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sub, err := zmtp.Dial(ctx, zmtp.Options{Endpoint: sources[0].Endpoints[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if err := f.WaitSubscribers(ctx); err != nil {
		t.Fatal(err)
	}
	type batch struct {
		seq     uint64
		payload string
	}
	came := make(chan batch, 1000) // more than there will be
	go func() {
		defer close(came)
		for {
			m, err := sub.Next()
			if err != nil {
				return
			}
			came <- batch{binary.BigEndian.Uint64(m.Frames()[1]), string(m.Frames()[2])}
		}
	}()
	for i := range uint32(200) {
		if err := f.Submit(ctx, "a", 0, f.Prompt("", []uint32{i % 7, i, i + 1}), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Quiesce(ctx); err != nil {
		t.Fatal(err)
	}
	published := f.Published(nil, "a", 0)[0]
	if err := f.all[0].socket.Flush(ctx); err != nil {
		t.Fatal(err)
	}

	ask := func(from uint64) (seqs map[uint64]string, frames int) {
		d, err := zmtp.DialDealer(ctx, zmtp.Options{Endpoint: sources[0].Replays[0]})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if err := d.Send(nil, binary.BigEndian.AppendUint64(nil, from)); err != nil {
			t.Fatal(err)
		}
		seqs = map[uint64]string{}
		for {
			m, err := d.Next(10 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			fr := m.Frames()
			n := binary.BigEndian.Uint64(fr[len(fr)-2])
			if n == 1<<64-1 {
				return seqs, len(fr)
			}
			seqs[n] = string(fr[len(fr)-1])
		}
	}
	all, frames := ask(0)
	late, other := ask(published - 10)
	if uint64(len(all)) != published || len(late) != 10 || frames+other != 7 {
		t.Errorf("%d of %d batches replayed, %d of the last 10, in %d and %d frames", len(all), published, len(late), frames, other)
	}
	// What was flushed is on its way, and comes unless the subscriber leaves.
	seen, lost := map[uint64]string{}, f.Stats().Lost
	for uint64(len(seen))+lost < published {
		select {
		case b, ok := <-came:
			if !ok {
				t.Fatalf("the connection ended: %d batches came, %d were lost, %d published", len(seen), lost, published)
			}
			seen[b.seq] = b.payload
		case <-ctx.Done():
			t.Fatalf("%d batches came, %d were lost, %d published", len(seen), lost, published)
		}
	}
	sub.Close()
	for b := range came {
		seen[b.seq] = b.payload
	}
	if lost == 0 || uint64(len(seen))+lost != published {
		t.Errorf("%d batches came, %d were lost, %d published", len(seen), lost, published)
	}
	for n, payload := range seen {
		if all[n] != payload {
			t.Fatalf("batch %d is another in the replay", n)
		}
	}
}

func TestAnArchiveForgets(t *testing.T) {
	a := newArchive(&Config{Replay: 3, Seed: 1}, new(counters))
	for n := range uint64(20) {
		a.keep(n, []byte{byte(n)})
	}
	got, _, _, _ := a.from(5)
	if len(got) != 3 || got[0].seq != 17 || got[2].seq != 19 {
		t.Errorf("kept %v, want the last three", got)
	}
	a.drop = 1
	for range 100 {
		got, _, from, to := a.from(0)
		if from < 1 || to <= from || to > len(got) {
			t.Fatalf("drops %d to %d of %d", from, to, len(got))
		}
	}
}
