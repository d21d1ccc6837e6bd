package placement

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// AdaptorConfig sets up an Adaptor. Zero fields take the default named in their comment.
type AdaptorConfig struct {
	// Bucket is that of the whole topic. Required.
	Bucket
	// Brokers is how many hold publishers of the topic. Required; at most MaxBrokers.
	Brokers int
	// Window is over how long traffic is looked at. Default 10 s. Longer is calmer, shorter follows
	// sooner.
	Window time.Duration
	// Steps is how many parts the window has; a report is due in each. Default 10.
	Steps int
	// Floor is the share of the bucket that brokers without traffic have together, so that
	// their first message does not wait for a decision. Default 0.05.
	Floor float64
	// Change is how much a part must change, by ratio, for anything to be changed. Default 0.1.
	// Smaller follows noise.
	Change float64
}

// MaxBrokers is the most brokers that one topic may be on.
const MaxBrokers = 1 << 10

func (c AdaptorConfig) filled() (AdaptorConfig, error) {
	var errs []error
	wrong := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("placement: %s is %v, expected %s", name, value, want))
		}
	}
	wrong(c.Rate > 0 && !math.IsInf(c.Rate, 1), "Rate", c.Rate, "messages a second above 0")
	wrong(c.Burst >= 1 && !math.IsInf(c.Burst, 1), "Burst", c.Burst, "1 message or more")
	wrong(c.Brokers >= 1 && c.Brokers <= MaxBrokers, "Brokers", c.Brokers, fmt.Sprintf("1 to %d", MaxBrokers))
	wrong(c.Window >= 0, "Window", c.Window, "a duration of 0 or more")
	wrong(c.Steps >= 0 && c.Steps <= 1000, "Steps", c.Steps, "0 to 1000")
	wrong(c.Floor >= 0 && c.Floor < 1, "Floor", c.Floor, "a share below 1")
	wrong(c.Change >= 0 && !math.IsInf(c.Change, 1), "Change", c.Change, "a ratio of 0 or more")
	set(&c.Window, 10*time.Second)
	set(&c.Steps, 10)
	set(&c.Floor, 0.05)
	set(&c.Change, 0.1)
	return c, errors.Join(errs...)
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Report is what a broker saw of the topic since its last report.
type Report struct {
	// Messages is how many arrived.
	Messages float64
	// Backlog is the most that the queue behind the bucket had, in messages: the burst that
	// would have let all of them through at once.
	Backlog float64
	// Version is that of the grant that the broker obeys.
	Version uint64
}

// Grant is what a broker may let through.
type Grant struct {
	Bucket
	// Version grows with every change.
	Version uint64
	// Expires is when the broker falls back to Floor by itself, unless a later grant comes.
	Expires mono.Time
	// Floor is what it falls back to.
	Floor Bucket
}

// Adaptor lets the parts of a topic's bucket follow the traffic of its brokers (section 5.4): rates in
// proportion to the mean rate of a window, bursts to the largest backlog.
//
//	report ──▶ Report ──▶ wanted parts ──▶ cuts at once ──▶ raises, from what cuts were confirmed
//
// What all brokers may use together never exceeds the bucket, also when messages to and from
// them are late or lost: a part is counted as in use, as large as the largest that the broker
// may still obey, until a report confirms a smaller one or its grant has expired. It is not safe
// for concurrent use.
type Adaptor struct {
	cfg     AdaptorConfig
	brokers []adapted
	version uint64
}

// adapted is what the Adaptor knows of one broker.
type adapted struct {
	steps    []step
	next     int
	heard    mono.Time
	grant    Grant  // the last one issued
	obeyed   Bucket // the most that it may still obey, of those before
	granted  bool   // the last grant is confirmed
	expiring mono.Time
}

type step struct {
	at               mono.Time
	span, n, backlog float64
}

// silence is after how many windows without a word a broker is given up: it has fallen back to
// its floor by itself then.
const silence = 2

// NewAdaptor divides the bucket evenly at first, or returns every mistake of the configuration.
func NewAdaptor(now mono.Time, cfg AdaptorConfig) (*Adaptor, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	a := &Adaptor{cfg: cfg, brokers: make([]adapted, cfg.Brokers), version: 1}
	for i := range a.brokers {
		b := &a.brokers[i]
		b.steps, b.heard = make([]step, 0, cfg.Steps), now
		b.grant = Grant{Bucket: cfg.Split(1 / float64(cfg.Brokers)), Version: 1, Expires: now.Add(silence * cfg.Window), Floor: a.floor()}
		b.obeyed, b.expiring, b.granted = b.grant.Bucket, b.grant.Expires, true
	}
	return a, nil
}

// floor is what a broker has at least.
func (a *Adaptor) floor() Bucket { return a.cfg.Split(a.cfg.Floor / float64(a.cfg.Brokers)) }

// Grant returns what a broker is to obey.
func (a *Adaptor) Grant(broker int) Grant { return a.brokers[broker].grant }

// Report enters what a broker saw. Figures below 0 and of no number count as 0.
func (a *Adaptor) Report(now mono.Time, broker int, r Report) {
	b := &a.brokers[broker]
	if now <= b.heard {
		return
	}
	s := step{at: now, span: now.Sub(b.heard).Seconds(), n: sane(r.Messages), backlog: sane(r.Backlog)}
	if len(b.steps) < a.cfg.Steps {
		b.steps = append(b.steps, s)
	} else {
		b.steps[b.next] = s
		b.next = (b.next + 1) % len(b.steps)
	}
	b.heard = now
	if r.Version == b.grant.Version {
		b.obeyed, b.granted = b.grant.Bucket, true
	}
}

func sane(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return 0
	}
	return x
}

// Step decides the grants anew. Call it once a step of the window; the driver sends every
// Grant afterwards, changed or not, since each extends how long it is valid.
func (a *Adaptor) Step(now mono.Time) {
	for i := range a.brokers {
		a.expire(now, &a.brokers[i])
	}
	wanted := a.wanted(now)
	if a.worth(wanted) {
		for i := range a.brokers { // cuts at once
			a.change(&a.brokers[i], lesser(wanted[i], a.brokers[i].grant.Bucket))
		}
	}
	free := a.cfg.Bucket
	for i := range a.brokers {
		used := a.brokers[i].use()
		free.Rate, free.Burst = free.Rate-used.Rate, free.Burst-used.Burst
	}
	a.raise(wanted, free)
	for i := range a.brokers {
		b := &a.brokers[i]
		b.grant.Expires = b.heard.Add(silence * a.cfg.Window)
		b.expiring = max(b.expiring, b.grant.Expires)
	}
}

// expire takes back what a silent broker had: it has fallen back by itself.
func (a *Adaptor) expire(now mono.Time, b *adapted) {
	if now < b.expiring.Add(a.cfg.Window/time.Duration(a.cfg.Steps)) {
		return // a step more, for the time that the grant was on its way
	}
	b.steps, b.next = b.steps[:0], 0
	a.change(b, a.floor())
	b.obeyed, b.granted = b.grant.Bucket, true
}

// wanted returns each broker's part by its traffic in the window.
func (a *Adaptor) wanted(now mono.Time) []Bucket {
	n := len(a.brokers)
	rates, bursts := make([]float64, n), make([]float64, n)
	for i := range a.brokers {
		span := 0.0
		for _, s := range a.brokers[i].steps {
			if now.Sub(s.at) < a.cfg.Window {
				rates[i], span = rates[i]+s.n, span+s.span
				bursts[i] = max(bursts[i], s.backlog)
			}
		}
		if span > 0 {
			rates[i] /= span
		}
	}
	out := make([]Bucket, n)
	for i := range out {
		out[i] = Bucket{a.part(rates, i) * a.cfg.Rate, a.part(bursts, i) * a.cfg.Burst}
	}
	return out
}

// part returns the share of broker i by weights, with the floor that each has.
func (a *Adaptor) part(weights []float64, i int) float64 {
	sum, n := 0.0, float64(len(weights))
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		return 1 / n
	}
	return a.cfg.Floor/n + (1-a.cfg.Floor)*weights[i]/sum
}

// worth reports whether any part is far enough from what it should be.
func (a *Adaptor) worth(wanted []Bucket) bool {
	for i, w := range wanted {
		has := a.brokers[i].grant.Bucket
		if off(w.Rate, has.Rate) > a.cfg.Change || off(w.Burst, has.Burst) > a.cfg.Change {
			return true
		}
	}
	return false
}

func off(want, has float64) float64 { return math.Abs(want-has) / max(min(want, has), 1e-300) }

// use is the most that a broker may let through now.
func (b *adapted) use() Bucket {
	if b.granted {
		return b.grant.Bucket
	}
	return Bucket{max(b.grant.Rate, b.obeyed.Rate), max(b.grant.Burst, b.obeyed.Burst)}
}

func lesser(a, b Bucket) Bucket { return Bucket{min(a.Rate, b.Rate), min(a.Burst, b.Burst)} }

// change issues a grant, if it is another one.
func (a *Adaptor) change(b *adapted, to Bucket) {
	if to == b.grant.Bucket {
		return
	}
	b.obeyed = b.use()
	a.version++
	b.grant.Bucket, b.grant.Version, b.granted = to, a.version, false
}

// raise gives what is free to those that have less than they should, in proportion to what
// they lack.
func (a *Adaptor) raise(wanted []Bucket, free Bucket) {
	var lack Bucket
	for i, w := range wanted {
		has := a.brokers[i].use()
		lack.Rate, lack.Burst = lack.Rate+max(0, w.Rate-has.Rate), lack.Burst+max(0, w.Burst-has.Burst)
	}
	give := Bucket{portion(free.Rate, lack.Rate), portion(free.Burst, lack.Burst)}
	for i, w := range wanted {
		b := &a.brokers[i]
		has := b.use()
		more := Bucket{max(0, w.Rate-has.Rate) * give.Rate, max(0, w.Burst-has.Burst) * give.Burst}
		if more.Rate > 1e-9*a.cfg.Rate || more.Burst > 1e-9*a.cfg.Burst {
			a.change(b, Bucket{b.grant.Rate + more.Rate, b.grant.Burst + more.Burst})
		}
	}
}

// portion is the part of what is lacking that can be given; a hair less, so that rounding
// never exceeds the bucket.
func portion(free, lack float64) float64 {
	if free <= 0 || lack <= 0 {
		return 0
	}
	return min(1, free/lack) * (1 - 1e-12)
}
