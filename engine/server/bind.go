package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// ErrOpenListener: a listener that other machines can reach has no token or no
// TLS.
var ErrOpenListener = errors.New("server: the listener can be reached from other machines")

// CheckBind refuses an address that is not loopback unless it is secured by a
// token and TLS, or the operator insists. exposed is true where only the
// insistence let it pass: the caller logs it at every start.
func CheckBind(addr string, token, tls, insecure bool) (exposed bool, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, fmt.Errorf("server: listen address %q: wants host:port: %w", addr, err)
	}
	if loopback(host) || token && tls {
		return false, nil
	}
	if insecure {
		return true, nil
	}
	missing := "a token and TLS are"
	switch {
	case token:
		missing = "TLS is"
	case tls:
		missing = "a token is"
	}
	return false, fmt.Errorf("%w: %q: %s missing; listen on 127.0.0.1, give both, or insist with insecure", ErrOpenListener, addr, missing)
}

// loopback reports whether a host can only be reached from this machine. A
// name is trusted only if it is localhost: what others resolve to may change.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// TLSConfig loads a certificate and its key, and with clientCA asks callers
// for a certificate of theirs. TLS 1.2 is the minimum.
func TLSConfig(cert, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("server: certificate %q with key %q: %w", cert, key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(clientCA)
	if err != nil {
		return nil, fmt.Errorf("server: client CA: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("server: client CA %q holds no PEM certificate", clientCA)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}
