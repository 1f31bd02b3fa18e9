package config

import (
	"time"
)

// Defaults. Ports and addresses follow the conventions of the field: events
// on 5557, replay on 5558, HTTP on loopback.
const (
	DefaultListen      = "127.0.0.1:8090"
	DefaultAdmin       = "127.0.0.1:8091"
	DefaultShards      = 1
	DefaultRingBytes   = 128 << 10
	DefaultStaleAfter  = 30 * time.Second
	DefaultSilentAfter = 30 * time.Second
	DefaultGrace       = 5 * time.Second
)

// None is the value of admin that means no such listener.
const None = "none"

// Limits of what a configuration may say.
const (
	MaxShards      = 64
	MinRingBytes   = 16 << 10
	MaxRingBytes   = 64 << 20
	MaxRanks       = 64
	MaxTPShards    = 16
	MaxTopicBytes  = 255
	MaxNameBytes   = 255
	MaxGrace       = 10 * time.Minute
	MaxStateWindow = 24 * time.Hour
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
	Shards      int           // index writers, 1 … MaxShards
	RingBytes   int           // bytes of one stream's ring
	StaleAfter  time.Duration // link down for longer: the source's answers are hidden
	SilentAfter time.Duration // connected, but nothing heard for longer: marked silent
	Grace       time.Duration // bound of an orderly shutdown
	Log         Log
	Sources     []Source
}

// Log says how much is logged, and how.
type Log struct {
	Level  string // debug, info, warn, error
	Format string // text, json
}

// Source is one worker or pool whose events are followed.
type Source struct {
	ID         string   // unique among the sources
	Model      string   // the model it serves; never on the wire
	Endpoint   string   // tcp:// or ipc://; rank r listens on port + r
	Shards     []string // instead of Endpoint: one per TP shard, intersected
	Replay     string   // replay endpoint; "" = none
	Ranks      int      // data-parallel ranks, 1 … MaxRanks
	Protocol   string   // one of Protocols
	Topic      string   // subscription prefix; "" = everything
	Policy     string   // copies, set
	MainGroup  int      // cache group that gives prefix residency
	FirstSeq   uint64   // 0, or 1 for a Mooncake master and the llm-d fs backend
	PythonRoot bool     // SGLang up to 0.4.10: parent hash(()) is the root
	Hint       *Hint    // nil: no hints to it, and none that name it
}

// Hint says what part a source takes in peer-fetch hints.
type Hint struct {
	WorkerType string // one of WorkerTypes
	Endpoint   string // tcp://host:port of its control socket; "" = target only
}

// Protocols are the residency protocols a source may declare. framework_v1
// owns nothing: its blocks raise the overlap and are never offered to peers.
var Protocols = []string{"framework_v1", "sglang_hicache_v1", "vllm_residency_v1"}

// WorkerTypes are the roles a hint-capable worker may have.
var WorkerTypes = []string{"aggregated", "prefill", "decode"}

// Policies say what repeated stores of one block mean.
var Policies = []string{"copies", "set"}

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
		RingBytes:   DefaultRingBytes,
		StaleAfter:  DefaultStaleAfter,
		SilentAfter: DefaultSilentAfter,
		Grace:       DefaultGrace,
		Log:         Log{Level: "info", Format: "text"},
	}
}

// defaultSource returns a source at its defaults.
func defaultSource() Source {
	return Source{Ranks: 1, Protocol: "framework_v1", Policy: "copies", PythonRoot: true}
}
