package main

import (
	"net"
	"strings"
	"testing"
)

// TestShutdownWaitsForNoSilentConnection: who has connected and asked nothing
// does not hold up the end, nor is it told as a request that was cut off.
func TestShutdownWaitsForNoSilentConnection(t *testing.T) {
	s := startServe(t, "", "--registration", "--shutdown-grace", "10m")
	for _, url := range []string{s.url, s.admin} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	ask(t, "owners", "--server", s.url) // the one before was accepted, too
	if err := s.stop(); err != nil || strings.Contains(s.text(), "cut off") {
		t.Errorf("%v\n%s", err, s.text())
	}
}
