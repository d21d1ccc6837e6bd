package arena

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// mostLost is the share of the server's processor that others may take from a
// run: at a capacity of one processor it is missing in the goodput.
const mostLost = 0.04

// usage is what a processor did for everybody, and what one process used, in ticks.
// Where the kernel does not tell, nothing is known to be lost.
type usage struct {
	at    time.Time
	of    processor
	mine  float64
	known bool
}

func readUsage(cpu, pid int) usage {
	u := usage{at: time.Now()}
	process, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u
	}
	var of, mine bool
	u.of, of = readProcessors()[fmt.Sprintf("%s%d", allProcessors, cpu)]
	u.mine, mine = parseProcess(string(process))
	u.known = of && mine
	return u
}

// parseProcess returns the ticks that a process used, from the text of its file of
// that kind: proc(5) says what the fields are.
func parseProcess(stat string) (used float64, ok bool) {
	// The name in parentheses may itself contain blanks; two fields on, numbers.
	end := strings.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 13 {
		return 0, false
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, false
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return user + system, err == nil
}

// lostSince returns the share of the processor that went to other processes, if
// that counts, and to other machines.
func (u usage) lostSince(before usage, others bool) float64 {
	elapsed := float64(u.at.Sub(before.at) / tick)
	if !u.known || !before.known || elapsed <= 0 {
		return 0
	}
	lost := u.of.stolen - before.of.stolen
	if others {
		lost += (u.of.used() - before.of.used()) - (u.mine - before.mine)
	}
	return min(max(lost/elapsed, 0), 1)
}
