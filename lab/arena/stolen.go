package arena

import (
	"os"
	"strconv"
	"strings"
	"time"
)

const stolenLook = 250 * time.Millisecond

// WatchStolen watches what a host takes of this machine's processors, until the
// function that it returns is called. That returns the largest share of one processor
// that was taken in any second or so: what stood still for a fifth of a second is in the
// p99 of twenty. It returns 0 where the kernel does not tell.
func WatchStolen() (stop func() float64) {
	done, worst := make(chan struct{}), make(chan float64)
	go func() {
		const second = int(time.Second / stolenLook)
		var last [second][]float64 // the readings of the last second, in turn
		most := 0.0
		looks := time.NewTicker(stolenLook)
		defer looks.Stop()
		for i := 0; ; i++ {
			select {
			case <-done:
				worst <- most
				return
			case <-looks.C:
			}
			stat, _ := os.ReadFile("/proc/stat")
			now, before := stolen(string(stat)), last[i%second]
			for cpu := range min(len(now), len(before)) {
				most = max(most, (now[cpu]-before[cpu])/float64(time.Second/tick))
			}
			last[i%second] = now
		}
	}()
	return func() float64 { close(done); return <-worst }
}

// stolen returns what was taken of each processor so far, in the kernel's ticks, from
// the text of /proc/stat.
func stolen(stat string) (ticks []float64) {
	for line := range strings.Lines(stat) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") || fields[0] == "cpu" {
			continue
		}
		n, err := strconv.ParseFloat(fields[8], 64)
		if err != nil {
			return nil
		}
		ticks = append(ticks, n)
	}
	return ticks
}
