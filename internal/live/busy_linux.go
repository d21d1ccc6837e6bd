package live

import (
	"bytes"
	"os"
	"sync"

	"github.com/spillgate/spillgate/internal/procstat"
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

// cpuset is the processors that a process may use if they are not all that the host has. lines is how many lines of
// /proc/stat have them.
type cpuset struct {
	processors procstat.Set
	lines      int
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
	c := &cpuset{processors: procstat.Allowed(status)}
	there, allowed := 0, 0
	for line := range bytes.Lines(stat) {
		if n, ok := procstat.Processor(line); ok {
			if there++; c.processors.Has(n) {
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

// parse adds up the whole lines of the processors in the set.
func (c *cpuset) parse(b []byte) (t hostTime) {
	for line := range bytes.Lines(b) {
		if n, ok := procstat.Processor(line); ok && c.processors.Has(n) && bytes.HasSuffix(line, []byte("\n")) {
			one, ok := procstat.ParseTimes(line)
			if !ok {
				return hostTime{}
			}
			t.all, t.idle = t.all+one.All, t.idle+one.Idle
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
	times, _ := procstat.ParseTimes(line)
	return hostTime{times.All, times.Idle}
}
