package phpfpm

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// heldWithin is how long a process may take to stop; it does so when it next leaves the kernel.
const heldWithin = 100 * time.Millisecond

// end signals a process if still says that it is to be, which is asked while the process is held.
// It reports whether the process was signalled.
func end(pid int64, kill bool, still func() (bool, error)) (done bool, err error) {
	finished := make(chan struct{})
	go func() { // of its own: a debugger is a thread, and lets go of what it holds when it ends
		defer close(finished)
		runtime.LockOSThread()
		done, err = endHeld(int(pid), kill, still)
	}()
	<-finished
	return done, err
}

func endHeld(pid int, kill bool, still func() (bool, error)) (bool, error) {
	fd, err := unix.PidfdOpen(pid, 0) // from here on the number is this process's alone
	switch {
	case errors.Is(err, unix.ESRCH):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("php-fpm: worker %d: %w", pid, err)
	}
	defer unix.Close(fd)
	defer hold(pid)()
	if ok, err := still(); !ok || err != nil {
		return false, err
	}
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	switch err := unix.PidfdSendSignal(fd, signal, nil, 0); {
	case errors.Is(err, unix.ESRCH):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("php-fpm: worker %d cannot be signalled: %w; run the guard as root or as the user of the pool", pid, err)
	}
	return true, nil
}

// eventStop marks a stop that the debugger asked for; any other is that of a signal, which must
// reach the process all the same.
const eventStop = 128

// hold stops a process as a debugger does and returns what lets it go on: the kernel does that as
// well when this thread ends. Where it is not allowed, both do nothing.
func hold(pid int) (release func()) {
	if unix.PtraceSeize(pid) != nil {
		return func() {}
	}
	if unix.PtraceInterrupt(pid) != nil {
		return func() {}
	}
	for began := time.Now(); time.Since(began) < heldWithin; time.Sleep(100 * time.Microsecond) {
		var status unix.WaitStatus
		n, err := unix.Wait4(pid, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case n == pid && status.Stopped():
			var signal uintptr
			if int(status)>>16 != eventStop {
				signal = uintptr(status.StopSignal())
			}
			return func() {
				_, _, _ = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, signal, 0, 0)
			}
		case n == pid, err != nil && !errors.Is(err, unix.EINTR):
			return func() {} // it has ended
		}
	}
	return func() {} // it sleeps in the kernel, and the thread lets go of it
}
