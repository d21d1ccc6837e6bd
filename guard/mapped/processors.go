package mapped

import (
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/procfs"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// processorName is what a server calls its processors, "processor (2)" after how many it may use.
const processorName = "processor"

// measuredOver is the least time over which a server's use of processors is measured: the kernel counts it in ticks of 10 ms.
const measuredOver = 100 * time.Millisecond

// processors measures what other programs use of the processors that the server may use: its requests lose time to them, too, and not to
// each other alone. What no program uses, requests do not lose to anybody: they wait for a disk, say.
type processors struct {
	pid    int64
	used   time.Duration // by the server, at
	busy   time.Duration // by all of the machine
	at     time.Time
	others float64 // nanoseconds a second
	known  bool
}

// count reads the name of the processors. It returns 0 for another name.
func count(name string) int {
	rest, ok := strings.CutPrefix(name, processorName+" (")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// look enters into the resources what others use of the processors, and gives these their plain name.
func (p *processors) look(resources []culprit.Resource, origins []taskfile.Origin, now time.Time) {
	for r := range resources {
		if n := count(resources[r].Name); n > 0 {
			if pid := server(origins); pid != 0 && (pid != p.pid || now.Sub(p.at) >= measuredOver) {
				used, ok := procfs.CPU(pid)
				busy, there := procfs.Busy()
				p.measure(pid, n, now, used, busy, ok && there > 0)
			}
			resources[r].Name = processorName
			if p.known {
				resources[r].Others = p.others
			}
		}
	}
}

// server returns the process of the tasks, 0 if there are none.
func server(origins []taskfile.Origin) int64 {
	if len(origins) == 0 {
		return 0
	}
	return int64(origins[len(origins)-1].PID)
}

// measure enters how much of n processors a process has used since it began, and how much all of the machine were used.
func (p *processors) measure(pid int64, n int, now time.Time, used, busy time.Duration, ok bool) {
	span := now.Sub(p.at)
	if p.known = ok && pid == p.pid && used >= p.used && busy >= p.busy && span < time.Minute; p.known {
		own := used - p.used
		p.others = float64(max(min(time.Duration(n)*span, busy-p.busy)-own, 0)) / span.Seconds()
	}
	p.pid, p.used, p.busy, p.at = pid, used, busy, now
}
