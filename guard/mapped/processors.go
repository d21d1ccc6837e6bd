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
	last   usage
	at     time.Time // of it
	others float64   // nanoseconds a second
	taken  float64   // the part of the processors that others used
	share  float64   // their part of what was used
	known  bool
}

// usage is what was used of the processors on which a server runs.
type usage struct {
	own time.Duration // by the server
	all time.Duration // by all programs
	of  int           // processors; 0: not known
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

// look enters into the resources what others use of the processors, and gives these their plain name. It returns the index of the
// processors, -1 if the server does not show them; then it may use as many as its process.
func (p *processors) look(resources []culprit.Resource, origins []taskfile.Origin, now time.Time) (at int) {
	at = -1
	pid := server(origins)
	if pid == 0 { // what others use counts while the server has nothing to do, too
		pid = p.pid
	}
	due := pid != 0 && (pid != p.pid || now.Sub(p.at) >= measuredOver)
	for r := range resources {
		if n := count(resources[r].Name); n > 0 {
			if due {
				p.measure(pid, n, now, used(pid))
				due = false
			}
			resources[r].Name, at = processorName, r
			if p.known {
				resources[r].Others = p.others
			}
		}
	}
	if at < 0 && due {
		u := used(pid)
		p.measure(pid, u.of, now, u)
	}
	return at
}

// server returns the process of the tasks, 0 if there are none.
func server(origins []taskfile.Origin) int64 {
	if len(origins) == 0 {
		return 0
	}
	return int64(origins[len(origins)-1].PID)
}

// used returns what was used so far.
func used(pid int64) (u usage) {
	own, ok := procfs.CPU(pid)
	if ok {
		u.own = own
		u.all, u.of = procfs.BusyFor(pid)
	}
	return u
}

// measure enters what was used until now by a process that may use n processors at once. If it may run on more of them than that, as
// in a container with a limit, others are in its way only as far as they use more than it leaves to them.
func (p *processors) measure(pid int64, n int, now time.Time, u usage) {
	span, last := now.Sub(p.at), p.last
	p.taken, p.share = 0, 0
	if p.known = u.of > 0 && u.of == last.of && pid == p.pid && u.own >= last.own && u.all >= last.all && span < time.Minute; p.known {
		own := u.own - last.own
		left := time.Duration(max(u.of-n, 0)) * span
		others := max(min(time.Duration(n)*span, u.all-last.all-left)-own, 0)
		p.others = float64(others) / span.Seconds()
		p.taken = min(float64(others)/(float64(n)*float64(span)), 1)
		p.share = float64(others) / float64(max(others+own, 1))
	}
	p.pid, p.last, p.at = pid, u, now
}
