package config

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// Limits of what a listener may say.
const (
	MinMessage     = 1 << 10
	MaxMessage     = 1 << 30
	MinMemory      = 64 << 10
	MaxMemory      = 1 << 40
	MaxConnections = 1 << 16
	MaxForgetAfter = 365 * 24 * time.Hour
	MaxHandshake   = time.Minute
)

var listenerKeys = append([]string{
	"id", "bind", "connect", "topic", "source", "max_sources", "max_streams", "only_known", "forget_after",
	"users", "plain", "max_connections", "max_message", "max_memory", "handshake_timeout", "sources",
}, dialectKeys...)

// defaultListener returns a listener at its defaults, spelt out.
func defaultListener() engine.Listener {
	s := defaultSource()
	s.Ranks = 0 // ranks come into being with their messages
	return engine.Listener{
		Source:     s,
		MaxSources: engine.DefaultMaxSources, MaxStreams: engine.DefaultMaxStreams, ForgetAfter: engine.DefaultForgetAfter,
		MaxConns: zmtp.DefaultMaxConns, MaxMessage: zmtp.DefaultMaxMessage, MaxMemory: zmtp.DefaultMaxMemory,
		HandshakeTimeout: zmtp.DefaultHandshakeTimeout,
	}
}

func (r *reader) listeners(c *Config, n ast.Node) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, "listeners", "a list of listeners, each with id, bind and topic")
		return
	}
	for i, v := range list.Values {
		c.Listeners = append(c.Listeners, r.listener(v, fmt.Sprintf("listeners[%d]", i)))
	}
}

// listener reads one entry, and lets the engine judge it.
func (r *reader) listener(n ast.Node, path string) engine.Listener {
	l := defaultListener()
	at := places{"": n}
	before := len(r.problems)
	known := false
	r.mapping(n, path, listenerKeys, func(key string, v ast.Node) bool {
		at[key] = v
		p := join(path, key)
		switch key {
		case "id":
			r.text(v, p, &l.ID)
		case "bind":
			r.text(v, p, &l.Bind)
		case "connect":
			r.text(v, p, &l.Connect)
		case "topic":
			r.text(v, p, &l.Topic)
		case "source":
			r.text(v, p, &l.Source.ID)
		case "max_sources":
			r.whole(v, p, 1, engine.MaxListenerSources, func(n uint64) { l.MaxSources = int(n) })
		case "max_streams":
			r.whole(v, p, 1, engine.MaxListenerStreams, func(n uint64) { l.MaxStreams = int(n) })
		case "only_known":
			r.truth(v, p, &known)
		case "forget_after":
			r.duration(v, p, time.Second, MaxForgetAfter, &l.ForgetAfter)
		case "users":
			r.users(v, p, at, &l.Users)
		case "plain":
			l.Plain = r.plain(v, p)
		case "max_connections":
			r.whole(v, p, 1, MaxConnections, func(n uint64) { l.MaxConns = int(n) })
		case "max_message":
			r.size(v, p, MinMessage, MaxMessage, func(n int64) { l.MaxMessage = int(n) })
		case "max_memory":
			r.size(v, p, MinMemory, MaxMemory, func(n int64) { l.MaxMemory = n })
		case "handshake_timeout":
			r.duration(v, p, time.Millisecond, MaxHandshake, &l.HandshakeTimeout)
		case "sources":
			r.known(v, p, at, &l.Sources)
		default:
			return r.dialect(key, v, p, &l.Source)
		}
		return true
	})
	if known {
		l.MaxSources = -1
	}
	if len(r.problems) == before {
		r.engine(path, l.Validate(), at)
	}
	return l
}

// users reads who may connect.
func (r *reader) users(n ast.Node, path string, at places, dst *[]zmtp.Plain) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, path, "a list of users, each with user and password_file or password_env")
		return
	}
	for i, v := range list.Values {
		at[fmt.Sprintf("users[%d]", i)] = v
		if p := r.plain(v, fmt.Sprintf("%s[%d]", path, i)); p != nil {
			*dst = append(*dst, *p)
		}
	}
}

// known reads the sources that are known beforehand.
func (r *reader) known(n ast.Node, path string, at places, dst *[]engine.Source) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongType(n, path, "a list of sources, each with id and what is its own")
		return
	}
	for i, v := range list.Values {
		*dst = append(*dst, r.source(v, fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("sources[%d]", i), at))
	}
}

// plain reads a user and where the password is kept.
func (r *reader) plain(n ast.Node, path string) *zmtp.Plain {
	p := &zmtp.Plain{}
	var kept secretKeys
	named := false
	r.mapping(n, path, []string{"user", "password_file", "password_env"}, func(key string, v ast.Node) bool {
		if key == "user" {
			named = true
			r.text(v, join(path, key), &p.User)
			return true
		}
		return r.secretKey(key, "password", v, path, &kept)
	})
	before := len(r.problems)
	p.Password = r.secret(n, path, "password", kept)
	if p.Password == nil && len(r.problems) == before {
		r.add(n, join(path, "password_file"), "", bad("is missing", "a file with the password, or password_env with a variable's name"))
	}
	if !named {
		r.add(n, join(path, "user"), "", bad("is missing", "the name of the user"))
	}
	return p
}

// discovery reads where an engine announces its publishers.
func (r *reader) discovery(n ast.Node, path, name string, at places) *engine.Discovery {
	d := &engine.Discovery{}
	var kept secretKeys
	r.mapping(n, path, []string{"url", "token_file", "token_env", "replay"}, func(key string, v ast.Node) bool {
		at[join(name, key)] = v
		switch key {
		case "url":
			r.text(v, join(path, key), &d.URL)
		case "replay":
			r.truth(v, join(path, key), &d.Replay)
		default:
			return r.secretKey(key, "token", v, path, &kept)
		}
		return true
	})
	d.Token = r.secret(n, path, "token", kept)
	return d
}

// duration reads a duration within [least, most].
func (r *reader) duration(n ast.Node, path string, least, most time.Duration, dst *time.Duration) {
	s, ok := scalar(n, duration)
	if !ok {
		r.wrongType(n, path, duration.String())
		return
	}
	d, err := parseDuration(s, least, most)
	if err != nil {
		shown, _ := describe(n)
		r.add(n, path, shown, err)
		return
	}
	*dst = d
}

// size reads a number of bytes within [least, most].
func (r *reader) size(n ast.Node, path string, least, most int64, set func(int64)) {
	s, ok := scalar(n, size)
	if !ok {
		r.wrongType(n, path, size.String())
		return
	}
	v, err := parseBytes(s, least, most)
	if err != nil {
		shown, _ := describe(n)
		r.add(n, path, shown, err)
		return
	}
	set(v)
}
