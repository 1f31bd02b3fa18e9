package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/automaxprocs/maxprocs"

	"github.com/cairn-kv/cairn/cmd/cairn/config"
	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/server"
	"github.com/cairn-kv/cairn/tree/content"
)

func newServe() *cobra.Command {
	var file string
	var printConfig bool
	c := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Follow the sources of a configuration and answer over HTTP",
		Long: `Connect to the event publishers of every source in the configuration, keep the
index of what they hold, and answer over HTTP until a signal comes.

A source is a worker: one model, one publisher per data-parallel rank (rank r
listens on port + r). A minimal configuration:

  sources:
    - id: w1
      model: m
      endpoint: tcp://10.0.0.1:5557

vLLM publishes with --kv-events-config '{"enable_kv_cache_events": true,
"publisher": "zmq", "endpoint": "tcp://*:5557"}', SGLang with --kv-events-config
'{"publisher": "zmq", "endpoint": "tcp://*:5557"}'.

vLLM's publisher connects instead if its endpoint names a host: then listen.

  listeners:
    - {id: fleet, bind: "tcp://*:5557", topic: "kv@{source}@{model}"}

Every setting but sources and listeners can be given three ways; the later
wins: in the file, as an environment variable (CAIRN_LISTEN, CAIRN_LOG_LEVEL,
…), as a flag.

Routes: POST /v1/match, POST /v1/hint, GET /v1/owners, GET /v1/sources,
GET /health, GET /ready, GET /metrics; with --registration also PUT and DELETE
/v1/workers/{id}, POST /v1/workers/{id}/renew; profiles on the admin listener
under /debug/pprof.`,
		Example: `  cairn serve --config cairn.yaml
  CAIRN_LOG_FORMAT=json cairn serve --config cairn.yaml --listen 127.0.0.1:9000
  cairn serve --config cairn.yaml --print-config   # what would be used, and stop`,
		Args: noArguments,
	}
	values := settingFlags(c)
	c.Flags().StringVar(&file, "config", "", "configuration file (or CAIRN_CONFIG)")
	c.Flags().BoolVar(&printConfig, "print-config", false, "print the effective configuration and stop")
	c.RunE = func(c *cobra.Command, _ []string) error {
		conf, err := configure(c, file, values)
		if err != nil {
			return &usageError{err}
		}
		if printConfig {
			out, err := conf.YAML()
			if err == nil {
				_, err = c.OutOrStdout().Write(out)
			}
			return err
		}
		return serve(c.Context(), conf, newLogger(c.ErrOrStderr(), conf.Log), recordOptions{})
	}
	return c
}

// configure joins file, environment and flags, in this order.
func configure(c *cobra.Command, file string, values map[string]*string) (config.Config, error) {
	conf := config.Default()
	env, err := config.ReadEnvironment(os.Environ())
	if err != nil {
		return conf, err
	}
	if file == "" && env.File != nil {
		file = *env.File
	}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return conf, fmt.Errorf("configuration: %w", err)
		}
		if conf, err = config.Parse(file, data); err != nil {
			return conf, err
		}
	}
	problems := []error{conf.Override(env)}
	for i := range config.Settings {
		s := &config.Settings[i]
		if c.Flags().Changed(s.Flag()) {
			problems = append(problems, s.Set(&conf, "--"+s.Flag(), *values[s.Flag()]))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return conf, err
	}
	return conf, conf.Validate()
}

func newLogger(w io.Writer, l config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // the configuration was checked
	}
	options := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// setProcs lets the container's CPU quota decide how many processors Go uses:
// rounded up and at least two, for with one the answers queue behind ingest.
// The runtime of Go 1.25 and later reads the quota too; setting it here once
// makes the figure one that can be logged and explained, and keeps it.
func setProcs(log *slog.Logger) {
	source := "machine"
	_, err := maxprocs.Set(
		maxprocs.Min(2),
		maxprocs.RoundQuotaFunc(func(v float64) int { return int(math.Ceil(v)) }),
		maxprocs.Logger(func(format string, args ...any) { source = fmt.Sprintf(format, args...) }),
	)
	if err != nil {
		log.Warn("the CPU quota could not be read", "error", err)
	}
	log.Info("processors", "gomaxprocs", runtime.GOMAXPROCS(0), "source", source)
}

// serve runs until ctx ends or a listener fails, then shuts down in order:
// no new requests, those under way end, then the recording if there is one,
// registrations, the streams and the index.
func serve(ctx context.Context, conf config.Config, log *slog.Logger, r recordOptions) (err error) {
	setProcs(log)
	e, err := engine.Open(engine.Options{
		Shards:             conf.Shards,
		RingBytes:          conf.RingBytes,
		IndexBytes:         conf.IndexBytes,
		StaleAfter:         conf.StaleAfter,
		SilentAfter:        conf.SilentAfter,
		AllowDegradedHints: conf.DegradedHints,
		Hints:              conf.Hints,
		Repair:             conf.Repair,
		Owners:             engine.OwnerOptions{OnGap: conf.OnGap, OnLoss: conf.OnLoss, RequireFirstSeq: conf.RequireFirstSeq},
		Logger:             log,
	})
	if err != nil {
		return &usageError{err}
	}
	s := &service{log: log, failed: make(chan error, 2), workers: &registering{}}
	recorded := func(context.Context) error { return nil }
	defer func() {
		// The bound holds for all of it, whatever hangs.
		limit, cancel := context.WithTimeout(context.Background(), conf.Grace)
		defer cancel()
		err = errors.Join(err, s.shutdown(limit), recorded(limit), s.workers.close(limit), e.Close(limit))
		log.Info("stopped", "error", err)
	}()
	if r.out != "" {
		if recorded, err = r.start(e, log); err != nil {
			return err
		}
	}
	o := server.Options{Engine: e, Logger: log, Version: thisBuild().Version}
	workers, err := openRegistry(conf, e, log, &o)
	if err != nil {
		return err
	}
	s.workers = workers
	api, tlsConfig, err := handlers(conf, o)
	if err != nil {
		return &usageError{err}
	}
	if exposed, err := server.CheckBind(conf.Listen, conf.TokenFile != "", tlsConfig != nil, conf.Insecure); err != nil {
		return &usageError{err}
	} else if exposed {
		log.Warn("other machines can reach this listener without token or TLS (insecure)", "listen", conf.Listen)
	}
	addr, err := s.listen(ctx, "routes", conf.Listen, api.Handler(), tlsConfig)
	if err != nil {
		return err
	}
	if conf.Admin != config.None {
		if _, err := s.listen(ctx, "admin", conf.Admin, api.Admin(), nil); err != nil {
			return err
		}
	}
	for _, source := range conf.Sources {
		if err := e.AddSource(ctx, source); err != nil {
			return fmt.Errorf("source %q: %w", source.ID, err)
		}
	}
	// Behind the sources, whose names are theirs whoever connects first.
	for _, l := range conf.Listeners {
		if err := e.Listen(ctx, l); err != nil {
			return fmt.Errorf("listener %q: %w", l.ID, err)
		}
		if open(l.Bind) && len(l.Users) == 0 {
			log.Warn("whoever can reach this listener may publish (no users)", "listener", l.ID, "bind", l.Bind)
		}
	}
	workers.start()
	log.Info("serving", "listen", addr, "tls", tlsConfig != nil, "token", conf.TokenFile != "",
		"sources", len(conf.Sources), "listeners", len(conf.Listeners), "shards", conf.Shards, "content_hashes", content.Scheme,
		"block_sizes", "learned from events", "version", thisBuild().Version)
	select {
	case <-r.over():
		return nil
	case <-ctx.Done():
		log.Info("stopping", "grace", conf.Grace)
		return nil
	case err := <-s.failed:
		return err
	}
}

// open reports whether other machines can reach an endpoint that is bound.
func open(bind string) bool {
	address, tcp := strings.CutPrefix(bind, "tcp://")
	host, _, err := net.SplitHostPort(address)
	if !tcp || err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.IsLoopback() // a name may be any address
}

// handlers makes the routes, and what protects them.
func handlers(conf config.Config, o server.Options) (*server.Server, *tls.Config, error) {
	var tlsConfig *tls.Config
	var err error
	if conf.TokenFile != "" {
		if o.Tokens, err = server.LoadTokens(conf.TokenFile); err != nil {
			return nil, nil, err
		}
	}
	if conf.TLSCert != "" {
		if tlsConfig, err = server.TLSConfig(conf.TLSCert, conf.TLSKey, ""); err != nil {
			return nil, nil, err
		}
	}
	api, err := server.New(o)
	return api, tlsConfig, err
}

// service is the HTTP servers of a process.
type service struct {
	log     *slog.Logger
	servers []*http.Server
	unasked []*unasked // per server
	failed  chan error // one per server at most
	workers *registering
}

// listen binds an address and serves it. It returns the address with the port
// that was chosen.
func (s *service) listen(ctx context.Context, name, addr string, h http.Handler, t *tls.Config) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%s listener: %w", name, err)
	}
	bound := l.Addr().String()
	if t != nil {
		l = tls.NewListener(l, t)
	}
	hs := server.HTTPServer(h, s.log)
	u := &unasked{conns: map[net.Conn]struct{}{}}
	hs.ConnState = u.note
	s.servers, s.unasked = append(s.servers, hs), append(s.unasked, u)
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("%s listener: %w", name, err)
		}
	}()
	s.log.Info("listening", "for", name, "address", bound)
	return bound, nil
}

// shutdown lets requests under way end, for at most half of what ctx leaves:
// the other half belongs to the streams. What is not done then is cut off.
func (s *service) shutdown(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	var errs []error
	for i, hs := range s.servers {
		s.unasked[i].close()
		if err := hs.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("requests under way were cut off: %w", err), hs.Close())
		}
	}
	return errors.Join(errs...)
}
