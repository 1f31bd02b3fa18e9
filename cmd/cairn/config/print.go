package config

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/cairn-kv/cairn/engine"
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
	sources := []yaml.MapSlice{}
	for i := range c.Sources {
		sources = append(sources, sourceItems(&c.Sources[i]))
	}
	root = append(root, yaml.MapItem{Key: "sources", Value: sources})
	return yaml.Marshal(root)
}

// sourceItems are the keys of a source, those at their default left out except
// the ones that a reader looks for first.
func sourceItems(s *engine.Source) yaml.MapSlice {
	d := defaultSource()
	list := yaml.MapSlice{{Key: "id", Value: s.ID}, {Key: "model", Value: s.Model}}
	add := func(when bool, key string, value any) {
		if when {
			list = append(list, yaml.MapItem{Key: key, Value: value})
		}
	}
	add(len(s.Shards) == 0 && !s.Push, "endpoint", s.Endpoint)
	add(s.Push, "push", true)
	add(len(s.Shards) > 0, "shards", s.Shards)
	add(s.Replay != "", "replay", s.Replay)
	add(true, "ranks", s.Ranks)
	add(true, "protocol", s.Protocol)
	add(s.Topic != "", "topic", s.Topic)
	add(true, "policy", policies[s.Policy])
	add(s.MainGroup != d.MainGroup, "main_group", s.MainGroup)
	add(s.FirstSeq != d.FirstSeq, "first_seq", s.FirstSeq)
	add(s.NoPythonRoot, "python_root", false)
	add(s.BareMM, "mm_ids", "bare")
	if s.Hint != nil {
		hint := yaml.MapSlice{{Key: "worker_type", Value: s.Hint.WorkerType}}
		if s.Hint.Endpoint != "" {
			hint = append(hint, yaml.MapItem{Key: "endpoint", Value: s.Hint.Endpoint})
		}
		if s.Hint.Stride != 0 {
			hint = append(hint, yaml.MapItem{Key: "stride", Value: s.Hint.Stride})
		}
		add(true, "hint", hint)
	}
	return list
}
