package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-kv/cairn/engine"
)

// kind is how a setting is written in the file.
type kind uint8

const (
	text     kind = iota // a string
	number               // a whole number
	flag                 // true or false
	duration             // a string such as 30s
	size                 // a string such as 128KiB, or a whole number of bytes
)

func (k kind) String() string {
	return [...]string{"a string", "a whole number", "true or false", "a duration such as 30s", "a size such as 128KiB"}[k]
}

// Setting is one scalar that file, environment and flags can all set.
type Setting struct {
	Key   string // path in the file, such as log.level
	Usage string // one line, for --help and the documentation
	kind  kind
	set   func(*Config, string) error // parses and stores; the error is a wrong
	get   func(*Config) string
}

// Flag is the setting's command line flag without dashes: log-level.
func (s *Setting) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key)
}

// Variable is the setting's environment variable: CAIRN_LOG_LEVEL.
func (s *Setting) Variable() string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// IsFlag reports whether the setting is true or false, so that its command
// line flag needs no value.
func (s *Setting) IsFlag() bool { return s.kind == flag }

// Get renders the setting's value in c as the file would have it.
func (s *Setting) Get(c *Config) string { return s.get(c) }

// Set gives the setting a value that came from where (a flag or a variable).
// The error is a *Problem.
func (s *Setting) Set(c *Config, where, value string) error {
	if err := s.set(c, value); err != nil {
		return problem(where, s.Key, strconv.Quote(value), err)
	}
	return nil
}

// Settings are all scalars, in the order in which they are documented.
var Settings = []Setting{
	textSetting("listen", "host:port of the HTTP routes", func(c *Config) *string { return &c.Listen }, checkListen),
	textSetting("admin", "host:port of /debug/pprof, or none", func(c *Config) *string { return &c.Admin }, unlessNone(checkListen)),
	textSetting("token_file", "file with the bearer token that callers must send", func(c *Config) *string { return &c.TokenFile }, nil),
	textSetting("tls_cert", "PEM file with the server's certificate", func(c *Config) *string { return &c.TLSCert }, nil),
	textSetting("tls_key", "PEM file with the certificate's key", func(c *Config) *string { return &c.TLSKey }, nil),
	flagSetting("insecure", "listen on a non-loopback address without token and TLS", func(c *Config) *bool { return &c.Insecure }),
	{
		Key: "shards", kind: number,
		Usage: "index writers; a source lives on one of them",
		set: func(c *Config, s string) error {
			n, err := parseInt(s, 1, engine.MaxEngineShards)
			if err == nil {
				c.Shards = int(n)
			}
			return err
		},
		get: func(c *Config) string { return strconv.Itoa(c.Shards) },
	},
	{
		Key: "ring_bytes", kind: size,
		Usage: "bytes of the ring between one stream and its index writer",
		set: func(c *Config, s string) error {
			n, err := parseBytes(s, MinRingBytes, MaxRingBytes)
			if err == nil {
				c.RingBytes = int(n)
			}
			return err
		},
		get: func(c *Config) string { return formatBytes(int64(c.RingBytes)) },
	},
	{
		Key: "index_bytes", kind: size,
		Usage: "byte budget of the index, or none",
		set: func(c *Config, s string) error {
			if s == None {
				c.IndexBytes = 0
				return nil
			}
			n, err := parseBytes(s, engine.MinIndexBytes, engine.MaxIndexBytes)
			if err == nil {
				c.IndexBytes = int(n)
			}
			return err
		},
		get: func(c *Config) string {
			if c.IndexBytes == 0 {
				return None
			}
			return formatBytes(int64(c.IndexBytes))
		},
	},
	durationSetting("stale_after", "hide a source whose link is down for longer", MaxStateWindow,
		func(c *Config) *time.Duration { return &c.StaleAfter }),
	durationSetting("silent_after", "mark a source from which nothing is heard for longer", MaxStateWindow,
		func(c *Config) *time.Duration { return &c.SilentAfter }),
	durationSetting("shutdown_grace", "bound of an orderly shutdown", MaxGrace,
		func(c *Config) *time.Duration { return &c.Grace }),
	flagSetting("degraded_hints", "let sources that lost something for good serve hints", func(c *Config) *bool { return &c.DegradedHints }),
	flagSetting("registration", "let workers register over HTTP, under leases", func(c *Config) *bool { return &c.Registration }),
	textSetting("workers_file", "JSON file of workers that is watched: what it says is registered", func(c *Config) *string { return &c.WorkersFile }, nil),
	{
		Key: "max_slots", kind: number,
		Usage: "cache owners that one control scope may have registered",
		set: func(c *Config, s string) error {
			n, err := parseInt(s, 1, MaxMaxSlots)
			if err == nil {
				c.MaxSlots = int(n)
			}
			return err
		},
		get: func(c *Config) string { return strconv.Itoa(c.MaxSlots) },
	},
	{
		Key: "on_gap", kind: text,
		Usage: "a registered owner that misses batches: retire it, or repair it first",
		set: func(c *Config, s string) error {
			on, err := engine.ParseOnGap(s)
			if err != nil || s == "" {
				return bad("is no such word", "retire or repair")
			}
			c.OnGap = on
			return nil
		},
		get: func(c *Config) string { return c.OnGap.String() },
	},
	{
		Key: "on_loss", kind: text,
		Usage: "a registered durable owner that lost batches: clear or keep what it holds",
		set: func(c *Config, s string) error {
			on, err := engine.ParseOnLoss(s)
			if err != nil || s == "" {
				return bad("is no such word", "clear or keep")
			}
			c.OnLoss = on
			return nil
		},
		get: func(c *Config) string { return c.OnLoss.String() },
	},
	flagSetting("require_first_seq", "a registered owner whose first batch is not the first of all has lost something", func(c *Config) *bool { return &c.RequireFirstSeq }),
	textSetting("log.level", "debug, info, warn or error", func(c *Config) *string { return &c.Log.Level },
		func(s string) error { return oneOf(s, LogLevels) }),
	textSetting("log.format", "text or json", func(c *Config) *string { return &c.Log.Format },
		func(s string) error { return oneOf(s, LogFormats) }),
}

// Lookup returns the setting of a key.
func Lookup(key string) (*Setting, bool) {
	for i := range Settings {
		if Settings[i].Key == key {
			return &Settings[i], true
		}
	}
	return nil, false
}

func textSetting(key, usage string, field func(*Config) *string, check func(string) error) Setting {
	return Setting{
		Key: key, Usage: usage, kind: text,
		set: func(c *Config, s string) error {
			if check != nil {
				if err := check(s); err != nil {
					return err
				}
			}
			*field(c) = s
			return nil
		},
		get: func(c *Config) string { return *field(c) },
	}
}

func flagSetting(key, usage string, field func(*Config) *bool) Setting {
	return Setting{
		Key: key, Usage: usage, kind: flag,
		set: func(c *Config, s string) error {
			switch s {
			case "true", "false":
				*field(c) = s == "true"
				return nil
			}
			return bad("is not a truth value", flag.String())
		},
		get: func(c *Config) string { return strconv.FormatBool(*field(c)) },
	}
}

func durationSetting(key, usage string, most time.Duration, field func(*Config) *time.Duration) Setting {
	return Setting{
		Key: key, Usage: usage, kind: duration,
		set: func(c *Config, s string) error {
			d, err := parseDuration(s, time.Millisecond, most)
			if err == nil {
				*field(c) = d
			}
			return err
		},
		get: func(c *Config) string { return field(c).String() },
	}
}

// unlessNone accepts the word none besides what check does. An empty value
// would not do: an empty environment variable counts as one that is not set.
func unlessNone(check func(string) error) func(string) error {
	return func(s string) error {
		if s == None {
			return nil
		}
		return check(s)
	}
}

// parseInt reads a whole number within [least, most].
func parseInt(s string, least, most int64) (int64, error) {
	want := fmt.Sprintf("a whole number from %d to %d", least, most)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, bad("is not a whole number", want)
	}
	if n < least || n > most {
		return 0, bad("is out of range", want)
	}
	return n, nil
}
