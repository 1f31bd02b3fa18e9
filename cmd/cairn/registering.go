package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cairn-kv/cairn/cmd/cairn/config"
	"github.com/cairn-kv/cairn/engine"
	"github.com/cairn-kv/cairn/engine/registry"
	"github.com/cairn-kv/cairn/engine/server"
)

// registering is the part of a server that lets workers register themselves.
// The zero value is one that does not.
type registering struct {
	registrar *registry.Registrar
	watcher   *registry.Watcher // nil without a file

	stop  context.CancelFunc // of the watcher
	ended chan struct{}
}

// openRegistry makes what the configuration asks for, and lets the server know
// of it.
func openRegistry(conf config.Config, e *engine.Engine, log *slog.Logger, o *server.Options) (*registering, error) {
	g := &registering{}
	if !conf.Registration && conf.WorkersFile == "" {
		return g, nil
	}
	var err error
	g.registrar, err = registry.New(registry.Options{Control: e.Residency(), Sources: e, MaxSlots: conf.MaxSlots, Logger: log})
	if err != nil {
		return nil, err
	}
	if conf.WorkersFile != "" {
		g.watcher = registry.NewWatcher(g.registrar, conf.WorkersFile, log)
	}
	o.Registry, o.Registration, o.WorkersFile = g.registrar, conf.Registration, g.watcher
	return g, nil
}

// start begins to watch the file, if there is one.
func (g *registering) start() {
	if g.watcher == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.stop, g.ended = cancel, make(chan struct{})
	go func() {
		defer close(g.ended)
		g.watcher.Run(ctx)
	}()
}

// close releases what the file had registered and ends the leases of plain
// workers. The engine ends the rest when it closes.
func (g *registering) close(ctx context.Context) error {
	if g.registrar == nil {
		return nil
	}
	var err error
	if g.stop != nil {
		g.stop()
		select {
		case <-g.ended:
		case <-ctx.Done():
			err = fmt.Errorf("workers of the file are cut off: %w", ctx.Err())
		}
	}
	return errors.Join(err, g.registrar.Close(ctx))
}
