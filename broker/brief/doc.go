// Package brief makes system calls that never block without telling the scheduler of Go.
//
//	message ─▶ idle process: Receive ─▶ handled ─▶ Write ─▶ idle again
//	                  │ with syscall.Syscall: sysmon is woken, sleeps 20 µs, looks, sleeps …
//	                  └ here: it sleeps on
//
// When a process that was idle makes a system call, the scheduler wakes its monitor, a thread that would take the processor away
// from a call that blocks. Calls on sockets that do not block need no monitor, and where few messages come, each message pays for
// it: on one processor, at 10,000 messages/s, 35 instead of 42 µs of CPU a message.
//
// The monitor also interrupts goroutines that run for long. So what takes long says so by Watch, and a connection that always has
// more to read is to be read with ordinary calls.
//
// Invariants: no call here blocks, given a descriptor that does not; none takes longer than it takes to copy maxWrite bytes.
//
// What this package does not do: on systems other than Linux, and under the race detector, which learns the order of events
// from ordinary calls, all calls are ordinary.
package brief
