package live

import (
	"bytes"
	"os"
	"strconv"
)

// hostProcessors returns what /proc/stat says of the host, which in a container is the whole machine: a
// quota of the container's shows in what this process uses. Time that a hypervisor took counts as used.
func hostProcessors() hostTime {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return hostTime{}
	}
	defer f.Close()
	var b [256]byte // its first line is less than that
	n, _ := f.Read(b[:])
	return parseStat(b[:n])
}

// parseStat reads the first line of /proc/stat: cpu, and the ticks in user, nice, system, idle, iowait, irq,
// softirq and steal; what guests used is in user and nice. Anything else is no time at all.
func parseStat(b []byte) (t hostTime) {
	line, _, whole := bytes.Cut(b, []byte("\n"))
	fields := bytes.Fields(line)
	if !whole || len(fields) < 9 || string(fields[0]) != "cpu" {
		return hostTime{}
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return hostTime{}
		}
		if t.all += n; i == 3 || i == 4 {
			t.idle += n
		}
	}
	return t
}
