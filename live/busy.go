package live

import (
	"runtime"
	"time"

	"github.com/spillgate/spillgate/mono"
)

// busyGap is the least time between two looks at what this process used.
const busyGap = 100 * time.Millisecond

// busy measures which share of the processors this process uses.
type busy struct {
	at   mono.Time
	used time.Duration
}

// look returns the share since the last look, if that was a while ago and the system
// tells.
func (b *busy) look(now mono.Time) (share float64, ok bool) {
	elapsed := now.Sub(b.at)
	if elapsed < busyGap {
		return 0, false
	}
	used := processorTime()
	// A GOMAXPROCS above the number of processors makes none.
	all := elapsed * time.Duration(min(runtime.NumCPU(), runtime.GOMAXPROCS(0)))
	share, ok = float64(used-b.used)/float64(all), b.used > 0
	b.at, b.used = now, used
	return share, ok
}
