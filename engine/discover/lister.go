package discover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Defaults of Options.
const (
	DefaultTimeout     = 5 * time.Second
	DefaultMinInterval = 500 * time.Millisecond
)

// maxReply bounds a list, in bytes. SGLang's server info is tens of KiB.
const maxReply = 4 << 20

// Options of a Lister. Zero values mean the defaults.
type Options struct {
	// URL of the list: http or https, with a host. Required.
	URL string
	// Token, if set, gives what is sent as a bearer token, anew for each
	// request.
	Token func() (string, error)
	// Timeout bounds one request.
	Timeout time.Duration
	// MinInterval is how long an answer, or a failure, serves all that ask.
	MinInterval time.Duration
	// Transport, if set, replaces http.DefaultTransport.
	Transport http.RoundTripper
}

// Lister knows where an engine's publishers are, by asking it.
type Lister struct {
	url    string
	host   string
	token  func() (string, error)
	client *http.Client
	every  time.Duration

	turn chan struct{} // one slot: whose turn it is to ask; guards what follows
	last time.Time
	list []Publisher
	err  error
}

// CheckURL returns what is wrong with the URL of a list, or nil.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

func parseURL(raw string) (*url.URL, error) {
	const want = "wants http://host:port/kv_event_sources (vLLM) or http://host:port/server_info (SGLang)"
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, fmt.Errorf("is no URL; %s", want)
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return nil, errors.New(want)
	case u.User != nil:
		return nil, errors.New("names a user; a token is given apart from the URL, which is logged")
	}
	return u, nil
}

// New makes a Lister. Nothing is asked yet.
func New(o Options) (*Lister, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("discover: %q %w", o.URL, err)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MinInterval == 0 {
		o.MinInterval = DefaultMinInterval
	}
	return &Lister{
		url: o.URL, host: u.Hostname(), token: o.Token, every: o.MinInterval,
		client: &http.Client{
			Transport:     o.Transport,
			Timeout:       o.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		turn: make(chan struct{}, 1),
	}, nil
}

// Publisher returns where a rank's publisher is now. It asks the engine, unless
// it was asked less than MinInterval ago.
func (l *Lister) Publisher(ctx context.Context, rank int) (Publisher, error) {
	list, err := l.List(ctx)
	if err != nil {
		return Publisher{}, err
	}
	var ranks []string
	for _, p := range list {
		if p.Rank == rank {
			return p, nil
		}
		ranks = append(ranks, strconv.Itoa(p.Rank))
	}
	return Publisher{}, fmt.Errorf("discover: %s names no publisher of rank %d, only of %s", l.url, rank, strings.Join(ranks, ", "))
}

// List returns where all publishers are now, by rank, as Publisher does. The
// slice is the lister's own.
func (l *Lister) List(ctx context.Context) ([]Publisher, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if !l.last.IsZero() && time.Since(l.last) < l.every {
		return l.list, l.err
	}
	list, err := l.ask(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // which says nothing about the engine
	}
	slices.SortFunc(list, func(a, b Publisher) int { return a.Rank - b.Rank })
	l.list, l.err, l.last = list, err, time.Now()
	return list, err
}

func (l *Lister) ask(ctx context.Context) ([]Publisher, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, nil)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if l.token != nil {
		token, err := l.token()
		if err != nil {
			return nil, fmt.Errorf("discover: token for %s: %w", l.url, err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := l.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("discover: %s answers %s; want 200", l.url, reply.Status)
	}
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxReply+1))
	if err != nil {
		return nil, fmt.Errorf("discover: %s: %w", l.url, err)
	}
	if len(body) > maxReply {
		return nil, fmt.Errorf("discover: %s answers more than %d bytes", l.url, maxReply)
	}
	list, err := Parse(body, l.host)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, l.url)
	}
	return list, nil
}
