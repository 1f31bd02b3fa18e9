package main

import (
	"net"
	"net/http"
	"sync"
)

// unasked are the connections of a server on which nothing was asked yet, such
// as those of probes, and those that clients keep in hand. Shutdown would wait
// for them as for requests under way.
type unasked struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil once closed
}

// note follows a connection: it is the server's ConnState.
func (u *unasked) note(c net.Conn, s http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case s != http.StateNew:
		delete(u.conns, c)
	case u.conns == nil:
		c.Close()
	default:
		u.conns[c] = struct{}{}
	}
}

// close ends them, and those that were accepted and are on their way.
func (u *unasked) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		c.Close()
	}
	u.conns = nil
}
