//go:build !linux

package bench

import "time"

var start = time.Now()

// ThreadCPU is the time of day where threads have no clock of their own that
// we read: figures are noisier there, ratios mean the same.
func ThreadCPU() time.Duration { return time.Since(start) }
