package proc

import (
	"runtime"
	"syscall"
	"unsafe"
)

// groupAttr puts the child into a group of its own.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// shapeThread does nothing: this system pins no threads.
func shapeThread(Spec) error { return nil }

// rankSession does nothing: sessions are not scheduled as groups.
func rankSession(int, int) {}

// CPUs returns the processors that this process may use.
func CPUs() ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}

// PinSelf does nothing on this system.
func PinSelf([]int) error { return nil }

// awaitExit returns when the process has ended, and leaves it to be reaped, so
// that its number and its group's cannot be taken meanwhile.
func awaitExit(pid int) {
	const idIsPid = 1
	var info [16]uint64 // larger than the siginfo_t that is written here
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idIsPid, uintptr(pid),
			uintptr(unsafe.Pointer(&info[0])), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// Shape does nothing.
func Shape(int, []int) error { return nil }
