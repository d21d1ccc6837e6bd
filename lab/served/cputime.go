package served

import (
	"fmt"
	"syscall"
	"time"
)

// cpuTime returns the processor time, of user and system, that this process used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// allowFiles lets this process, and those it starts, open n files.
func allowFiles(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("served: how many files may be open? %w", err)
	}
	if limit.Cur >= n {
		return nil
	}
	raised := syscall.Rlimit{Cur: n, Max: max(limit.Max, n)}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
		return fmt.Errorf("served: %d files may be open, and %d connections are needed; raise the limit (ulimit -n): %w", limit.Cur, n, err)
	}
	return nil
}
