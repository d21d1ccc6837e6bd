package live

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

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
			t.all, t.idle, t.stolen = t.all+one.All, t.idle+one.Idle, t.stolen+one.Stolen
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
	return hostTime{times.All, times.Idle, times.Stolen}
}

// mostThreads is how many threads are asked what they waited: of more it is not known.
const mostThreads = 64

// threadDelay returns for how long the threads of this process were ready to run and had no processor, in all, since they began; 0 if the system
// does not tell.
func threadDelay() (all time.Duration) {
	dir, err := os.Open("/proc/self/task")
	if err != nil {
		return 0
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(mostThreads + 1)
	if len(threads) > mostThreads {
		return 0
	}
	var b [128]byte
	for _, thread := range threads {
		f, err := os.Open("/proc/self/task/" + thread + "/schedstat")
		if err != nil {
			continue // it has ended
		}
		n, _ := f.Read(b[:])
		f.Close()
		all += parseDelay(b[:n])
	}
	return all
}

// parseDelay reads the second of three numbers: nanoseconds on a processor, nanoseconds ready without one, and turns. Anything else is no time.
func parseDelay(text []byte) time.Duration {
	fields := bytes.Fields(text)
	if len(fields) != 3 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil || n < 0 || n > 1<<53 {
		return 0
	}
	return time.Duration(n)
}
