// Package procstat reads the text of two files of Linux: what each processor did (/proc/stat), and which processors a
// process may use (/proc/PID/status).
//
// What this package does not do: it opens no file. What it cannot read is no processor and no time.
package procstat

import (
	"bytes"
	"strconv"
	"strings"
)

// Set is processors, in ranges from a first to a last.
type Set [][2]int

// Allowed reads the line "Cpus_allowed_list:\t0-3,8" of a process's status. A list that it cannot read allows none.
func Allowed(status []byte) (s Set) {
	for line := range bytes.Lines(status) {
		list, ok := bytes.CutPrefix(line, []byte("Cpus_allowed_list:"))
		if !ok {
			continue
		}
		for part := range strings.SplitSeq(string(bytes.TrimSpace(list)), ",") {
			first, last, ranged := strings.Cut(part, "-")
			if !ranged {
				last = first
			}
			from, errFrom := strconv.Atoi(first)
			to, errTo := strconv.Atoi(last)
			if errFrom != nil || errTo != nil {
				return nil
			}
			s = append(s, [2]int{from, to})
		}
	}
	return s
}

// Has reports whether processor n is in the set.
func (s Set) Has(n int) bool {
	for _, r := range s {
		if r[0] <= n && n <= r[1] {
			return true
		}
	}
	return false
}

// Processor returns the number in a line "cpu12 …" of /proc/stat. The line "cpu  …", which is the sum, and others have
// none.
func Processor(line []byte) (n int, ok bool) {
	name, _, _ := bytes.Cut(line, []byte(" "))
	digits, ok := bytes.CutPrefix(name, []byte("cpu"))
	n, err := strconv.Atoi(string(digits))
	return n, ok && err == nil && n >= 0
}

// Times is for how long processors were there since the machine started, and for how long they had nothing to do or
// waited for disks, in ticks. Time that a hypervisor took is not idle, and is Stolen.
type Times struct{ All, Idle, Stolen uint64 }

// most is more ticks than a machine lives.
const most = 1 << 53

// ParseTimes reads a line of /proc/stat: its name, and the ticks in user, nice, system, idle, iowait, irq, softirq and
// steal; what guests used is in user and nice. It reports false for any other line.
func ParseTimes(line []byte) (t Times, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) < 9 {
		return Times{}, false
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil || n > most {
			return Times{}, false
		}
		t.All += n
		switch i {
		case 3, 4:
			t.Idle += n
		case 7:
			t.Stolen = n
		}
	}
	return t, true
}
