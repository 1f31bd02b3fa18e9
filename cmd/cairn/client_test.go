package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/server"
)

// TestQueryReadsTheServersTokenFile: one file serves both ends, with roles and
// comments.
func TestQueryReadsTheServersTokenFile(t *testing.T) {
	for name, text := range map[string]string{
		"a token":            "abc\n",
		"without an end":     "abc",
		"a role":             "read abc\nadmin def\n",
		"comments and blank": "# for routers\n\n  read\tabc  \r\n# more\nwrite def\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tokens")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			tokens, err := server.LoadTokens(file)
			if err != nil {
				t.Fatal(err)
			}
			e, err := engine.Open(engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close(t.Context())
			api, err := server.New(server.Options{Engine: e, Tokens: tokens})
			if err != nil {
				t.Fatal(err)
			}
			var sent string
			hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent = r.Header.Get("Authorization")
				api.Handler().ServeHTTP(w, r)
			}))
			defer hs.Close()
			k := client{server: hs.URL + "/", tokenFile: file, timeout: patience}
			_, err = k.post(t.Context(), "/v1/match", question{Model: "m", Tokens: []uint32{1, 2, 3, 4}})
			// Past the token, the server has no such model.
			if sent != "Bearer abc" || err == nil || !strings.Contains(err.Error(), "unknown_model") {
				t.Errorf("sent %q: %v", sent, err)
			}
		})
	}
}

func TestUsageErrorsOfTheClient(t *testing.T) {
	for _, server := range []string{"nope", "127.0.0.1:8090", "ftp://h", "http://", "http://[", ""} {
		args := []string{"query", "--model", "m", "--tokens", "1", "--server", server}
		if got := run(args, nil, io.Discard, io.Discard); got != exitUsage {
			t.Errorf("--server %q: exit %d, want %d", server, got, exitUsage)
		}
	}
}
