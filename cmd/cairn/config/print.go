package config

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// YAML renders c as a file that Parse reads back to the same Config, with
// every setting spelt out. Secrets are not in it: the token is a file's name.
func (c *Config) YAML() ([]byte, error) {
	var root, log yaml.MapSlice
	for i := range Settings {
		s := &Settings[i]
		var value any = s.get(c)
		switch s.kind {
		case number: // unquoted, as Parse wants it; get renders a valid one
			value, _ = strconv.Atoi(s.get(c))
		case flag:
			value = s.get(c) == "true"
		}
		if key, ok := strings.CutPrefix(s.Key, "log."); ok {
			log = append(log, yaml.MapItem{Key: key, Value: value})
			continue
		}
		root = append(root, yaml.MapItem{Key: s.Key, Value: value})
	}
	root = append(root, yaml.MapItem{Key: "log", Value: log})
	if hints := hintsItems(&c.Hints); hints != nil {
		root = append(root, yaml.MapItem{Key: "hints", Value: hints})
	}
	if repair := repairItems(&c.Repair); len(repair) > 0 {
		root = append(root, yaml.MapItem{Key: "repair", Value: repair})
	}
	sources := []yaml.MapSlice{}
	for i := range c.Sources {
		sources = append(sources, sourceItems(&c.Sources[i]))
	}
	root = append(root, yaml.MapItem{Key: "sources", Value: sources})
	if len(c.Listeners) > 0 {
		var listeners []yaml.MapSlice
		for i := range c.Listeners {
			listeners = append(listeners, listenerItems(&c.Listeners[i]))
		}
		root = append(root, yaml.MapItem{Key: "listeners", Value: listeners})
	}
	return yaml.Marshal(root)
}

// sourceItems are the keys of a source, those at their default left out except
// the ones that a reader looks for first.
func sourceItems(s *engine.Source) yaml.MapSlice {
	list := items{{Key: "id", Value: s.ID}, {Key: "model", Value: s.Model}}
	add := list.add
	add(s.Endpoint != "", "endpoint", s.Endpoint)
	add(s.Push, "push", true)
	add(len(s.Shards) > 0, "shards", s.Shards)
	if d := s.Discover; d != nil {
		from := items{{Key: "url", Value: d.URL}}
		from.secret("token", d.Token)
		from.add(d.Replay, "replay", true)
		add(true, "discover", yaml.MapSlice(from))
	}
	add(s.Replay != "", "replay", s.Replay)
	add(len(s.ShardReplays) > 0, "shard_replays", s.ShardReplays)
	if s.Plain != nil {
		add(true, "plain", plainItems(s.Plain))
	}
	add(true, "ranks", s.Ranks)
	add(s.Topic != "", "topic", s.Topic)
	list.dialect(s)
	if s.Hint != nil {
		add(true, "hint", hintItems(s.Hint))
	}
	return yaml.MapSlice(list)
}

// items are keys with their values, in the order of the documentation.
type items yaml.MapSlice

func (l *items) add(when bool, key string, value any) {
	if when {
		*l = append(*l, yaml.MapItem{Key: key, Value: value})
	}
}

// dialect adds what dialectKeys names, but for the model.
func (l *items) dialect(s *engine.Source) {
	d := defaultSource()
	l.add(true, "protocol", s.Protocol)
	l.add(true, "policy", policies[s.Policy])
	l.add(s.MainGroup != d.MainGroup, "main_group", s.MainGroup)
	l.add(s.FirstSeq != d.FirstSeq, "first_seq", s.FirstSeq)
	l.add(s.NoPythonRoot, "python_root", false)
	l.add(s.BareMM, "mm_ids", "bare")
	l.add(s.BlockSize != d.BlockSize, "block_size", s.BlockSize)
	l.add(s.ZeroParentUnknown, "zero_parent", "unknown")
	l.add(s.Hybrid, "hybrid", true)
	l.add(s.InvisibleKeys, "extra_keys", "invisible")
	l.add(s.TakeUnsound, "unsound", "take")
}

// listenerItems are the keys of a listener.
func listenerItems(l *engine.Listener) yaml.MapSlice {
	d := defaultListener()
	list := items{{Key: "id", Value: l.ID}}
	list.add(l.Bind != "", "bind", l.Bind)
	list.add(l.Connect != "", "connect", l.Connect)
	list.add(true, "topic", l.Topic)
	list.add(l.Source.ID != "", "source", l.Source.ID)
	list.add(l.Source.Model != "", "model", l.Source.Model)
	list.dialect(&l.Source)
	if l.MaxSources < 0 {
		list.add(true, "only_known", true)
	} else {
		list.add(l.MaxSources != d.MaxSources, "max_sources", l.MaxSources)
	}
	list.add(l.MaxStreams != d.MaxStreams, "max_streams", l.MaxStreams)
	list.add(l.ForgetAfter != d.ForgetAfter, "forget_after", l.ForgetAfter.String())
	var users []any
	for i := range l.Users {
		users = append(users, plainItems(&l.Users[i]))
	}
	list.add(len(users) > 0, "users", users)
	if l.Plain != nil {
		list.add(true, "plain", plainItems(l.Plain))
	}
	list.add(l.MaxConns != d.MaxConns, "max_connections", l.MaxConns)
	list.add(l.MaxMessage != d.MaxMessage, "max_message", formatBytes(int64(l.MaxMessage)))
	list.add(l.MaxMemory != d.MaxMemory, "max_memory", formatBytes(l.MaxMemory))
	list.add(l.HandshakeTimeout != d.HandshakeTimeout, "handshake_timeout", l.HandshakeTimeout.String())
	var sources []yaml.MapSlice
	for i := range l.Sources {
		sources = append(sources, sourceItems(&l.Sources[i]))
	}
	list.add(len(sources) > 0, "sources", sources)
	return yaml.MapSlice(list)
}

// plainItems are the keys of a user. The password is not among them: where it is
// kept is.
func plainItems(p *zmtp.Plain) yaml.MapSlice {
	list := items{{Key: "user", Value: p.User}}
	list.secret("password", p.Password)
	return yaml.MapSlice(list)
}

func (l *items) secret(key string, s zmtp.Secret) {
	switch s := s.(type) {
	case FileSecret:
		l.add(true, key+"_file", string(s))
	case EnvSecret:
		l.add(true, key+"_env", string(s))
	}
}
