package machine

import "time"

const stolenLook = 250 * time.Millisecond

// WatchStolen watches what a host takes of this machine's processors, until the
// function that it returns is called. That returns the largest share of one processor
// that was taken in any second or so: what stood still for a fifth of a second is in the
// p99 of twenty. It returns 0 where the kernel does not tell.
func WatchStolen() (stop func() float64) {
	done, worst := make(chan struct{}), make(chan float64)
	go func() {
		const second = int(time.Second / stolenLook)
		var last [second]map[string]processor // the readings of the last second, in turn
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
			now := readProcessors()
			most = max(most, mostStolen(last[i%second], now)/float64(time.Second/tick))
			last[i%second] = now
		}
	}()
	return func() float64 { close(done); return <-worst }
}

// mostStolen returns how many ticks were taken, between two readings, of the processor
// of which most were.
func mostStolen(before, after map[string]processor) (most float64) {
	for name, p := range after {
		if earlier, ok := before[name]; ok && name != allProcessors {
			most = max(most, p.stolen-earlier.stolen)
		}
	}
	return most
}
