package ingest

import (
	"context"

	"github.com/cairn-kv/cairn/ingest/zmtp"
)

// ZMTP returns an Options.Dial that connects to a publisher that listens. It is
// what a stream without a Dial does, for those that learn only then where the
// publisher is. Heartbeat of o is the stream's own.
func ZMTP(o zmtp.Options) func(context.Context, Hooks) (Link, error) { return dialer(o) }
