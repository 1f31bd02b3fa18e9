package load

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// processCPU is the CPU time all threads of the process have used.
func processCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("load: CLOCK_PROCESS_CPUTIME_ID: %v", err)) // there since Linux 2.6.12
	}
	return time.Duration(t.Nano())
}
