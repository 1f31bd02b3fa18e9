package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of the end-to-end tests: far above what a loaded
// machine needs, so that only what never comes runs into it.
const patience = 30 * time.Second

// served is a running cairn serve, a process of its own.
type served struct {
	url     string // of the routes
	admin   string
	process *os.Process // nil once it was told to stop
	done    chan error

	mu  sync.Mutex
	log []string
}

var listening = regexp.MustCompile(`msg=listening for=(\w+) address=(\S+)`)

// startServe runs cairn serve with the sources of a configuration on free
// ports, and waits until it listens. The test ends it, and fails if it does
// not end in order.
func startServe(t *testing.T, sources string, flags ...string) *served {
	t.Helper()
	return start(t, "serve", sources, flags...)
}

// start is startServe for any command that serves.
func start(t *testing.T, command, sources string, flags ...string) *served {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cairn.yaml")
	if err := os.WriteFile(file, []byte(sources), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{command, "--config", file, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, flags...)
	cmd := exec.Command("cairn", args...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &served{process: cmd.Process, done: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		s.follow(errs, ready)
		s.done <- cmd.Wait()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of cairn serve:\n%s", s.text())
		}
		if err := s.stop(); err != nil {
			t.Errorf("cairn serve did not end in order: %v\n%s", err, s.text())
		}
	})
	select {
	case <-ready:
	case err := <-s.done:
		s.process = nil
		t.Fatalf("cairn serve ended: %v\n%s", err, s.text())
	case <-time.After(patience):
		t.Fatalf("cairn serve does not listen:\n%s", s.text())
	}
	return s
}

// follow reads the log, and tells when serving began.
func (s *served) follow(r io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text := lines.Text()
		s.mu.Lock()
		s.log = append(s.log, text)
		if m := listening.FindStringSubmatch(text); m != nil {
			if m[1] == "routes" {
				s.url = "http://" + m[2]
			} else {
				s.admin = "http://" + m[2]
			}
		}
		s.mu.Unlock()
		if strings.Contains(text, "msg=serving") {
			close(ready)
		}
	}
}

func (s *served) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}

// stop asks the process to end and waits for it, once.
func (s *served) stop() error {
	process := s.process
	if process == nil {
		return nil
	}
	s.process = nil
	if err := process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-s.done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("still running %v after the signal: %w", patience, process.Kill())
	}
}

// get returns the body of a route that must answer 200.
func get(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	if reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, reply.Status, body)
	}
	return string(body)
}

// streamAt is where one stream is, as /v1/sources tells.
type streamAt struct {
	Rank        int               `json:"rank"`
	State       string            `json:"state"`
	Connected   bool              `json:"connected"`
	Applied     *uint64           `json:"applied"`
	Incarnation int               `json:"incarnation"`
	Counters    map[string]uint64 `json:"counters"`
}

func (s *served) stream(t *testing.T, source string, rank int) (at streamAt) {
	t.Helper()
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
		if src.ID != source {
			continue
		}
		for _, st := range src.Streams {
			if st.Rank == rank {
				return st
			}
		}
	}
	t.Fatalf("source %s rank %d is not in /v1/sources", source, rank)
	return at
}

// await waits until a stream is where it should be. HTTP has no route that
// waits, so it asks again.
func (s *served) await(t *testing.T, source string, rank int, what string, done func(streamAt) bool) streamAt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		at := s.stream(t, source, rank)
		if done(at) {
			return at
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("source %s rank %d: %s: still %+v", source, rank, what, at)
		}
	}
}

// applied waits until a sequence is applied.
func (s *served) applied(t *testing.T, source string, rank int, seq uint64) streamAt {
	t.Helper()
	return s.await(t, source, rank, fmt.Sprintf("sequence %d applied", seq), func(at streamAt) bool {
		return at.Applied != nil && *at.Applied >= seq
	})
}

// cairn runs a command of the binary and returns what it prints.
func cairn(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("cairn", args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("cairn %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}
