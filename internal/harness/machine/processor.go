package machine

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the kernel's counts on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// processor is what a processor did since the machine started, in ticks: the columns
// of a line of /proc/stat, which proc(5) explains.
type processor struct {
	user, nice, system, idle, ioWait, irq, softIRQ, stolen float64
}

// used is what processes took.
func (p processor) used() float64 { return p.user + p.nice + p.system }

// unused is the processor time that no process took.
func (p processor) unused() float64 { return p.idle + p.ioWait }

// total is all that passed.
func (p processor) total() float64 {
	return p.used() + p.unused() + p.irq + p.softIRQ + p.stolen
}

// allProcessors is the name of the sum.
const allProcessors = "cpu"

// readProcessors returns what the processors did so far, by the kernel's names for
// them, "cpu0" and so on, and their sum; nothing where the kernel does not tell.
func readProcessors() map[string]processor {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil
	}
	return parseProcessors(string(stat))
}

// parseProcessors reads the text of /proc/stat. Lines that it does not understand are
// left out.
func parseProcessors(stat string) map[string]processor {
	all := map[string]processor{}
	for line := range strings.Lines(stat) {
		name, columns, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(name, allProcessors) {
			continue
		}
		if p, ok := parseProcessor(strings.Fields(columns)); ok {
			all[name] = p
		}
	}
	return all
}

func parseProcessor(columns []string) (p processor, ok bool) {
	for i, to := range []*float64{&p.user, &p.nice, &p.system, &p.idle, &p.ioWait, &p.irq, &p.softIRQ, &p.stolen} {
		if i >= len(columns) {
			return processor{}, false
		}
		var err error
		if *to, err = strconv.ParseFloat(columns[i], 64); err != nil {
			return processor{}, false
		}
	}
	return p, true
}
