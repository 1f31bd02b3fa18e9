package discover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []Publisher
	}{
		{"vLLM", `[{"data_parallel_rank":0,"endpoint":"tcp://10.0.0.1:40001","replay_endpoint":null,"topic":""},
			{"data_parallel_rank":1,"endpoint":"tcp://10.0.0.1:40002","replay_endpoint":"tcp://10.0.0.1:40003","topic":"kv@a"}]`,
			[]Publisher{{0, "tcp://10.0.0.1:40001", "", ""}, {1, "tcp://10.0.0.1:40002", "tcp://10.0.0.1:40003", "kv@a"}}},
		{"vLLM without ranks", ` [{"endpoint":"tcp://[fd00::1]:1"}]`, []Publisher{{0, "tcp://[fd00::1]:1", "", ""}}},
		{"wildcards", `[{"endpoint":"tcp://*:1","replay_endpoint":"tcp://0.0.0.0:2"},{"data_parallel_rank":1,"endpoint":"tcp://[::]:3","replay_endpoint":""}]`,
			[]Publisher{{0, "tcp://engine:1", "tcp://engine:2", ""}, {1, "tcp://engine:3", "", ""}}},
		{"more fields", `[{"endpoint":"tcp://h:1","hwm":5,"schema":{"v":1}}]`, []Publisher{{0, "tcp://h:1", "", ""}}},
		{"SGLang", `{"served_model_name":"m","kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"topic":"kv","block_size":16,"dp_size":2}}`,
			[]Publisher{{0, "tcp://engine:5557", "", "kv"}, {1, "tcp://engine:5558", "", "kv"}}},
		{"SGLang on IPv6", `{"kv_events":{"publisher":"zmq","endpoint_host":"[fd00::1]","endpoint_port_base":5557}}`,
			[]Publisher{{0, "tcp://[fd00::1]:5557", "", ""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse([]byte(c.body), "engine")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"no list", ``, "server info"},
		{"no JSON", `<html>`, "server info"},
		{"half a list", `[{"endpoint"`, "list of KV event sources"},
		{"wrong type", `[{"endpoint":5557}]`, "list of KV event sources"},
		{"port 0", `[{"endpoint":"tcp://h:0"}]`, `discover: [0].endpoint "tcp://h:0": wants a port from 1 to 65535`},
		{"ipc", `[{"endpoint":"ipc:///x"}]`, `[0].endpoint "ipc:///x": wants tcp://host:port`},
		{"no port", `[{"endpoint":"tcp://h"}]`, `[0].endpoint "tcp://h": wants tcp://host:port`},
		{"replay", `[{"endpoint":"tcp://h:1","replay_endpoint":"h:2"}]`, `[0].replay_endpoint "h:2"`},
		{"rank twice", `[{"endpoint":"tcp://h:1"},{"endpoint":"tcp://h:2"}]`, `[1].data_parallel_rank 0: wants each rank once`},
		{"rank below 0", `[{"data_parallel_rank":-1,"endpoint":"tcp://h:1"}]`, `[0].data_parallel_rank -1: wants 0 … 4095`},
		{"ports beyond", `{"kv_events":{"publisher":"zmq","endpoint_port_base":65535,"dp_size":2}}`, `kv_events.endpoint_port_base 65535`},
		{"no port base", `{"kv_events":{"publisher":"zmq"}}`, `kv_events.endpoint_port_base 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse([]byte(c.body), "engine"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	for _, body := range []string{`[]`, `{}`, `{"kv_events":null}`, `{"kv_events":{"publisher":"null"}}`} {
		if _, err := Parse([]byte(body), "engine"); !errors.Is(err, ErrNone) {
			t.Errorf("%s: got %v, want ErrNone", body, err)
		}
	}
}

func lister(t *testing.T, h http.HandlerFunc, o Options) *Lister {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	o.URL = s.URL + "/kv_event_sources"
	o.Transport = s.Client().Transport
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The next process has other ports, and the next question finds them.
func TestListerFollowsRestarts(t *testing.T) {
	var port atomic.Int32
	port.Store(40001)
	l := lister(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `[{"data_parallel_rank":1,"endpoint":"tcp://*:%d"}]`, port.Load())
	}, Options{MinInterval: time.Nanosecond})
	for want := int32(40001); want < 40004; want++ {
		port.Store(want)
		p, err := l.Publisher(context.Background(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if p.Endpoint != fmt.Sprintf("tcp://127.0.0.1:%d", want) {
			t.Fatalf("got %+v, want port %d", p, want)
		}
	}
	if _, err := l.Publisher(context.Background(), 0); err == nil || !strings.Contains(err.Error(), "no publisher of rank 0, only of 1") {
		t.Fatal(err)
	}
}

// Many ranks that ask at once are one request.
func TestListerAsksOnce(t *testing.T) {
	var asked atomic.Int32
	l := lister(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `[{"endpoint":"tcp://h:1"}]`)
	}, Options{MinInterval: time.Hour})
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			if _, err := l.Publisher(context.Background(), 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestListerErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		o    Options
		want string
	}{
		{"not found", http.NotFound, Options{}, "answers 404 Not Found; want 200"},
		{"redirect", http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, Options{}, "answers 302 Found"},
		{"nothing published", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }, Options{}, ErrNone.Error()},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for range maxReply/1024 + 2 {
				w.Write(make([]byte, 1024))
			}
		}, Options{}, "answers more than"},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, Options{Timeout: 20 * time.Millisecond}, "Timeout exceeded"},
		{"no token", http.NotFound, Options{Token: func() (string, error) { return "", errors.New("no such file") }}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := lister(t, c.h, c.o).Publisher(context.Background(), 0)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestListerSendsToken(t *testing.T) {
	l := lister(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `[{"endpoint":"tcp://h:1"}]`)
	}, Options{Token: func() (string, error) { return "s3cret", nil }})
	if _, err := l.List(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// A caller that leaves spoils nothing for the others.
func TestListerCancelled(t *testing.T) {
	started := make(chan struct{}, 1)
	var held atomic.Bool
	held.Store(true)
	l := lister(t, func(w http.ResponseWriter, r *http.Request) {
		if held.Load() {
			started <- struct{}{}
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `[{"endpoint":"tcp://h:1"}]`)
	}, Options{MinInterval: time.Hour})
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("gone")
	go func() {
		<-started
		held.Store(false)
		cancel(gone)
	}()
	if _, err := l.List(ctx); err != gone {
		t.Fatalf("got %v, want the context's cause", err)
	}
	if _, err := l.List(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestCheckURL(t *testing.T) {
	for url, want := range map[string]string{
		"http://h:8000/kv_event_sources":  "",
		"https://[fd00::1]:1/server_info": "",
		"h:8000/kv_event_sources":         "wants http://host:port/kv_event_sources",
		"tcp://h:1":                       "wants http://",
		"http:///x":                       "wants http://",
		"http://h:\x00":                   "is no URL",
		"http://u:p@h/x":                  "names a user",
	} {
		err := CheckURL(url)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", url, err, want)
		}
	}
	if _, err := New(Options{URL: "x"}); err == nil {
		t.Error("made a lister without a URL")
	}
}
