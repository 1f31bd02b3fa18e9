package bound

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// BenchmarkNext is one connection at full speed with messages of 200 bytes: read
// by the stream itself, and through the pump because it has shown two series.
func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name  string
		relay bool
	}{{"sole", false}, {"relay", true}} {
		b.Run(c.name, func(b *testing.B) {
			lanes := map[int]*Lane{0: NewLane(), 1: NewLane()}
			s, err := Listen(context.Background(), Options{
				Bind: zmtp.BindOptions{Endpoint: "tcp://127.0.0.1:0"}, Source: "w", Model: "m",
				Open: func(_ context.Context, k Key) (*Lane, error) { return lanes[k.Rank], nil },
			})
			if err != nil {
				b.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Run() }()
			defer func() { s.Close(); <-ended }()
			p, err := zmtp.PublisherConfig{}.Connect(context.Background(), s.Addr())
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := p.WaitSubscribers(ctx, 1); err != nil {
				b.Fatal(err)
			}
			payload := append([]byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x91, 0xc4, 180}, make([]byte, 180)...)
			payload = append(payload, 0)
			topic, seq := []byte("t"), seqFrame(0)
			p.Send(topic, seq, payload)
			first, err := lanes[0].Dial(ctx, ingest.Hooks{})
			if err != nil {
				b.Fatal(err)
			}
			defer first.Close()
			if _, err := first.Next(); err != nil {
				b.Fatal(err)
			}
			if c.relay {
				p.Send(topic, seq, batch(1))
				go first.Next() // which finds the other's message; it ends with the socket
				other, err := lanes[1].Dial(ctx, ingest.Hooks{})
				if err != nil {
					b.Fatal(err)
				}
				defer other.Close()
				if _, err := other.Next(); err != nil {
					b.Fatal(err)
				}
				first = other
				payload[len(payload)-1] = 1
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range b.N {
					if p.Send(topic, seq, payload) != nil {
						return
					}
				}
			}()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if _, err := first.Next(); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			<-done
		})
	}
}
