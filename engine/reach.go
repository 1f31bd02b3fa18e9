package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/cairn-kv/cairn/engine/discover"
	"github.com/cairn-kv/cairn/ingest"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// Discovery says where an engine announces its publishers: one that binds port 0
// learns its ports from the kernel, and others after each restart. It is asked
// before every connection.
type Discovery struct {
	// URL of the list: http://host:port/kv_event_sources (vLLM) or
	// http://host:port/server_info (SGLang). See package engine/discover.
	URL string
	// Token, if set, is sent as a bearer token.
	Token zmtp.Secret
	// Replay: the list names replay endpoints (vLLM's does, if there are any),
	// which are asked for what was missed.
	Replay bool
}

// met reports whether nothing says where the publisher of a source is, so that
// its ranks are those that are met.
func (s *Source) met() bool { return s.Endpoint == "" && len(s.Shards) == 0 && !s.Push }

// cloned returns a copy of what p points to.
func cloned[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func (s *Source) validateDiscovery(bad func(field, value, want string) error) {
	if err := discover.CheckURL(s.Discover.URL); err != nil {
		bad("discover.url", strconv.Quote(s.Discover.URL), err.Error())
	}
	for _, f := range []struct {
		set          bool
		field, value string
	}{
		{s.Endpoint != "", "endpoint", strconv.Quote(s.Endpoint)},
		{len(s.Shards) > 0, "shards", strconv.Itoa(len(s.Shards)) + " endpoints"},
		{s.Replay != "", "replay", strconv.Quote(s.Replay)},
		{s.Push, "push", "true"},
	} {
		if f.set {
			bad(f.field, f.value, "stands beside discover, whose list says where publishers are")
		}
	}
}

// discovered makes the links of a source whose engine announces its publishers.
func discovered(s *Source) (func(*feed) dialFunc, error) {
	o := discover.Options{URL: s.Discover.URL}
	if t := s.Discover.Token; t != nil {
		o.Token = t.Secret
	}
	lister, err := discover.New(o)
	if err != nil {
		return nil, err
	}
	return func(f *feed) dialFunc {
		f.endpoint, f.lister = s.Discover.URL, lister
		return func(ctx context.Context, h ingest.Hooks) (ingest.Link, error) {
			p, err := lister.Publisher(ctx, f.rank)
			if err != nil {
				return nil, err
			}
			spec := &f.src.spec
			t := zmtp.Options{Endpoint: p.Endpoint, Plain: spec.Plain, DialContext: f.src.engine.opt.DialContext}
			if spec.Topic != "" {
				t.Topics = []string{spec.Topic}
			} else if p.Topic != "" {
				t.Topics = []string{p.Topic}
			}
			f.src.engine.opt.Logger.Debug("publisher announced", "source", spec.ID, "rank", f.rank, "endpoint", p.Endpoint, "list", spec.Discover.URL)
			return ingest.ZMTP(t)(ctx, h)
		}
	}, nil
}

// announcedReplay is the endpoint of a replay socket that the engine announces:
// dialReplay finds out where that is.
const announcedReplay = "tcp://replay.announced.invalid:1"

// dialReplay connects to the replay socket that the engine announces now,
// whatever the address.
func (f *feed) dialReplay(ctx context.Context, _, _ string) (net.Conn, error) {
	p, err := f.lister.Publisher(ctx, f.rank)
	if err != nil {
		return nil, err
	}
	address, ok := strings.CutPrefix(p.Replay, "tcp://")
	if !ok {
		return nil, fmt.Errorf("engine: %s names no replay endpoint of rank %d", f.src.spec.Discover.URL, f.rank)
	}
	if dial := f.src.engine.opt.DialContext; dial != nil {
		return dial(ctx, "tcp", address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// joined makes one error of all problems: the one, if there is no other.
func joined(all []*FieldError) error {
	if len(all) == 1 {
		return all[0]
	}
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e
	}
	return errors.Join(errs...)
}
