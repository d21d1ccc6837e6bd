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

// usage is what a processor did for everybody and for one process, in the
// kernel's ticks. Where the kernel does not tell, nothing is known to be lost.
type usage struct {
	at                time.Time
	all, stolen, mine float64
	known             bool
}

// tick is the unit of both files on every Linux that Go runs on.
const tick = 10 * time.Millisecond

func readUsage(cpu, pid int) usage {
	u := usage{at: time.Now()}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u
	}
	process, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u
	}
	return u.parse(string(stat), string(process), cpu)
}

// parse takes the two files: proc(5) says what the fields are.
func (u usage) parse(stat, process string, cpu int) usage {
	var fields []string
	for line := range strings.Lines(stat) {
		if text, ok := strings.CutPrefix(line, fmt.Sprintf("cpu%d ", cpu)); ok {
			fields = strings.Fields(text)
		}
	}
	// The name in parentheses may itself contain blanks; two fields on, numbers.
	end := strings.LastIndexByte(process, ')')
	if end < 0 || len(fields) < 8 {
		return u
	}
	own := strings.Fields(process[end+1:])
	if len(own) < 13 {
		return u
	}
	sum := func(texts ...string) (total float64) {
		for _, text := range texts {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return -1e18 // shows as nothing lost
			}
			total += n
		}
		return total
	}
	u.all = sum(fields[0], fields[1], fields[2]) // user, nice, system
	u.stolen = sum(fields[7])
	u.mine = sum(own[11], own[12]) // user, system
	u.known = true
	return u
}

// lostSince returns the share of the processor that went to other processes, if
// that counts, and to other machines.
func (u usage) lostSince(before usage, others bool) float64 {
	elapsed := float64(u.at.Sub(before.at) / tick)
	if !u.known || !before.known || elapsed <= 0 {
		return 0
	}
	lost := u.stolen - before.stolen
	if others {
		lost += (u.all - before.all) - (u.mine - before.mine)
	}
	return min(max(lost/elapsed, 0), 1)
}
