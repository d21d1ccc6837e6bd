//go:build unix

package front

import (
	"fmt"
	"syscall"
)

// wanted is how many files a process would need for the largest attack.
const wanted = 32768

// limitFiles lets this process open n files, or with 0 as many as it may.
func limitFiles(n uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		return fmt.Errorf("the limit of open files: %w", err)
	}
	if n > 0 {
		now.Cur = min(n, now.Max)
		return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now)
	}
	more := syscall.Rlimit{Cur: wanted, Max: max(wanted, now.Max)}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more) == nil {
		return nil
	}
	now.Cur = now.Max // without the right to more
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now)
}
