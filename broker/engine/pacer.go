package engine

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/bucket"
	"github.com/spillgate/spillgate/internal/mono"
)

// pacer decides how long after its arrival a message goes on. TakeWithin takes
// nothing and reports false where that is longer than most.
type pacer interface {
	TakeWithin(stamp, now mono.Time, n float64, most time.Duration) (delay time.Duration, ok bool)
	SetLimit(rate, burst float64)
	// Backlog is how many tokens the bucket lacks, and has given in advance: 0 where it is full.
	Backlog(now mono.Time) float64
}

// newPacer returns a bucket that asks when messages arrived. It takes 45 KB, so
// where there are many buckets it is one that goes by the order of reading.
func newPacer(l Limit, exact bool, now mono.Time) pacer {
	if exact {
		return bucket.NewBinned(l.Rate, l.Burst)
	}
	b, _ := bucket.New(now, bucket.Config{Rate: l.Rate, Burst: l.Burst, Debt: math.MaxInt64}) // checked by Limit.Check
	return &plain{b, now, l.Burst}
}

// plain is a token bucket for which a message arrives no earlier than the one that
// was taken before.
type plain struct {
	b     *bucket.Bucket
	last  mono.Time
	burst float64
}

func (p *plain) TakeWithin(stamp, _ mono.Time, n float64, most time.Duration) (time.Duration, bool) {
	p.last = max(p.last, stamp)
	if ready := p.b.Tokens(p.last) >= n; !ready && most == 0 {
		return 0, false
	}
	wait, ok := p.b.Reserve(p.last, n)
	return p.last.Add(wait).Sub(stamp), ok
}

func (p *plain) SetLimit(rate, burst float64) {
	p.b.SetRate(p.last, rate)
	p.b.SetBurst(p.last, burst)
	p.burst = burst
}

func (p *plain) Backlog(now mono.Time) float64 { return max(0, p.burst-p.b.Tokens(max(p.last, now))) }
