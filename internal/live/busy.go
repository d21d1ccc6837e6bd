package live

import (
	"runtime"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// busyGap is the least time between two looks at what this process used.
const busyGap = 20 * time.Millisecond

// busy measures what this process uses of the processors.
type busy struct {
	at   mono.Time
	used time.Duration
}

// look returns what was used since the last look, if that was a while ago and the system
// tells, what could have been, and of how many processors.
func (b *busy) look(now mono.Time) (used, all time.Duration, processors int, ok bool) {
	elapsed := now.Sub(b.at)
	if elapsed < busyGap {
		return 0, 0, 0, false
	}
	// A GOMAXPROCS above the number of processors makes none.
	processors = min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	before := b.used
	b.at, b.used = now, processorTime()
	return b.used - before, elapsed * time.Duration(processors), processors, before > 0
}
