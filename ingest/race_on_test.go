//go:build race

package ingest

// The race detector makes pools forget at random, and allocates itself.
const raceEnabled = true
