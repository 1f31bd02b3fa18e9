package config

import (
	"time"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/residency"
	"github.com/cairn-kv/cairn/tree"
)

// Defaults of what is not the engine's to say. HTTP is on loopback, by the
// conventions of the field on 8090.
const (
	DefaultListen = "127.0.0.1:8090"
	DefaultAdmin  = "127.0.0.1:8091"
	DefaultShards = 1
	DefaultGrace  = 5 * time.Second
)

// None is the value of admin that means no such listener.
const None = "none"

// Limits of what a configuration may say.
const (
	MinRingBytes   = 4 << 10
	MaxRingBytes   = 64 << 20
	MaxGrace       = 10 * time.Minute
	MaxStateWindow = 24 * time.Hour
	MaxMaxSlots    = 1 << 16
)

// Config is everything `cairn serve` is told. The zero value is not useful:
// start from Default.
type Config struct {
	Listen      string        // host:port of the HTTP routes
	Admin       string        // host:port of /debug/pprof, or None
	TokenFile   string        // file with the bearer token; "" = no token
	TLSCert     string        // PEM file; with TLSKey
	TLSKey      string        // PEM file; with TLSCert
	Insecure    bool          // allow a non-loopback listener without token and TLS
	Shards      int           // index writers, 1 … engine.MaxEngineShards
	RingBytes   int           // bytes of one stream's ring
	IndexBytes  int           // byte budget of the index; 0: none
	StaleAfter  time.Duration // link down for longer: the source's answers are hidden
	SilentAfter time.Duration // connected, but nothing heard for longer: marked silent
	Grace       time.Duration // bound of an orderly shutdown

	// DegradedHints lets sources that lost something for good serve hints.
	DegradedHints bool
	// Hints choose which source a hint names.
	Hints engine.HintOptions
	// Repair bounds how streams make up for what they missed.
	Repair engine.RepairOptions

	// Registration lets workers register over HTTP; WorkersFile is a watched
	// file that registers them, "" = none. MaxSlots bounds the cache owners of one
	// control scope.
	Registration bool
	WorkersFile  string
	MaxSlots     int
	// OnGap says whether registered owners are repaired, OnLoss what a durable
	// one's inventory is worth after a loss; RequireFirstSeq fences or degrades an
	// attachment whose first batch is not the publisher's first.
	OnGap           engine.OnGap
	OnLoss          engine.OnLoss
	RequireFirstSeq bool

	Log       Log
	Sources   []engine.Source
	Listeners []engine.Listener
}

// Log says how much is logged, and how.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// LogLevels and LogFormats are what log.level and log.format accept.
var (
	LogLevels  = []string{"debug", "info", "warn", "error"}
	LogFormats = []string{"text", "json"}
)

// Default returns a configuration without sources and all else at its default.
func Default() Config {
	return Config{
		Listen:      DefaultListen,
		Admin:       DefaultAdmin,
		Shards:      DefaultShards,
		RingBytes:   engine.DefaultRingBytes,
		StaleAfter:  engine.DefaultStaleAfter,
		SilentAfter: engine.DefaultSilentAfter,
		Grace:       DefaultGrace,
		MaxSlots:    residency.DefaultMaxSlots,
		Log:         Log{Level: "info", Format: "text"},
	}
}

// defaultSource returns a source at its defaults, spelt out.
func defaultSource() engine.Source {
	return engine.Source{Ranks: 1, Protocol: engine.FrameworkV1, Policy: tree.Copies}
}
