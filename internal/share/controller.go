package share

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/signal"
	"github.com/spillgate/spillgate/internal/work"
)

const (
	// memory is how many periods all other means remember. Waits are long and
	// alike for a relaxation time of the queue, a second at 80 % of 100/s.
	memory = 16
	// reachMemory is how many periods the ratio of the whole latency to the wait here
	// remembers. It says how many stages there are and how full the others
	// are, and much of its variation is chance at those others.
	reachMemory = 64
	// levelGain and splitGain are the share of the error that the two trims take up
	// in a period. With the lag of memory they are damped.
	levelGain, splitGain = 0.05, 0.05
	// trimMost bounds a trim and its inverse: a model further off is wrong.
	trimMost = 16
	// mostLoad is the utilization at which models of a queue that cannot empty are
	// evaluated, because they know no answer beyond. The trims do the rest.
	mostLoad = 0.97
	// tailShare is the share of requests beyond what is called the tail.
	tailShare = 0.05
	// splitLeak is the share of the position's trim that is forgotten in a period.
	splitLeak = 0.0005
	// inside is the part of MaxHarm that is steered to: who steers to a limit is
	// beyond it half of the time. With what chance takes besides, a gain that MaxHarm
	// limits is some 6 % less than MaxHarm would pay for: 34.6 % where that is 36.6.
	inside = 0.95
	// strictGain is the share of the excess of harm that a stricter guard takes up in a
	// period.
	strictGain = 0.01
	// mostShift bounds the trim of the position, as a logarithm of odds.
	mostShift = 3
	// few is how many completions of a class, within memory, are needed to act.
	few = 8
	// tailBatch is how many completions make a p95.
	tailBatch = 256
	// mostReach bounds by how much the latency beyond the isolated one may exceed the
	// wait here: at most so many stages as bad as this one.
	mostReach = maxStages
	// eager and patient are how fast the position follows impatience, a period, up and
	// down: down so slowly that it does not swing.
	eager, patient = 0.1, 0.005
	// longest bounds every time that is reported, in seconds.
	longest = 1e6
	// reachTimes is how many times as long as a request stayed its deadline says when
	// its caller gives up. A later one says only that he does not give up before:
	// patience that is over for all after a second looks exponential with that mean
	// to the fit, of which a tenth is over after 100 ms.
	reachTimes = 8
)

// Sample is what is known of one request that was admitted and completed.
type Sample struct {
	// Latency is the whole time of the request as far as it is known here: of
	// a request that goes on, with all that it waits for.
	Latency time.Duration
	// Isolated is what Latency is expected to be when nothing queues anywhere.
	Isolated time.Duration
	// Waited is the time in this server's queue, Service the time being worked on
	// here.
	Waited, Service time.Duration
	// Allowed is the budget the request began with, from where its patience counts
	// (see OnCancel): so long would its caller have waited. One far beyond Latency
	// tells only that the caller stays so long. 0 or less: none known.
	Allowed time.Duration
}

// Controller moves the weight of the interactive class at one server. Each server
// of a chain has its own; none needs to know of another, because each sees
// the whole latency of the requests that pass it.
//
// It is not safe for concurrent use. All calls but OnWake take constant time and
// do not allocate; OnWake takes some 200 µs.
type Controller struct {
	cfg     Config
	weight  float64
	neutral float64
	want    float64
	begun   bool
	last    mono.Time
	class   [work.NumClasses]account
	level   float64 // factor on the wait of the model
	shift   float64 // of the position of the model, as a logarithm of odds
	forced  float64 // position that impatience asks for
	strict  float64 // what the harm guard keeps below MaxHarm
}

// account is what is known of one class.
type account struct {
	arrivals int
	absent   bool   // no arrivals in the last period
	rate     steady // of arrivals, per second
	service  steady // mean time, in seconds
	now      sums   // this period
	past     sums   // fading
	long     sums   // fading more slowly
	batch    signal.Sketch
	slow     float64 // sum of the batch's slowdowns
	spread   float64 // of the slowdown beyond 1: p95 ÷ mean
	fitter   fitter
}

// sums are totals over completions, times in seconds.
type sums struct {
	count, latency, isolated, waited, service, service2 float64
	// predicted is what the model makes of waited.
	predicted float64
	// lost is the chance of each caller to have given up before the end.
	lost float64
	// gave is how many gave up.
	gave float64
}

func (s *sums) fade(keep float64, with sums) {
	s.count = s.count*keep + with.count
	s.latency = s.latency*keep + with.latency
	s.isolated = s.isolated*keep + with.isolated
	s.waited = s.waited*keep + with.waited
	s.service = s.service*keep + with.service
	s.service2 = s.service2*keep + with.service2
	s.predicted = s.predicted*keep + with.predicted
	s.lost = s.lost*keep + with.lost
	s.gave = s.gave*keep + with.gave
}

// New returns a controller that gives both classes the same weight until it knows
// better, or every mistake in cfg.
func New(cfg Config) (*Controller, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Controller{cfg: cfg, level: 1}
	c.weight = min(0.5, cfg.MaxWeight)
	c.neutral, c.want = c.weight, c.weight
	for i := range c.class {
		c.class[i].spread = 3 // of an exponential time: ln 20
	}
	return c, nil
}

// Weight returns the current weight of the interactive class.
func (c *Controller) Weight() float64 { return c.weight }

// OnArrival counts a request that was admitted to the queue. A shed request is
// not to be reported: it brings no work. A class that does not exist counts as
// Default, here and below.
func (c *Controller) OnArrival(class work.Class) { c.OnArrivals(class, 1) }

// OnArrivals is OnArrival for n requests of a period.
func (c *Controller) OnArrivals(class work.Class, n int) { c.of(class).arrivals += n }

// OnDone takes a request that was completed. Times that cannot be are moved to the
// nearest that can.
func (c *Controller) OnDone(class work.Class, s Sample) {
	a := c.of(class)
	// Isolated is a mean: a request may take less, and its latency be shorter.
	isolated := min(mono.Seconds(max(s.Isolated, 1)), longest)
	latency := min(mono.Seconds(max(s.Latency, 1)), longest)
	waited := min(mono.Seconds(max(s.Waited, 0)), latency)
	service := min(mono.Seconds(max(s.Service, 0)), latency)
	a.now.count++
	a.now.latency += latency
	a.now.isolated += isolated
	a.now.waited += waited
	a.now.service += service
	a.now.service2 += service * service
	slowdown := latency / isolated
	a.slow += slowdown
	a.batch.Add(time.Duration(min(slowdown, 1e6) * 1e6)) // a slowdown of 1 is a millisecond
	stayed := s.Waited
	if class == work.Interactive {
		a.now.lost += 1 - c.patience(class).Outlasts(latency)
		stayed = s.Latency
	}
	switch {
	case s.Allowed <= 0:
		a.fitter.Stayed(stayed)
	case s.Allowed <= reachTimes*stayed:
		a.fitter.Left(s.Allowed)
	default:
		a.fitter.Stayed(s.Allowed)
	}
}

// OnCancel takes a request whose caller gave up after this time: of an interactive
// one the time since it began, of a default one the time in the queue. It is
// evidence of patience and no sample of anything else. Work cancelled as a culprit
// or refused downstream is not to be reported, nor a default request that was
// already being worked on: no order would have kept its caller.
func (c *Controller) OnCancel(class work.Class, after time.Duration) {
	a := c.of(class)
	a.now.gave++
	a.fitter.Left(after)
}

func (c *Controller) of(class work.Class) *account {
	if class >= work.NumClasses {
		class = work.Default
	}
	return &c.class[class]
}

// patience returns what is configured or has been learned.
func (c *Controller) patience(class work.Class) Patience {
	if p := c.cfg.Patience; class == work.Interactive && len(p) > 0 {
		return p
	}
	if p := c.cfg.DefaultPatience; class != work.Interactive && len(p) > 0 {
		return p
	}
	return c.of(class).fitter.Patience()
}

// NextWake returns the end of the running period; before the first OnWake, an
// instant in the past.
func (c *Controller) NextWake() mono.Time {
	if !c.begun {
		return math.MinInt64
	}
	return c.last.Add(c.cfg.Period)
}

// OnWake ends the period if it is over and moves the weight. The first call begins
// the first period. Early and repeated calls change nothing. A late call ends one
// period, however long, and moves by one step: what was seen is no more than one
// observation.
func (c *Controller) OnWake(now mono.Time) Decision {
	if !c.begun {
		c.begun, c.last = true, now
	}
	if now < c.NextWake() || now == c.last {
		return c.decision(Early)
	}
	elapsed := now.Sub(c.last)
	c.last = now
	c.observe(elapsed)
	r, d := &c.class[work.Interactive], &c.class[work.Default]
	if r.past.count < few || d.past.count < few || r.absent || d.absent {
		return c.decision(Few)
	}
	return c.move()
}

func (c *Controller) decision(why Reason) Decision {
	return Decision{Weight: c.weight, Reason: why, Want: c.want, Neutral: c.neutral}
}

// observe closes the period's books.
func (c *Controller) observe(elapsed time.Duration) {
	periods := float64(elapsed) / float64(c.cfg.Period)
	for i := range c.class {
		a := &c.class[i]
		rate := float64(a.arrivals) / elapsed.Seconds()
		a.rate.add(rate, math.Sqrt(max(a.rate.calm, rate)/elapsed.Seconds()), periods)
		if n := a.now.count; n > 0 {
			mean := a.now.service / n
			square := (a.past.service2 + a.now.service2) / (a.past.count + n)
			spread := math.Sqrt(max(square-a.service.calm*a.service.calm, 0) / n)
			a.service.add(mean, spread, periods)
		}
		a.arrivals, a.absent = 0, a.arrivals == 0
		if a.batch.Count() >= tailBatch {
			a.closeBatch()
		}
		a.fitter.Update()
	}
	// The prediction is the model's with the weight that ruled, and so wrong by what
	// the trims have yet to learn.
	if s, ok := c.station(); ok {
		at := s.shifted(c.weight, c.shift)
		r, d := &c.class[work.Interactive], &c.class[work.Default]
		r.now.predicted = r.now.count * s.interactiveAt(at)
		d.now.predicted = d.now.count * s.defaultAt(at)
	}
	keep, keepLong := math.Exp(-periods/memory), math.Exp(-periods/reachMemory)
	for i := range c.class {
		a := &c.class[i]
		a.past.fade(keep, a.now)
		a.long.fade(keepLong, a.now)
		a.now = sums{}
	}
	c.trim()
}

// closeBatch takes the shape of the slowdown from a batch of completions.
func (a *account) closeBatch() {
	mean := a.slow / float64(a.batch.Count())
	p95 := a.batch.Quantile(1-tailShare).Seconds() * 1e3
	if mean > 1.01 {
		spread := min(max((p95-1)/(mean-1), 1), 20)
		a.spread += 0.3 * (spread - a.spread)
	}
	a.slow = 0
	a.batch.Reset()
}

// station returns the model of this server: Kingman's wait with Poisson arrivals,
// trimmed. It reports false before anything is known.
func (c *Controller) station() (station, bool) {
	r, d := &c.class[work.Interactive], &c.class[work.Default]
	count := r.past.count + r.now.count + d.past.count + d.now.count
	service := r.past.service + r.now.service + d.past.service + d.now.service
	square := r.past.service2 + r.now.service2 + d.past.service2 + d.now.service2
	if !(count > 0) || !(service > 0) {
		return station{}, false
	}
	mean := service / count
	s := station{interactive: r.load(), standard: d.load()}
	s.interactive /= c.cfg.Servers
	s.standard /= c.cfg.Servers
	if load := s.interactive + s.standard; load > mostLoad {
		s.interactive *= mostLoad / load
		s.standard *= mostLoad / load
	}
	load := s.interactive + s.standard
	if !(load > 0) {
		return station{}, false
	}
	variation := square/count/(mean*mean) - 1
	s.wait = c.level * kingmanWait(load, 1, 1, max(variation, 0)) * mean / c.cfg.Servers
	return s, true
}

// load is the work a class brings, in servers.
func (a *account) load() float64 {
	return a.rate.calm * a.service.calm
}

// trim corrects the model by what was measured, as slowly as that is known: the
// wait of all, which order does not change, and how the two classes share it.
func (c *Controller) trim() {
	r, d := &c.class[work.Interactive].past, &c.class[work.Default].past
	if r.count < few || d.count < few || !(r.waited > 0) || !(d.waited > 0) || !(r.predicted > 0) || !(d.predicted > 0) {
		return
	}
	// Weighted by work, the sum is what the conservation law is about.
	measured := r.waited/r.count*r.service + d.waited/d.count*d.service
	predicted := r.predicted/r.count*r.service + d.predicted/d.count*d.service
	c.level = trimmed(c.level * math.Pow(measured/predicted, levelGain))
	// How the waits divide is learned where they say much of the position: next to
	// priority a large shift hardly shows, and chance would drive it away.
	s, _ := c.station()
	at := s.shifted(c.weight, c.shift)
	tells := at * (1 - at) * ((s.last()-s.first())/s.interactiveAt(at) + (s.swapped().last()-s.swapped().first())/s.defaultAt(at))
	split := math.Log(r.waited/r.predicted) - math.Log(d.waited/d.predicted)
	c.shift -= splitGain * split * min(tells, 1)
	c.shift = min(max(c.shift*(1-splitLeak), -mostShift), mostShift)
}

// trimmed bounds a trim.
func trimmed(x float64) float64 { return min(max(x, 1.0/trimMost), trimMost) }
