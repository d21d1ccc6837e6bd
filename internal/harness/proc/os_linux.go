package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupAttr puts the child into a group, and a session, of its own and ties its
// life to the thread that forks it.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// rankSession gives the child's session the nice value that shapeThread gave the
// child: where sessions are scheduled as groups (sched(7), autogroup), a nice value
// counts inside its own session only. Without permission nothing happens.
func rankSession(pid, nice int) {
	if nice == 0 {
		return
	}
	for range 3 {
		err := os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", pid), []byte(strconv.Itoa(nice)), 0)
		if !errors.Is(err, syscall.EAGAIN) {
			return
		}
		time.Sleep(120 * time.Millisecond) // changes come ten a second at most
	}
}

// shapeThread gives the calling thread the affinity and priority that its
// child is to inherit.
func shapeThread(spec Spec) error {
	if len(spec.CPUs) > 0 {
		if err := pin(0, spec.CPUs); err != nil {
			return err
		}
	}
	priority := uint32(1)
	if spec.First {
		priority = 2
	}
	if spec.RealTime && unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: priority}, 0) == nil {
		return nil
	}
	if spec.Nice != 0 {
		// The raw system call reports 20-nice; without permission to raise the
		// priority the child runs with the parent's.
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
		if err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 20-raw+spec.Nice)
		}
	}
	return nil
}

// Shape gives a process that somebody else started, and that has one thread, the
// processors and the real-time priority that a child with a Spec of these CPUs and
// RealTime has.
func Shape(pid int, cpus []int) error {
	_ = unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0) // if the system permits it
	return pin(pid, cpus)
}

func pin(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		allowed, _ := CPUs()
		return fmt.Errorf("cannot pin to CPUs %v, this process may use %v: %w", cpus, allowed, err)
	}
	return nil
}

// CPUs returns the processors that this process may use.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	// Of the calling thread, 0, not of the process's first one: that may be the
	// thread on which Start forked a child, pinned with it for good.
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("proc: which CPUs may be used? %w", err)
	}
	var cpus []int
	for cpu := range maxCPU {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// PinSelf pins every thread of this process, and so every later one, to the
// given processors. On systems other than Linux it does nothing.
func PinSelf(cpus []int) error {
	if err := (Spec{CPUs: cpus}).validate(); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	done := map[int]bool{}
	for fresh := true; fresh; { // until no thread was born meanwhile
		fresh = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("proc: which threads are there? %w", err)
		}
		for _, entry := range threads {
			tid, err := strconv.Atoi(entry.Name())
			if err != nil || done[tid] {
				continue
			}
			if err := pin(tid, cpus); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("proc: %w", err)
			}
			done[tid], fresh = true, true
		}
	}
	return nil
}

// awaitExit returns when the process has ended, and leaves it to be reaped, so
// that its number and its group's cannot be taken meanwhile.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
