package breakwaterlive

import (
	"time"

	"github.com/spillgate/spillgate/internal/sim"
)

// figures are what a crowd counted, of requests that were meant to be sent after its warm-up.
type figures struct {
	Offered, Good, Late, Refused, Unsent, Failed int
	// Seconds is how long it counted.
	Seconds float64
	// Latency is of answers, Told the time until a client knew of a refusal.
	P50, P99, Told time.Duration
	// Lag is how late requests were sent, the 99th percentile.
	Lag  time.Duration
	Bins []bin

	latency, told, lag sim.Histogram
}

// bin is a stretch of time.
type bin struct{ Offered, Good int }

// count counts a request.
func (c *crowd) count(intended time.Time, f func(*figures, *bin)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := intended.Sub(c.began)
	if at < c.Warmup {
		return
	}
	c.Offered++
	b := &bin{}
	if c.Bin > 0 {
		b = &c.Bins[min(int(at/c.Bin), len(c.Bins)-1)]
	}
	b.Offered++
	f(&c.figures, b)
}

// late notes how late a request is sent.
func (c *crowd) late(intended time.Time) {
	d := time.Since(intended)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag.Add(d)
}

func (f *figures) answered(took, slo time.Duration, b *bin) {
	f.latency.Add(took)
	if took > slo {
		f.Late++
		return
	}
	f.Good++
	b.Good++
}

func (f *figures) refused(took time.Duration, sent bool) {
	f.told.Add(took)
	if sent {
		f.Refused++
	} else {
		f.Unsent++
	}
}

// answer sums up.
func (c *crowd) answer() *figures {
	f := &c.figures
	f.Seconds = (c.length() - c.Warmup).Seconds()
	f.P50, f.P99, f.Told, f.Lag = f.latency.Quantile(0.5), f.latency.Quantile(0.99), f.told.Quantile(0.99), f.lag.Quantile(0.99)
	return f
}
