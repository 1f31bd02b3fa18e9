package bench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadCPU is the CPU time the calling thread has used. The caller has locked
// its goroutine to the thread.
func ThreadCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("bench: CLOCK_THREAD_CPUTIME_ID: %v", err)) // there since Linux 2.6.12
	}
	return time.Duration(t.Nano())
}
