package config

import (
	"errors"
	"reflect"

	"github.com/caarlos0/env/v11"
)

// Prefix begins the name of every variable that cairn reads.
const Prefix = "CAIRN_"

// Environment is what CAIRN_* may say: the settings, as text, and where the
// file is. A variable that is not set, or empty, is nil.
// Sources have no variables: they come from the file.
type Environment struct {
	File *string `env:"CONFIG"`

	Listen      *string `env:"LISTEN" key:"listen"`
	Admin       *string `env:"ADMIN" key:"admin"`
	TokenFile   *string `env:"TOKEN_FILE" key:"token_file"`
	TLSCert     *string `env:"TLS_CERT" key:"tls_cert"`
	TLSKey      *string `env:"TLS_KEY" key:"tls_key"`
	Insecure    *string `env:"INSECURE" key:"insecure"`
	Shards      *string `env:"SHARDS" key:"shards"`
	RingBytes   *string `env:"RING_BYTES" key:"ring_bytes"`
	IndexBytes  *string `env:"INDEX_BYTES" key:"index_bytes"`
	StaleAfter  *string `env:"STALE_AFTER" key:"stale_after"`
	SilentAfter *string `env:"SILENT_AFTER" key:"silent_after"`
	Grace       *string `env:"SHUTDOWN_GRACE" key:"shutdown_grace"`
	Degraded    *string `env:"DEGRADED_HINTS" key:"degraded_hints"`
	Register    *string `env:"REGISTRATION" key:"registration"`
	WorkersFile *string `env:"WORKERS_FILE" key:"workers_file"`
	MaxSlots    *string `env:"MAX_SLOTS" key:"max_slots"`
	OnGap       *string `env:"ON_GAP" key:"on_gap"`
	OnLoss      *string `env:"ON_LOSS" key:"on_loss"`
	FirstSeq    *string `env:"REQUIRE_FIRST_SEQ" key:"require_first_seq"`
	LogLevel    *string `env:"LOG_LEVEL" key:"log.level"`
	LogFormat   *string `env:"LOG_FORMAT" key:"log.format"`
}

// ReadEnvironment picks the variables of cairn out of environ, which has the
// form of os.Environ. Other CAIRN_* variables are left alone: a container
// platform makes some up for a service of that name (CAIRN_PORT and the like),
// so they cannot be errors.
func ReadEnvironment(environ []string) (Environment, error) {
	var e Environment
	err := env.ParseWithOptions(&e, env.Options{Environment: env.ToMap(environ), Prefix: Prefix})
	return e, err
}

// Override applies the variables that are set to c, over what the file said.
// All problems are returned, joined.
func (c *Config) Override(e Environment) error {
	var problems []error
	v := reflect.ValueOf(e)
	for i := range v.NumField() {
		key, ok := v.Type().Field(i).Tag.Lookup("key")
		value, _ := v.Field(i).Interface().(*string)
		if !ok || value == nil {
			continue
		}
		s, ok := Lookup(key)
		if !ok {
			panic("config: Environment names the setting " + key + ", which does not exist")
		}
		if err := s.Set(c, s.Variable(), *value); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
