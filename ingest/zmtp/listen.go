package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
)

// listenOn listens on an endpoint, unless a listener is given that does.
func listenOn(ctx context.Context, endpoint string, given net.Listener) (net.Listener, error) {
	network, address, err := splitEndpoint(endpoint, true)
	if err != nil {
		return nil, err
	}
	if given != nil {
		return given, nil
	}
	l, err := listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("zmtp: listen on %s: %w", endpoint, err)
	}
	return l, nil
}

// listen listens, and takes over the socket file of a process that died.
func listen(ctx context.Context, network, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if err == nil || network != "unix" || address[0] == '@' {
		return l, err
	}
	info, serr := os.Stat(address)
	if serr != nil || info.Mode()&os.ModeSocket == 0 {
		return nil, err
	}
	if c, derr := net.Dial(network, address); derr == nil {
		c.Close()
		return nil, err
	}
	if rerr := os.Remove(address); rerr != nil {
		return nil, errors.Join(err, rerr)
	}
	return lc.Listen(ctx, network, address)
}

// acceptAll hands every connection to take, until ctx ends.
func acceptAll(ctx context.Context, l net.Listener, take func(net.Conn)) {
	var pause Backoff
	for {
		nc, err := l.Accept()
		if err == nil {
			pause.Reset()
			take(nc)
			continue
		}
		// Out of descriptors, or a client gone already.
		if ctx.Err() != nil || pause.Wait(ctx) != nil {
			return
		}
	}
}
