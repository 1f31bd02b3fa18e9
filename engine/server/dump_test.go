package server

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine"
)

func TestDumpRoute(t *testing.T) {
	h := pushServer(t)
	if code, body := do(t, h, "POST", "/v1/events?source=w1&wait=applied", `[1,[["BlockStored",[7],null,[1,2,3,4],4,null]],null]`); code != 200 {
		t.Fatal(body)
	}
	code, body := do(t, h, "GET", "/v1/dump", "")
	want := "block w1 0 worker unit=4+0 end=4 chain=cb38e4d7fb2dca5c name=0000000000000007 device tp=0 span=1 copies=1\n"
	if code != 200 || !strings.HasPrefix(body, "cairn dump 1 ") || !strings.Contains(body, want) {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := do(t, newServer(t, Options{Engine: &fake{}}).Handler(), "GET", "/v1/dump", ""); code != 404 {
		t.Errorf("an engine that cannot: %d, want 404", code)
	}
}

// dumping is an engine whose dump fails, at once or behind its first line.
type dumping struct {
	fake
	first string
	err   error
}

func (d *dumping) Dump(_ context.Context, w io.Writer) error {
	if d.first != "" {
		if _, err := io.WriteString(w, d.first); err != nil {
			return err
		}
	}
	return d.err
}

func TestDumpFails(t *testing.T) {
	for err, want := range map[error]int{engine.ErrNoDump: 501, engine.ErrClosed: 503} {
		if code, body := do(t, newServer(t, Options{Engine: &dumping{err: err}}).Handler(), "GET", "/v1/dump", ""); code != want {
			t.Errorf("%v: %d %s, want %d", err, code, body, want)
		}
	}
	ts := httptest.NewServer(newServer(t, Options{Engine: &dumping{first: "cairn dump", err: errors.New("broken")}}).Handler())
	defer ts.Close()
	defer ts.Client().CloseIdleConnections()
	reply, err := ts.Client().Get(ts.URL + "/v1/dump")
	if err == nil {
		_, err = io.ReadAll(reply.Body)
		reply.Body.Close()
	}
	if err == nil {
		t.Error("a dump that broke off looks whole")
	}
}
