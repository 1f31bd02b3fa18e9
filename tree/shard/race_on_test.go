//go:build race

package shard

// RaceEnabled says whether the race detector is on: it allocates, and is slow.
const RaceEnabled = true
