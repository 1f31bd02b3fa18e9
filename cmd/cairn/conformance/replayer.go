package conformance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// replayer is the replay endpoint of one stream. It answers as it is told.
type replayer struct {
	router *zmtp.Router
	asks   chan *asked
	count  atomic.Uint64 // requests so far
}

// asked is one request that is being answered.
type asked struct {
	from  uint64
	reply zmtp.Reply
	over  chan struct{}
}

// maxAsks bounds the requests that wait to be answered. A client has one.
const maxAsks = 16

func newReplayer() *replayer { return &replayer{asks: make(chan *asked, maxAsks)} }

// handle passes a request on and keeps it open until it is answered. Requests
// of another form are not answered at all, as engines do not.
func (p *replayer) handle(ctx context.Context, request [][]byte, reply zmtp.Reply) {
	if len(request) != 2 || len(request[0]) != 0 || len(request[1]) != 8 {
		return
	}
	a := &asked{from: binary.BigEndian.Uint64(request[1]), reply: reply, over: make(chan struct{})}
	p.count.Add(1)
	select {
	case p.asks <- a:
	case <-ctx.Done():
		return
	}
	select {
	case <-a.over:
	case <-ctx.Done():
	}
}

// errNotAsked: no request came in time.
var errNotAsked = errors.New("no request for a replay came")

// wait waits for the next request.
func (p *replayer) wait(ctx context.Context, patience time.Duration) (*asked, error) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case a := <-p.asks:
		return a, nil
	case <-t.C:
		return nil, errNotAsked
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// send sends one reply. Who asked may have what it wanted and be gone.
func (a *asked) send(frames ...[]byte) {
	if a.reply(frames...) == nil {
		_ = a.reply() // at once: replies are sent one by one
	}
}

// end says that there are no more replies.
func (a *asked) end() {
	if a != nil {
		close(a.over)
	}
}

// endMarker is a reply's sequence that ends a replay.
func endMarker() []byte { return sequenceFrame(reserved) }

// addReplay gives every rank of a source that is about to be added a replay
// endpoint.
func (r *rig) addReplay(ctx context.Context, ranks int) ([]*replayer, string, error) {
	all := make([]*replayer, ranks)
	for i := range all {
		all[i] = newReplayer()
	}
	bind := func(rank int, endpoint string, l net.Listener) (*zmtp.Router, error) {
		return zmtp.RouterConfig{Handle: all[rank].handle, Listener: l}.Listen(ctx, endpoint)
	}
	routers, err := r.row(ranks, bind)
	if err != nil {
		return nil, "", err
	}
	for rank, k := range routers {
		all[rank].router = k
	}
	return all, routers[0].Addr(), nil
}

// row binds routers on ranks neighbouring ports.
func (r *rig) row(ranks int, bind func(rank int, endpoint string, l net.Listener) (*zmtp.Router, error)) ([]*zmtp.Router, error) {
	if r.network != nil {
		var all []*zmtp.Router
		first := r.network.Reserve(ranks)
		for rank := range ranks {
			l := r.network.Listen(first + rank)
			k, err := bind(rank, "tcp://"+l.Addr().String(), l)
			if err != nil {
				return nil, errors.Join(err, l.Close(), closeAll(all))
			}
			all = append(all, k)
		}
		return all, nil
	}
	var last error
	for range portTries {
		first, err := bind(0, "tcp://127.0.0.1:0", nil)
		if err != nil {
			return nil, err
		}
		all := []*zmtp.Router{first}
		_, text, _ := net.SplitHostPort(strings.TrimPrefix(first.Addr(), "tcp://"))
		port, err := strconv.Atoi(text)
		for rank := 1; rank < ranks && err == nil; rank++ {
			var k *zmtp.Router
			if k, err = bind(rank, fmt.Sprintf("tcp://127.0.0.1:%d", port+rank), nil); err == nil {
				all = append(all, k)
			}
		}
		if err == nil {
			return all, nil
		}
		last = err // somebody has one of the ports: try others
		if err := closeAll(all); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no %d neighbouring ports are free: %w", ranks, last)
}

func closeAll(routers []*zmtp.Router) error {
	var errs []error
	for _, k := range routers {
		errs = append(errs, k.Close())
	}
	return errors.Join(errs...)
}
