package ingest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/cairn-kv/cairn/ingest/zmtp"
	"github.com/cairn-kv/cairn/internal/memnet"
)

// bounded is a stream with the default bounds of a repair, a link in memory and
// a replay endpoint inside the process.
type bounded struct {
	*feed
	link     *queueLink
	listener *memnet.Listener // of the replay endpoint
}

func newBounded(t *testing.T) *bounded {
	network := memnet.New()
	b := &bounded{listener: network.Listen(5558)}
	endpoint := "tcp://" + b.listener.Addr().String()
	dialled := make(chan *queueLink, 1)
	b.feed = newRig(t, 0).stream(Options{
		Endpoint:  "memory",
		Transport: zmtp.Options{DialContext: network.Dial},
		Repair:    Repair{Endpoint: endpoint, ProbeAfter: -1, Limit: NewLimit(1)},
		Dial: func(ctx context.Context, h Hooks) (Link, error) {
			l := &queueLink{ctx: ctx, hooks: h, queue: make(chan [][]byte, 16), wake: make(chan struct{}, 1), closed: make(chan struct{})}
			dialled <- l
			return l, nil
		},
	})
	b.link = <-dialled
	return b
}

func (b *bounded) says(n uint64) {
	b.link.queue <- [][]byte{nil, be(n), payload(nil, chain(n))}
	synctest.Wait()
}

// after lets time pass and checks what the stream is worth then.
func (b *bounded) after(d time.Duration, want State, cause Cause) {
	b.rig.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	b.state(Worker, want, cause)
}

const instantly = 50 * time.Millisecond

// The bounds that nobody configured, on a clock that waits for nobody.
func TestDefaultBoundsOfARepair(t *testing.T) {
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBounded(t) // nobody accepts
			b.says(0)
			b.says(2)
			b.after(5*time.Second-instantly, Repairing, CauseGap)
			b.after(2*instantly, Degraded, CauseGap)
			if b.counted("repairs_failed", "silence") != 1 {
				t.Error(b.dump())
			}

			// The cooldown behind it: nobody is asked for 30 s, then again.
			b.after(30*time.Second-4*instantly, Degraded, CauseGap)
			b.says(4)
			b.after(0, Degraded, CauseGap)
			if b.counted("repairs_failed", "cooldown") != 1 {
				t.Error(b.dump())
			}
			time.Sleep(8 * instantly)
			b.says(6)
			b.after(0, Repairing, CauseGap)
		})
	})
	t.Run("in all", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBounded(t)
			router, err := zmtp.RouterConfig{Listener: b.listener, Handle: func(ctx context.Context, _ [][]byte, reply zmtp.Reply) {
				for { // something all the time, but never what is asked for
					if reply(nil, be(0), nil) != nil || reply() != nil {
						return
					}
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return
					}
				}
			}}.Listen(context.Background(), "tcp://"+b.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer router.Close()
			b.says(0)
			b.says(2)
			b.after(30*time.Second-instantly, Repairing, CauseGap)
			b.after(2*instantly, Degraded, CauseGap)
			if b.counted("repairs_failed", "timeout") != 1 {
				t.Error(b.dump())
			}
		})
	})
}

// Clocks of publishers jump, or stand while ours goes on: neither is taken for
// anything that happened to the events.
func TestClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounded(t)
		at := func(n uint64, ts float64) {
			p := msgp.AppendFloat64([]byte{0x93}, ts)
			p = append(append(append(p, 0x91), chain(n)...), 0xc0)
			b.link.queue <- [][]byte{nil, be(n), p}
			synctest.Wait()
		}
		now := float64(time.Now().UnixNano()) / 1e9
		for n, ts := range []float64{now, now + 1e9, now - 1e9, 0, -1e300, 1e300, now} {
			at(uint64(n), ts)
			st := b.now(Worker)
			if st.State != Exact || st.Lag < 0 {
				t.Errorf("at %g: %+v", ts, st)
			}
		}
		time.Sleep(50 * time.Second)
		at(7, now)
		if st := b.now(Worker); st.State != Exact || st.Lag != 50*time.Second {
			t.Errorf("50 s later: %+v", st)
		}
		b.rig.device(span(1, 32), 8)
		if b.counted("gaps", "")+b.counted("restarts", "")+b.counted("losses", "") != 0 {
			t.Error(b.dump())
		}
	})
}
