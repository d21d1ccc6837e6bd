package machine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Used returns the processor time that a process has used so far, to a tick; 0 if it is
// gone, or where the kernel does not tell.
func Used(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	used, _ := parseProcess(string(text))
	return time.Duration(used * float64(tick))
}

// WatchOthers watches what is used of the given processors, until the function that it
// returns is called. That returns the share of one processor that was used and is not
// mine: what mine returned the difference of. It returns 0 where the kernel does not
// tell.
func WatchOthers(cpus []int, mine func() time.Duration) (stop func() float64) {
	began, before, own := time.Now(), inTicks(cpus), mine()
	return func() float64 {
		elapsed := time.Since(began)
		others := (inTicks(cpus)-before)*float64(tick) - float64(mine()-own)
		if before == 0 || elapsed <= 0 {
			return 0
		}
		return max(others/float64(elapsed), 0)
	}
}

// inTicks is what all processes took of some processors since the machine started.
func inTicks(cpus []int) (all float64) {
	now := readProcessors()
	for _, cpu := range cpus {
		p := now[fmt.Sprintf("%s%d", allProcessors, cpu)]
		all += p.used()
	}
	return all
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
