// Package procfs reads what a process or thread of this machine has consumed, for
// guards that run beside their server.
//
//	/proc/PID[/task/TID]/schedstat ──▶ processor time, time it waited for one
//	/proc/PID[/task/TID]/io        ──▶ bytes read, bytes written
//	/proc/PID/task/TID/stat        ──▶ whether it waits for storage
//	/proc/PID/stat                 ──▶ processor time of all threads, parent, age
//	/proc/PID/task/PID/children    ──▶ processes that it started
//	/proc/PID/status, /proc/stat   ──▶ processor time that all programs used of the processors that it may use
//	/proc/PID/net/{tcp,unix}       ──▶ requests not read yet, connections not accepted yet
//
// Invariants: a figure that cannot be read is absent, not zero. A process number that
// belongs to another program is not taken for the server: Beside asks the kernel for
// the program's name, and Age for its age, which tells the processes of two servers of one name apart.
//
// What this package does not do: it reads nothing where there is no /proc.
package procfs

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/procstat"
)

// Usage is what a process or a thread has consumed since it began.
type Usage struct {
	// CPU is processor time, Delay the time in which it was ready to run and had no
	// processor.
	CPU, Delay time.Duration
	// Read and Written are bytes that went through system calls, of the page cache
	// too. Both are 0 and IO is false if this user may not read them.
	Read, Written uint64
	IO            bool
}

// Process returns the usage of a process's first thread, which is the whole of a
// process without threads. ok is false if there is no such process or no /proc.
func Process(pid int64) (Usage, bool) { return read("/proc/" + strconv.FormatInt(pid, 10)) }

// CPU returns the processor time that all threads of a process have used since it began, to a tick of 10 ms. ok is false if
// there is no such process or no /proc.
func CPU(pid int64) (used time.Duration, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/stat")
	if err != nil {
		return 0, false
	}
	return parseCPU(text)
}

// parseCPU reads "pid (name) state … utime stime …", in which a name may hold anything.
func parseCPU(text []byte) (used time.Duration, ok bool) {
	_, rest, ok := cutLast(text, ')')
	fields := bytes.Fields(rest)
	const first, utime, stime = 3, 14, 15 // of what is behind the name, counted from 1 as proc(5) does
	if !ok || len(fields) <= stime-first {
		return 0, false
	}
	for _, f := range fields[utime-first : stime-first+1] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil || n < 0 || n > 1<<53 {
			return 0, false
		}
		used += time.Duration(n) * tick
	}
	return used, true
}

// cutLast cuts text around the last byte c.
func cutLast(text []byte, c byte) (before, after []byte, found bool) {
	i := bytes.LastIndexByte(text, c)
	if i < 0 {
		return text, nil, false
	}
	return text[:i], text[i+1:], true
}

// tick is the unit of the kernel's counts of processor time.
const tick = 10 * time.Millisecond

// Thread returns the usage of one thread of a process.
func Thread(pid, tid int64) (Usage, bool) {
	return read("/proc/" + strconv.FormatInt(pid, 10) + "/task/" + strconv.FormatInt(tid, 10))
}

// State is what a thread does at an instant.
type State byte

// The states that are told apart. Waiting for storage is an uninterruptible sleep.
const (
	Unknown  State = 0
	Running  State = 'R' // or ready to
	Sleeping State = 'S'
	Storing  State = 'D'
)

// ThreadState returns the state of one thread of a process.
func ThreadState(pid, tid int64) State {
	text, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/task/" + strconv.FormatInt(tid, 10) + "/stat")
	if err != nil {
		return Unknown
	}
	return parseState(text)
}

// parseState reads "tid (name) state …": the name may hold anything.
func parseState(text []byte) State {
	after := text[bytes.LastIndexByte(text, ')')+1:]
	if after = bytes.TrimLeft(after, " "); len(after) == 0 || len(after) == len(text) {
		return Unknown
	}
	return State(after[0])
}

// Beside reports whether process pid of this machine runs a program whose name
// begins with name.
func Beside(pid int64, name string) bool {
	comm, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/comm")
	return err == nil && strings.HasPrefix(string(comm), name)
}

func read(dir string) (u Usage, ok bool) {
	sched, err := os.ReadFile(dir + "/schedstat")
	if err != nil || !u.parseSched(sched) {
		return Usage{}, false
	}
	if io, err := os.ReadFile(dir + "/io"); err == nil {
		u.parseIO(io)
	}
	return u, true
}

// parseSched reads "cpu_ns delay_ns timeslices".
func (u *Usage) parseSched(text []byte) bool {
	first, rest, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	second, _, _ := bytes.Cut(rest, []byte(" "))
	cpu, errCPU := strconv.ParseInt(string(first), 10, 64)
	delay, errDelay := strconv.ParseInt(string(second), 10, 64)
	if errCPU != nil || errDelay != nil || cpu < 0 || delay < 0 {
		return false
	}
	u.CPU, u.Delay = time.Duration(cpu), time.Duration(delay)
	return true
}

// parseIO reads lines of "name: number".
func (u *Usage) parseIO(text []byte) {
	var read, written uint64
	found := 0
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		var to *uint64
		switch string(name) {
		case "rchar":
			to = &read
		case "wchar":
			to = &written
		default:
			continue
		}
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return
		}
		*to = n
		found++
	}
	if found == 2 {
		u.Read, u.Written, u.IO = read, written, true
	}
}

// busy returns the processor time that this machine has used in all, to a tick of
// 10 ms, and how many processors it has; zeros if there is no /proc.
func busy() (used time.Duration, processors int) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	used, ok := parseBusy(text)
	if !ok {
		return 0, 0
	}
	return used, parseProcessors(text)
}

// BusyFor returns the processor time that was used in all of the processors that a process may use, to a tick of 10 ms, and how many
// they are; zeros if there is no such process or no /proc.
func BusyFor(pid int64) (used time.Duration, processors int) {
	status, err := os.ReadFile("/proc/" + strconv.FormatInt(pid, 10) + "/status")
	if err != nil {
		return 0, 0
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	return parseBusyOf(text, procstat.Allowed(status))
}

// parseBusyOf adds up the lines "cpu0 …" of the processors that are allowed, and counts them.
func parseBusyOf(text []byte, allowed procstat.Set) (busy time.Duration, n int) {
	for line := range bytes.Lines(text) {
		if cpu, ok := procstat.Processor(line); !ok || !allowed.Has(cpu) {
			continue
		}
		used, ok := parseTimes(line)
		if !ok {
			return 0, 0
		}
		busy, n = busy+used, n+1
	}
	return busy, n
}

// parseProcessors counts the lines "cpu0 …", "cpu1 …" and so on.
func parseProcessors(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		if _, ok := procstat.Processor(line); ok {
			n++
		}
	}
	return n
}

// parseBusy reads "cpu user nice system idle iowait irq softirq steal …".
func parseBusy(text []byte) (busy time.Duration, ok bool) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if fields := bytes.Fields(line); len(fields) == 0 || string(fields[0]) != "cpu" {
		return 0, false
	}
	return parseTimes(line)
}

// parseTimes returns the time in use of a line of /proc/stat.
func parseTimes(line []byte) (busy time.Duration, ok bool) {
	t, ok := procstat.ParseTimes(line)
	return time.Duration(t.All-t.Idle) * tick, ok
}

// Meter tells what processes or threads consumed between looks. The zero value is
// ready.
type Meter struct {
	// Busy returns for how long this machine's processors were in use in all, and how many there are; zeros if that is not
	// known. Nil asks the machine.
	Busy func() (used time.Duration, processors int)

	looks        map[int64]reading
	n            uint64
	busy, before time.Duration
	processors   int
}

type reading struct {
	Usage
	look uint64
}

// Begin begins a look; what was not read in the one before is forgotten.
func (m *Meter) Begin() {
	if m.looks == nil {
		m.looks = map[int64]reading{}
	}
	for id, r := range m.looks {
		if r.look != m.n {
			delete(m.looks, id)
		}
	}
	m.n++
	m.before = m.busy
	ask := m.Busy
	if ask == nil {
		ask = busy
	}
	m.busy, m.processors = ask()
}

// Load returns which part of the time of this machine's processors was used in the time since the
// look before, and which part some of it is, each 0 to 1; zeros if that is not known.
func (m *Meter) Load(since, some time.Duration) (all, part float64) {
	if m.before == 0 || m.busy < m.before || m.processors == 0 || since <= 0 {
		return 0, 0
	}
	whole := float64(since) * float64(m.processors)
	all = min(float64(m.busy-m.before)/whole, 1)
	return all, min(float64(some)/whole, all)
}

// Part returns which part of what this machine's processors did since the look before
// used was, 1 if that is not known: whoever waited for a processor waited for these
// processes that much.
func (m *Meter) Part(used time.Duration) float64 {
	if all := m.busy - m.before; m.before > 0 && all > used {
		return float64(used) / float64(all)
	}
	return 1
}

// Since returns what id consumed since the look before, given what it has consumed
// in all: nothing if that is not known.
func (m *Meter) Since(id int64, now Usage) (u Usage) {
	before, ok := m.looks[id]
	m.looks[id] = reading{now, m.n}
	if !ok || now.CPU < before.CPU || now.Read < before.Read || now.Written < before.Written || now.IO != before.IO {
		return Usage{}
	}
	return Usage{CPU: now.CPU - before.CPU, Delay: max(now.Delay-before.Delay, 0), Read: now.Read - before.Read, Written: now.Written - before.Written, IO: now.IO}
}
