package live

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// hostProcessors returns what /proc/stat says of the processors that this process may use: all of the host, which in a container is the
// whole machine, or those of its cpuset. A quota of the container's shows in what this process uses. Time that a hypervisor took counts as used.
func hostProcessors() hostTime {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return hostTime{}
	}
	defer f.Close()
	mine := pinned()
	if mine == nil {
		var b [256]byte // its first line is less than that
		n, _ := f.Read(b[:])
		return parseStat(b[:n])
	}
	b := make([]byte, longestLine*(1+mine.lines)) // the kernel has written them all by the first read, so few more bytes cost little
	n, _ := f.Read(b)
	return mine.parse(b[:n])
}

// longestLine is more than a line of a processor takes: a name and ten counts of up to 20 digits.
const longestLine = 256

// cpuset is the processors that a process may use if they are not all that the host has, in ranges from a first to a last. lines is how
// many lines of /proc/stat have them.
type cpuset struct {
	ranges [][2]int
	lines  int
}

// pinned returns the processors of this process, nil if it may use all of them or the system does not tell. As runtime.NumCPU does, it looks
// once.
var pinned = sync.OnceValue(func() *cpuset {
	status, errStatus := os.ReadFile("/proc/self/status")
	stat, errStat := os.ReadFile("/proc/stat")
	if errStatus != nil || errStat != nil {
		return nil
	}
	return parsePinned(status, stat)
})

func parsePinned(status, stat []byte) *cpuset {
	c := &cpuset{}
	for line := range bytes.Lines(status) {
		if list, ok := bytes.CutPrefix(line, []byte("Cpus_allowed_list:")); ok {
			c.ranges = parseRanges(string(bytes.TrimSpace(list)))
		}
	}
	there, allowed := 0, 0
	for line := range bytes.Lines(stat) {
		if n, ok := processorOf(line); ok {
			if there++; c.has(n) {
				allowed++
				c.lines = there
			}
		}
	}
	if allowed == 0 || allowed == there {
		return nil
	}
	return c
}

// parseRanges reads "0-3,8". Of what it cannot read it returns nothing.
func parseRanges(list string) (all [][2]int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if errFrom != nil || errTo != nil {
			return nil
		}
		all = append(all, [2]int{from, to})
	}
	return all
}

func (c *cpuset) has(n int) bool {
	for _, r := range c.ranges {
		if r[0] <= n && n <= r[1] {
			return true
		}
	}
	return false
}

// processorOf returns the number in a line "cpu12 …".
func processorOf(line []byte) (n int, ok bool) {
	name, _, _ := bytes.Cut(line, []byte(" "))
	digits, ok := bytes.CutPrefix(name, []byte("cpu"))
	n, err := strconv.Atoi(string(digits))
	return n, ok && err == nil && n >= 0
}

// parse adds up the whole lines of the processors in the set.
func (c *cpuset) parse(b []byte) (t hostTime) {
	for line := range bytes.Lines(b) {
		if n, ok := processorOf(line); ok && c.has(n) && bytes.HasSuffix(line, []byte("\n")) {
			one, ok := parseTimes(line)
			if !ok {
				return hostTime{}
			}
			t.all, t.idle = t.all+one.all, t.idle+one.idle
		}
	}
	return t
}

// parseStat reads the first line of /proc/stat, which is of all processors. Anything else is no time at all.
func parseStat(b []byte) (t hostTime) {
	line, _, whole := bytes.Cut(b, []byte("\n"))
	if name, _, _ := bytes.Cut(line, []byte(" ")); !whole || string(name) != "cpu" {
		return hostTime{}
	}
	t, _ = parseTimes(line)
	return t
}

// parseTimes reads a line of /proc/stat: its name, and the ticks in user, nice, system, idle, iowait, irq, softirq and steal; what guests used
// is in user and nice.
func parseTimes(line []byte) (t hostTime, ok bool) {
	fields := bytes.Fields(line)
	if len(fields) < 9 {
		return hostTime{}, false
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return hostTime{}, false
		}
		if t.all += n; i == 3 || i == 4 {
			t.idle += n
		}
	}
	return t, true
}
