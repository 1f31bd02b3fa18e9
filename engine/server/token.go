package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Role is what a token allows. A higher role includes the lower ones.
type Role uint8

const (
	RoleNone  Role = iota
	RoleRead       // queries, status, metrics
	RoleWrite      // what changes state
	RoleAdmin      // profiles, dumps
)

// recheck is how often the token file is looked at.
const recheck = time.Second

// Tokens are the bearer tokens of a file, reloaded when it changes. Each line
// is a token, or a role (read, write, admin) and a token; a token without role
// allows everything. Empty lines and lines that begin with # are skipped.
type Tokens struct {
	path string

	mu      sync.Mutex // guards what follows; never held by a query
	checked time.Time
	mod     time.Time
	size    int64
	known   []known
	err     error // why the last reload failed; the old tokens stay
}

type known struct {
	sum  [sha256.Size]byte // hashed, so that lengths do not show in the timing
	role Role
}

// LoadTokens reads a token file. It must hold at least one token.
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if err := t.load(); err != nil {
		return nil, err
	}
	t.checked = time.Now()
	return t, nil
}

func (t *Tokens) load() error {
	st, err := os.Stat(t.path)
	if err != nil {
		return fmt.Errorf("server: token file: %w", err)
	}
	data, err := os.ReadFile(t.path)
	if err != nil {
		return fmt.Errorf("server: token file: %w", err)
	}
	var all []known
	for n, line := range bytes.Split(data, []byte("\n")) {
		f := strings.Fields(string(line))
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		k := known{role: RoleAdmin}
		switch len(f) {
		case 1:
		case 2:
			switch f[0] {
			case "read":
				k.role = RoleRead
			case "write":
				k.role = RoleWrite
			case "admin":
			default:
				return fmt.Errorf("server: token file %q line %d: role %q: wants read, write or admin", t.path, n+1, f[0])
			}
		default:
			return fmt.Errorf("server: token file %q line %d: wants a token, or a role and a token", t.path, n+1)
		}
		k.sum = sha256.Sum256([]byte(f[len(f)-1]))
		all = append(all, k)
	}
	if len(all) == 0 {
		return fmt.Errorf("server: token file %q holds no token", t.path)
	}
	t.known, t.mod, t.size = all, st.ModTime(), st.Size()
	return nil
}

// role returns what a request's token allows, and the error of the last reload
// if it failed (the tokens of before still hold).
func (t *Tokens) role(r *http.Request) (Role, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.checked) >= recheck {
		t.checked = now
		if st, err := os.Stat(t.path); err != nil {
			t.err = fmt.Errorf("server: token file: %w", err)
		} else if !st.ModTime().Equal(t.mod) || st.Size() != t.size {
			t.err = t.load()
		}
	}
	// RFC 7235: the scheme's case does not matter, and one or more spaces follow.
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimLeft(token, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return RoleNone, t.err
	}
	sum := sha256.Sum256([]byte(token))
	best := RoleNone
	for i := range t.known { // all of them, always: no early way out to time
		if subtle.ConstantTimeCompare(sum[:], t.known[i].sum[:]) == 1 {
			best = max(best, t.known[i].role)
		}
	}
	return best, t.err
}
