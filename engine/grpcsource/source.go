package grpcsource

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest"
)

// Service is the gRPC service that an engine offers its events with.
type Service string

// The services.
const (
	VLLM       Service = "vllm.grpc.engine.VllmEngine"
	SGLang     Service = "sglang.grpc.scheduler.SglangScheduler"
	TRTLLM     Service = "trtllm.TrtllmService"
	TokenSpeed Service = "tokenspeed.grpc.scheduler.TokenSpeedScheduler"
)

// Options say how an engine is reached.
type Options struct {
	// Target is the server, as grpc.NewClient takes it. Required.
	Target string
	// Service is one of those above, or another that has SubscribeKvEvents.
	// Required.
	Service Service
	// DialOptions are passed to grpc.NewClient. Nil: no TLS.
	DialOptions []grpc.DialOption
	// MaxMessage bounds one batch, in bytes. 0 means 16 MiB.
	MaxMessage int
}

// DefaultMaxMessage is the bound of Options.MaxMessage 0.
const DefaultMaxMessage = 16 << 20

// Add has an engine follow a source that offers its events over gRPC. One
// subscription serves all dp ranks: its batches say which they are of. The
// source has no endpoint. Errors are those of engine.AddLinked, or say which
// option is missing.
func Add(ctx context.Context, e *engine.Engine, s engine.Source, o Options) error {
	switch {
	case o.Target == "":
		return &engine.FieldError{Source: s.ID, Field: "target", Value: `""`, Want: "wants the server's address, such as host:port"}
	case o.Service == "":
		return &engine.FieldError{Source: s.ID, Field: "service", Value: `""`, Want: "wants the service's full name, such as " + string(VLLM)}
	case s.Ranks > 1:
		return &engine.FieldError{Source: s.ID, Field: "ranks", Value: fmt.Sprint(s.Ranks), Want: "wants 1: one subscription serves all ranks"}
	}
	return e.AddLinked(ctx, s, func(int) engine.Dial { return Dialer(o) })
}

// Dialer returns what makes the links of one stream: see ingest.Options.Dial.
func Dialer(o Options) engine.Dial {
	if o.MaxMessage == 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	if o.DialOptions == nil {
		o.DialOptions = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	d := &dialer{opt: o}
	return d.dial
}

// dialer is what a stream's links have in common. Its goroutine alone uses it.
type dialer struct {
	opt     Options
	conn    *grpc.ClientConn
	last    uint64 // the last sequence that was passed on
	any     bool   // there was one
	another bool   // the next link is of another history
}

func (d *dialer) dial(ctx context.Context, h ingest.Hooks) (ingest.Link, error) {
	if d.conn == nil {
		conn, err := grpc.NewClient(d.opt.Target, d.opt.DialOptions...)
		if err != nil {
			return nil, err
		}
		d.conn = conn
		context.AfterFunc(ctx, func() { conn.Close() }) // ctx lives as long as the stream
	}
	l := &link{dialer: d, hooks: h, parent: ctx, wake: make(chan struct{}, 1), another: d.another, fresh: true}
	d.another = false
	if err := l.subscribe(); err != nil {
		return nil, err
	}
	return l, nil
}

// link is one subscription, or several in a row without a break.
type link struct {
	dialer  *dialer
	hooks   ingest.Hooks
	parent  context.Context
	wake    chan struct{}
	another bool
	fresh   bool // nothing has come over this link
	asked   bool // behind dialer.last, because something was missing

	cancel  context.CancelFunc
	items   chan item
	reading sync.WaitGroup

	seq    [8]byte
	buf    []byte
	frames [3][]byte
}

// item is what the reading goroutine brings.
type item struct {
	batch batch
	err   error
}

// raw is a codec that leaves messages as they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("grpcsource: %T is no message", v)
	}
	return b, nil
}

func (raw) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("grpcsource: %T is no message", v)
	}
	*b = append((*b)[:0], data...)
	return nil
}

// subscribe opens a subscription behind the last batch that was passed on.
func (l *link) subscribe() error {
	ctx, cancel := context.WithCancel(l.parent)
	stream, err := l.dialer.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
		"/"+string(l.dialer.opt.Service)+"/SubscribeKvEvents", grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(l.dialer.opt.MaxMessage))
	if err == nil {
		start := uint64(0)
		if l.dialer.any {
			start = l.dialer.last
		}
		if err = stream.SendMsg(request(start)); err == nil {
			err = stream.CloseSend()
		}
	}
	// Whether the server has such a call it may say with its first batch only.
	if err != nil {
		cancel()
		return l.dialer.judge(err)
	}
	items := make(chan item)
	l.cancel, l.items = cancel, items
	l.reading.Go(func() { read(ctx, stream, items) })
	return nil
}

// read brings batches until the subscription ends.
func read(ctx context.Context, stream grpc.ClientStream, items chan<- item) {
	var message []byte
	for {
		var it item
		if it.err = stream.RecvMsg(&message); it.err == nil {
			it.err = it.batch.parse(message)
		}
		select {
		case items <- it:
		case <-ctx.Done():
			return
		}
		if it.err != nil {
			return
		}
	}
}

// judge says what an error of the server means.
func (d *dialer) judge(err error) error {
	switch status.Code(err) {
	case codes.Unimplemented:
		return fmt.Errorf("%w: the engine has no events: %w", ingest.ErrEnd, err)
	case codes.DataLoss:
		d.any, d.last, d.another = false, 0, true
	}
	if err == io.EOF {
		return errors.New("grpcsource: the server ended the subscription")
	}
	return err
}

// Next implements ingest.Link.
func (l *link) Next() ([][]byte, error) {
	d := l.dialer
	for {
		var it item
		select {
		case it = <-l.items:
		case <-l.wake:
			if err := l.hooks.Woken(); err != nil {
				return nil, err
			}
			continue
		case <-l.parent.Done():
			return nil, context.Cause(l.parent)
		}
		if it.err != nil {
			return nil, d.judge(it.err)
		}
		m := &it.batch
		first := l.fresh
		l.fresh = false
		switch {
		case !d.any:
		case first && m.seq < d.last: // the server began anew: it counts lower
		case m.seq <= d.last:
			l.hooks.Heard()
			continue
		case m.seq > d.last+1 && !l.asked:
			l.end()
			if err := l.subscribe(); err != nil {
				return nil, err
			}
			l.asked = true
			continue
		}
		l.asked = false
		d.last, d.any = m.seq, true
		binary.BigEndian.PutUint64(l.seq[:], m.seq)
		l.buf = payload(l.buf[:0], m)
		l.frames = [3][]byte{nil, l.seq[:], l.buf}
		return l.frames[:], nil
	}
}

// end ends the subscription at hand.
func (l *link) end() {
	l.cancel()
	l.reading.Wait()
}

// Wake implements ingest.Link.
func (l *link) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Another implements ingest.Newcomer.
func (l *link) Another() bool { return l.another }

// Close implements ingest.Link.
func (l *link) Close() error {
	l.end()
	return nil
}
