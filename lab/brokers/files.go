package brokers

import (
	"fmt"
	"syscall"
)

// mayOpen returns what is wrong if a process may not open n files.
func mayOpen(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("the limit of open files: %w", err)
	}
	if limit.Max < n { // the soft one a program of Go raises to this by itself
		return fmt.Errorf("a process may open %d files, expected at least %d for idle connections: raise the limit first, for example with ulimit -Hn %d", limit.Max, n, n)
	}
	return nil
}
