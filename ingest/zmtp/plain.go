package zmtp

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/go-zeromq/zmq4"
)

// maxCredential is the longest user name or password of PLAIN, in bytes.
const maxCredential = 255

// Secret gives a password at the moment a handshake needs it, so that one that
// is replaced where it is kept takes effect with the next connection. It may be
// called by several goroutines at once.
type Secret interface {
	Secret() (string, error)
}

// Password is a Secret that is known. It does not show itself when printed or
// logged.
type Password string

// Secret returns the password.
func (p Password) Secret() (string, error) { return string(p), nil }

// String hides the password.
func (Password) String() string { return "[hidden]" }

// GoString hides the password.
func (Password) GoString() string { return "[hidden]" }

// LogValue hides the password.
func (Password) LogValue() slog.Value { return slog.StringValue("[hidden]") }

// Plain is a user of the PLAIN mechanism. PLAIN encrypts nothing: it keeps out
// who does not know the password, not who can read the network.
type Plain struct {
	User     string
	Password Secret // required
}

// read returns user and password, checked for what the wire can carry.
func (p *Plain) read() (user, password string, err error) {
	if p.Password == nil {
		return "", "", fmt.Errorf("%w: user %q has no password; an empty one would be Password(\"\")", ErrAuth, p.User)
	}
	if password, err = p.Password.Secret(); err != nil {
		return "", "", fmt.Errorf("%w: password of user %q: %w", ErrAuth, p.User, err)
	}
	if len(p.User) > maxCredential || len(password) > maxCredential {
		return "", "", fmt.Errorf("%w: user %.32q: name of %d bytes, password of %d; at most %d each", ErrAuth, p.User, len(p.User), len(password), maxCredential)
	}
	return p.User, password, nil
}

// plainClient is the side of PLAIN that proves itself: for a subscriber that
// dials, and for a publisher that does.
//
//	client                         server
//	HELLO user, password ────────▶
//	                     ◀──────── WELCOME            or ERROR, and the end
//	INITIATE metadata    ────────▶
//	                     ◀──────── READY metadata     or ERROR, and the end
//
// zmq4 has a PLAIN of its own, whose server accepts anybody and whose client
// can be used once.
type plainClient struct {
	clear
	as *Plain
}

// plainServer is the side of PLAIN that checks. There is at least one user.
type plainServer struct {
	clear
	users []Plain
}

// clear is what is common: PLAIN sends messages as they are.
type clear struct{}

func (clear) Type() zmq4.SecurityType                       { return zmq4.PlainSecurity }
func (clear) Encrypt(w io.Writer, data []byte) (int, error) { return w.Write(data) }
func (clear) Decrypt(w io.Writer, data []byte) (int, error) { return w.Write(data) }

// Handshake implements zmq4.Security.
func (p plainClient) Handshake(conn *zmq4.Conn, _ bool) error {
	user, password, err := p.as.read()
	if err != nil {
		return err
	}
	hello := make([]byte, 0, 2+len(user)+len(password))
	hello = append(append(hello, byte(len(user))), user...)
	hello = append(append(hello, byte(len(password))), password...)
	if err := conn.SendCmd(zmq4.CmdHello, hello); err != nil {
		return err
	}
	if _, err := expect(conn, zmq4.CmdWelcome); err != nil {
		return err
	}
	meta, err := conn.Meta.MarshalZMTP()
	if err != nil {
		return err
	}
	if err := conn.SendCmd(zmq4.CmdInitiate, meta); err != nil {
		return err
	}
	body, err := expect(conn, zmq4.CmdReady)
	if err != nil {
		return err
	}
	return conn.Peer.Meta.UnmarshalZMTP(body)
}

// Handshake implements zmq4.Security.
func (p plainServer) Handshake(conn *zmq4.Conn, _ bool) error {
	body, err := expect(conn, zmq4.CmdHello)
	if err != nil {
		return err
	}
	if err := p.check(body); err != nil {
		const reason = "Invalid username or password"
		refused := conn.SendCmd(zmq4.CmdError, append([]byte{byte(len(reason))}, reason...))
		return errors.Join(err, refused)
	}
	if err := conn.SendCmd(zmq4.CmdWelcome, nil); err != nil {
		return err
	}
	if body, err = expect(conn, zmq4.CmdInitiate); err != nil {
		return err
	}
	if err := conn.Peer.Meta.UnmarshalZMTP(body); err != nil {
		return err
	}
	meta, err := conn.Meta.MarshalZMTP()
	if err != nil {
		return err
	}
	return conn.SendCmd(zmq4.CmdReady, meta)
}

// expect receives the command that must come next. An ERROR is the peer's no.
func expect(conn *zmq4.Conn, name string) ([]byte, error) {
	cmd, err := conn.RecvCmd()
	switch {
	case err != nil:
		return nil, err
	case cmd.Name == zmq4.CmdError:
		// One byte of length, then a text; some peers send the text alone.
		reason := cmd.Body
		if len(reason) > 0 && int(reason[0]) == len(reason)-1 {
			reason = reason[1:]
		}
		return nil, fmt.Errorf("%w: the peer refused: %.64q", ErrAuth, reason)
	case cmd.Name != name:
		return nil, fmt.Errorf("%w: command %.16q where %s must come", ErrHandshake, cmd.Name, name)
	}
	return cmd.Body, nil
}

// check looks for the user of a HELLO. It compares with every user, in a time
// that does not tell how much of a name or password was right.
func (p plainServer) check(hello []byte) error {
	user, rest, ok := counted(hello)
	password, rest, ok2 := counted(rest)
	if !ok || !ok2 || len(rest) > 0 {
		return fmt.Errorf("%w: HELLO of %d bytes is not a counted name and a counted password", ErrHandshake, len(hello))
	}
	u, w := sha256.Sum256(user), sha256.Sum256(password)
	found := 0
	var failed error
	for i := range p.users {
		name, secret, err := p.users[i].read()
		if err != nil {
			failed = err // the others may still come in
			continue
		}
		n, s := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(secret))
		found |= subtle.ConstantTimeCompare(u[:], n[:]) & subtle.ConstantTimeCompare(w[:], s[:])
	}
	if found == 1 {
		return nil
	}
	if failed != nil {
		return failed
	}
	return fmt.Errorf("%w: user %.32q is not known here, or its password is another", ErrAuth, bytes.ToValidUTF8(user, []byte("?")))
}

// counted takes a string with one byte of length off p.
func counted(p []byte) (s, rest []byte, ok bool) {
	if len(p) == 0 || len(p) < 1+int(p[0]) {
		return nil, nil, false
	}
	n := 1 + int(p[0])
	return p[1:n], p[n:], true
}
