//go:build unix

package proxy

import "syscall"

// descriptors returns how many files and sockets the process may have open at once, 0 if
// that is not known.
func descriptors() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return l.Cur
}
