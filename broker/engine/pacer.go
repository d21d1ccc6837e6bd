package engine

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/bucket"
	"github.com/spillgate/spillgate/internal/mono"
)

// pacer tells how long a message waits for its token.
type pacer struct{ b *bucket.Bucket }

func newPacer(now mono.Time, rate, burst float64) *pacer {
	b, _ := bucket.New(now, bucket.Config{Rate: rate, Burst: burst, Debt: math.MaxInt64}) // checked by Limit.Check
	return &pacer{b}
}

func (p *pacer) take(stamp, now mono.Time, n float64) time.Duration {
	wait, _ := p.b.Reserve(stamp, n)
	return wait
}

func (p *pacer) setLimit(now mono.Time, rate, burst float64) {
	p.b.SetRate(now, rate)
	p.b.SetBurst(now, burst)
}
