package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cairn-kv/cairn/engine/server"
)

// maxReply bounds what a server may make the client read.
const maxReply = 64 << 20

// client talks to the routes of a running server.
type client struct {
	transport http.RoundTripper // nil: the one that all share
	server    string
	tokenFile string
	timeout   time.Duration
	asJSON    bool
}

func (k *client) flags(f *pflag.FlagSet) {
	f.StringVar(&k.server, "server", "http://127.0.0.1:8090", "URL of the server")
	f.StringVar(&k.tokenFile, "token-file", "", "file with the bearer token the server wants; the server's own will do: its first token is sent")
	f.DurationVar(&k.timeout, "timeout", 10*time.Second, "how long to wait for the answer")
	f.BoolVar(&k.asJSON, "json", false, "print the server's answer as it came")
}

// post sends a request and returns the body of a 200.
func (k *client) post(ctx context.Context, route string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	return k.ask(ctx, http.MethodPost, route, body)
}

// get returns the body of a 200.
func (k *client) get(ctx context.Context, route string) ([]byte, error) {
	return k.ask(ctx, http.MethodGet, route, nil)
}

func (k *client) ask(ctx context.Context, method, route string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	reply, err := k.send(ctx, method, route, body)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", reply.Request.URL, err)
	}
	return data, nil
}

// send sends a request and returns the answer if it is a 200. The caller closes
// its body.
func (k *client) send(ctx context.Context, method, route string, body []byte) (*http.Response, error) {
	if base, err := url.Parse(k.server); err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, &usageError{fmt.Errorf("--server %q is not the URL of a server; want a URL like http://127.0.0.1:8090", k.server)}
	}
	url := strings.TrimSuffix(k.server, "/") + route
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, &usageError{fmt.Errorf("--server %q: %w; want a URL like http://127.0.0.1:8090", k.server, err)}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if k.tokenFile != "" {
		token, err := firstToken(k.tokenFile)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--token-file: %w", err)}
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	reply, err := (&http.Client{Transport: k.transport}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer from the server: %w", err)
	}
	if reply.StatusCode == http.StatusOK {
		return reply, nil
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return nil, refusal(url, reply.StatusCode, data)
}

// firstToken returns the first token of a file that a server would accept. The
// server's own parser judges the file; it keeps hashes alone, so that the text
// is taken from the first line that is neither empty nor a comment.
func firstToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if _, err := server.LoadTokens(path); err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 0 && f[0][0] != '#' {
			return f[len(f)-1], nil
		}
	}
	return "", fmt.Errorf("%s holds no token", path)
}

// refusedError is an answer that is none of 200.
type refusedError struct {
	status int
	code   string // slug of the server's, "" if it gave none
	text   string
}

func (e *refusedError) Error() string { return e.text }

// refusal makes an error of what the server said.
func refusal(url string, status int, body []byte) error {
	var said struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}
	e := &refusedError{status: status, text: fmt.Sprintf("%s answered %d %s", url, status, http.StatusText(status))}
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		e.code = said.Code
		e.text = fmt.Sprintf("the server refused (%d %s): %s", status, said.Code, said.Error)
	}
	return e
}

// question is the part of a request that query and hint share.
type question struct {
	Model   string   `json:"model"`
	Tokens  []uint32 `json:"tokens"`
	Adapter string   `json:"adapter,omitempty"`
	Salt    string   `json:"salt,omitempty"`
}

// prompt reads the flags of a question.
type prompt struct {
	model, tokens, adapter, salt string
}

func (p *prompt) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.model, "model", "", "the model that is asked for (required)")
	f.StringVar(&p.tokens, "tokens", "", "token ids, separated by commas or space; @FILE reads a file, @- standard input; a JSON list will do (required)")
	f.StringVar(&p.adapter, "adapter", "", "name of the LoRA adapter; empty is the base model")
	f.StringVar(&p.salt, "salt", "", "cache salt of the request; empty is none")
}

func (p *prompt) question(in io.Reader) (question, error) {
	q := question{Model: p.model, Adapter: p.adapter, Salt: p.salt}
	if p.model == "" {
		return q, &usageError{fmt.Errorf("--model is missing; want the model as the server's sources name it")}
	}
	text := p.tokens
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var data []byte
		var err error
		if name == "-" {
			data, err = io.ReadAll(io.LimitReader(in, maxReply))
		} else {
			data, err = os.ReadFile(name)
		}
		if err != nil {
			return q, &usageError{fmt.Errorf("--tokens: %w", err)}
		}
		text = string(data)
	}
	tokens, err := parseTokens(text)
	if err != nil {
		return q, &usageError{err}
	}
	q.Tokens = tokens
	return q, nil
}

// parseTokens reads token ids, exactly: none passes through a float.
func parseTokens(text string) ([]uint32, error) {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r == ',' || r == '[' || r == ']' || r == ' ' || r == '\t' || r == '\n' || r == '\r'
	})
	if len(words) == 0 {
		return nil, fmt.Errorf("--tokens is empty; want token ids such as 1,2,3 or @FILE")
	}
	tokens := make([]uint32, 0, len(words))
	for i, w := range words {
		id, err := strconv.ParseUint(w, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("--tokens: tokens[%d]: %q is not a 32-bit token id", i, w)
		}
		tokens = append(tokens, uint32(id))
	}
	return tokens, nil
}
