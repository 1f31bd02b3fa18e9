package main

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"
)

var forPublishers = regexp.MustCompile(`msg="listening for publishers" listener=(\S+) endpoint=(\S+)`)

// publishersAt is where a listener of a running server is bound.
func (s *served) publishersAt(t *testing.T, listener string) string {
	t.Helper()
	for _, m := range forPublishers.FindAllStringSubmatch(s.text(), -1) {
		if m[1] == listener {
			return m[2]
		}
	}
	t.Fatalf("no listener %s in\n%s", listener, s.text())
	return ""
}

// appears awaits a source that comes into being with its first message.
func (s *served) appears(t *testing.T, source string, rank int, seq uint64) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		var reply struct {
			Sources []struct {
				ID      string     `json:"id"`
				Streams []streamAt `json:"streams"`
			} `json:"sources"`
		}
		if err := json.Unmarshal([]byte(get(t, s.url+"/v1/sources")), &reply); err != nil {
			t.Fatal(err)
		}
		for _, src := range reply.Sources {
			for _, at := range src.Streams {
				if src.ID == source && at.Rank == rank && at.Applied != nil && *at.Applied == seq {
					return
				}
			}
		}
		if time.Now().After(until) {
			t.Fatalf("%s rank %d, sequence %d never came: %+v", source, rank, seq, reply)
		}
	}
}

// TestInteropConnect: publishers of libzmq connect to a server that is bound,
// with topics, passwords and heartbeats, and a server that dials proves itself to
// one of theirs.
func TestInteropConnect(t *testing.T) {
	p := startPython(t)
	t.Setenv("KV_PASSWORD", "s3cret")
	closed := p.do(t, ev{"op": "bind-plain", "name": "closed", "user": "cairn", "password": "s3cret"})["endpoint"].(string)
	s := startServe(t, `
sources:
  - {id: closed, model: m3, endpoint: "`+closed+`", plain: {user: cairn, password_env: KV_PASSWORD}}
listeners:
  - {id: fleet, bind: "tcp://127.0.0.1:0", topic: "kv@{source}@{model}", users: [{user: engine, password_env: KV_PASSWORD}]}
  - {id: open, bind: "tcp://127.0.0.1:0", topic: "kv@{source}", model: m2}
`)
	const four = "1,2,3,4"
	store := ev{"event": "store", "block_hashes": []uint64{1}, "token_ids": []int{1, 2, 3, 4}, "block_size": 4}
	publish := func(name, topic string, seq uint64, rank any, events ...ev) {
		p.do(t, ev{"op": "send", "name": name, "dialect": "vllm-map", "topic": topic, "seq": seq, "rank": rank, "events": append([]ev{}, events...)})
	}
	check := func(want, model string) {
		t.Helper()
		if got := depthsOf(t, s, "--model", model, "--tokens", four); got != want {
			t.Errorf("%s: got %q, want %q", model, got, want)
		}
	}
	connect := func(name, listener, want string, more ev) {
		t.Helper()
		more["op"], more["name"], more["endpoint"] = "connect", name, s.publishersAt(t, listener)
		p.do(t, more)
		if topic := p.do(t, ev{"op": "subscribed", "name": name})["topic"]; topic != want {
			t.Errorf("%s: subscribed to %q, want %q", name, topic, want)
		}
	}

	connect("a", "fleet", "kv@", ev{"user": "engine", "password": "s3cret", "heartbeat_ms": 50})
	connect("b", "fleet", "kv@", ev{"user": "engine", "password": "s3cret"})
	publish("a", "kv@10.0.0.1:8000@m", 0, 0, store)
	publish("b", "kv@10.0.0.2:8000@m", 0, nil, store)
	s.appears(t, "10.0.0.1:8000", 0, 0)
	s.appears(t, "10.0.0.2:8000", 0, 0)
	check("10.0.0.1:8000/0=4/4 10.0.0.2:8000/0=4/4", "m")

	// The end of one is nothing to the other; its next process is a restart.
	p.do(t, ev{"op": "close", "name": "a"})
	s.await(t, "10.0.0.1:8000", 0, "disconnect", func(at streamAt) bool { return at.State == "disconnected" })
	publish("b", "kv@10.0.0.2:8000@m", 1, nil, ev{"event": "remove", "block_hashes": []uint64{1}})
	s.appears(t, "10.0.0.2:8000", 0, 1)
	connect("a", "fleet", "kv@", ev{"user": "engine", "password": "s3cret"})
	publish("a", "kv@10.0.0.1:8000@m", 0, 0, ev{"event": "clear"})
	s.await(t, "10.0.0.1:8000", 0, "restart", func(at streamAt) bool { return at.State == "exact" && at.Incarnation == 1 })
	check("", "m")

	// A relay speaks for many, and for several ranks, over one connection.
	connect("relay", "open", "kv@", ev{})
	publish("relay", "kv@x", 0, 0, store)
	publish("relay", "kv@y", 5, 0, store)
	publish("relay", "kv@x", 0, 1, store)
	publish("relay", "kv@x", 1, 0)
	s.appears(t, "x", 0, 1)
	s.appears(t, "y", 0, 5)
	s.appears(t, "x", 1, 0)
	check("x/0=4/4 x/1=4/4 y/0=4/4", "m2")

	// A password that is wrong stays out.
	p.do(t, ev{"op": "connect", "name": "stranger", "endpoint": s.publishersAt(t, "fleet"), "user": "engine", "password": "guess"})

	// And the other way round.
	if topic := p.do(t, ev{"op": "subscribed", "name": "closed"})["topic"]; topic != "" {
		t.Errorf("closed: subscribed to %q", topic)
	}
	publish("closed", "", 0, nil, store)
	s.appears(t, "closed", 0, 0)
	check("closed/0=4/4", "m3")
}
