//go:build linux && !race

package brief

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What runs for long after Watch is interrupted for others, although it began with a call that the scheduler was not told of.
// Without Watch they would wait for half a minute.
func TestWatch(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "timer")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	after := unix.NsecToTimespec(int64(200 * time.Millisecond)) // until when the scheduler's monitor sleeps
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: after}, nil); err != nil {
		t.Fatal(err)
	}
	var times [8]byte
	if err := raw.Read(func(fd uintptr) bool {
		_, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&times)), uintptr(len(times)))
		return errno != syscall.EAGAIN
	}); err != nil {
		t.Fatal(err)
	}
	var other atomic.Bool
	go func() { other.Store(true) }()
	Watch()
	for began := time.Now(); !other.Load(); {
		if time.Since(began) > 20*time.Second {
			t.Fatal("another goroutine did not run within 20 s")
		}
	}
}
