package signal

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Meter sums up the delays seen in an interval, which ends when it is long
// enough or has enough samples, whichever is first.
type Meter struct {
	length time.Duration
	most   int
	start  mono.Time
	begun  bool
	sum    float64
	now    Summary
}

// Summary is what a Meter saw in one interval. Without samples all is 0.
type Summary struct {
	// Count is the number of samples.
	Count int
	// Least, Mean and Most are of the delays.
	Least, Mean, Most time.Duration
	// Length is how long the interval was.
	Length time.Duration
}

// NewMeter returns a meter whose intervals end after length, or with the sample
// number most. Zero means no such end.
func NewMeter(length time.Duration, most int) Meter {
	return Meter{length: length, most: most}
}

// Add takes a sample. The first call of Add or Due starts the first interval.
func (m *Meter) Add(now mono.Time, d time.Duration) {
	m.begin(now)
	if m.now.Count == 0 || d < m.now.Least {
		m.now.Least = d
	}
	if m.now.Count == 0 || d > m.now.Most {
		m.now.Most = d
	}
	m.now.Count++
	m.sum += float64(d)
}

// Due reports whether the interval is over at now.
func (m *Meter) Due(now mono.Time) bool {
	m.begin(now)
	return m.length > 0 && now.Sub(m.start) >= m.length || m.most > 0 && m.now.Count >= m.most
}

// Wake returns the instant at which the running interval ends by time;
// mono.Never if none runs or intervals do not end by time.
func (m *Meter) Wake() mono.Time {
	if !m.begun || m.length == 0 {
		return mono.Never
	}
	return m.start.Add(m.length)
}

// End sums up the interval and starts the next at now, whether it was due or not.
func (m *Meter) End(now mono.Time) Summary {
	m.begin(now)
	s := m.now
	if s.Count > 0 {
		s.Mean = time.Duration(m.sum / float64(s.Count))
	}
	s.Length = max(now.Sub(m.start), 0)
	m.start, m.sum, m.now = max(now, m.start), 0, Summary{}
	return s
}

func (m *Meter) begin(now mono.Time) {
	if !m.begun {
		m.start, m.begun = now, true
	}
}
