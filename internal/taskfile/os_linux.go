package taskfile

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is the kernel's number of CLOCK_MONOTONIC.
const clockMonotonic = 1

// newStopwatch calibrates a stopwatch. Of several readings it keeps the one
// that took the shortest time: the error is below that time.
func newStopwatch() (stopwatch, error) {
	var best stopwatch
	shortest := time.Hour
	for range 8 {
		var ts syscall.Timespec
		before := time.Now()
		_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
		if errno != 0 {
			return best, fmt.Errorf("taskfile: cannot read CLOCK_MONOTONIC: %w", errno)
		}
		if took := time.Since(before); took < shortest {
			shortest = took
			best = stopwatch{base: before.Add(took / 2), at: uint64(ts.Nano())}
		}
	}
	return best, nil
}

// openFile opens an existing file and checks whose it is.
func openFile(path string) (*os.File, int64, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err == syscall.ELOOP || err == syscall.EISDIR {
		return nil, 0, refuse("type", "it is a symbolic link or a directory, expected a regular file")
	}
	if err != nil {
		return nil, 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if err := mayUse(&st); err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size, nil
}

func mayUse(st *syscall.Stat_t) error {
	switch uid := uint32(os.Geteuid()); {
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return refuse("type", "its type is %#o, expected a regular file", st.Mode&syscall.S_IFMT)
	case st.Uid != uid:
		return refuse("owner", "it belongs to user %d, this process runs as %d; run tracer and engine as one user", st.Uid, uid)
	case st.Mode&0o077 != 0:
		return refuse("mode", "its permissions are %#o, expected 0600; the group or others may write into it", st.Mode&0o777)
	}
	return nil
}

func mapFile(f *os.File, size int) ([]byte, error) {
	mem, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("taskfile: cannot map %s: %w", f.Name(), err)
	}
	return mem, nil
}

func unmapFile(mem []byte) error { return syscall.Munmap(mem) }

// detachFile puts private memory in place of a mapping. Slots that are in use
// stay usable, and nobody sees what they record.
func detachFile(mem []byte) error {
	addr, _, errno := syscall.Syscall6(syscall.SYS_MMAP, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_FIXED, ^uintptr(0), 0)
	if errno != 0 {
		return fmt.Errorf("taskfile: cannot let go of the mapping at %#x: %w", addr, errno)
	}
	return nil
}
