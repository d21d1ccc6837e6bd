package slots

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/mono"
)

const (
	// binding is the share of a window during which the limit must have been
	// reached for its throughput to be the capacity at that limit.
	binding = 0.5
	// judgeAt is the fall in concurrency after which a cut is judged. Nearer to
	// 1 the noise of a window of 32 exponential samples (18 %) decides.
	judgeAt = 0.65
	// queueElasticity is the relative fall of throughput per relative fall of
	// concurrency below which there was a hidden queue: 0 says that the cut cost
	// nothing, 1 that it cost all.
	queueElasticity = 0.5
	// probeAfter is how many binding windows pass between two probes: at half
	// the throughput for one in 64, a probe costs under 1 %.
	probeAfter = 64
	// learn is the weight of a window in the service time.
	learn = 0.1
)

// Limit is an adaptive bound on running requests. It is not safe for concurrent
// use; calls take constant time and do not allocate.
type Limit struct {
	cfg     Config
	limit   float64
	inUse   int
	service float64 // ns; 0: unknown
	excess  float64 // ns in the hidden queue, smoothed

	// The running window.
	start    mono.Time
	last     mono.Time // of the two integrals
	level    float64   // ∫ inUse dt
	full     float64   // ns during which inUse ≥ limit
	done     int
	sum      float64 // of residence times
	early    float64 // smallest mean of a group of earlySize samples
	group    float64
	groupN   int
	settling bool // residence still mixes two limits: wait for a window

	// The experiment under way.
	mode    mode
	before  point
	since   int // binding windows since the last probe
	resumed float64
}

type mode uint8

const (
	steady  mode = iota
	cutting      // residence was too long; before holds the start
	probing      // halved for one window
)

// point is an operating point.
type point struct{ concurrency, throughput, residence float64 }

const earlySize = 4

// New returns a limit at its initial value, or every mistake in cfg.
func New(cfg Config) (*Limit, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Limit{cfg: cfg, limit: float64(cfg.Initial), early: math.Inf(1)}, nil
}

// Limit returns the most requests that may run at once.
func (l *Limit) Limit() int { return int(l.limit + 0.5) }

// InUse returns the requests that run.
func (l *Limit) InUse() int { return l.inUse }

// Free reports whether one more may run.
func (l *Limit) Free() bool { return l.inUse < l.Limit() }

// Service returns the estimate of the residence time without a hidden queue, 0
// before the first measurement.
func (l *Limit) Service() time.Duration { return time.Duration(l.service) }

// Excess returns the estimate of the time a request spends in the hidden queue:
// what its residence exceeds the service time by.
func (l *Limit) Excess() time.Duration { return time.Duration(l.excess) }

// Acquire takes a slot. The caller asks Free first; taking more than the limit
// is allowed and counted, for requests that must run.
func (l *Limit) Acquire(now mono.Time) {
	l.integrate(now)
	l.inUse++
}

// Release returns a slot that was taken at started. A sample is a request that
// was executed to its end; others say nothing about the speed of the work.
func (l *Limit) Release(now, started mono.Time, sample bool) {
	l.integrate(now)
	l.inUse--
	if sample {
		r := float64(max(now.Sub(started), 1))
		l.done++
		l.sum += r
		l.group += r
		if l.groupN++; l.groupN == earlySize {
			l.early = math.Min(l.early, l.group/earlySize)
			l.group, l.groupN = 0, 0
		}
	}
	l.endWindow(now)
}

// integrate advances the time averages.
func (l *Limit) integrate(now mono.Time) {
	dt := float64(now.Sub(l.last))
	if dt > 0 {
		l.level += dt * float64(l.inUse)
		if !l.Free() {
			l.full += dt
		}
		l.last = now
	}
}

// endWindow judges the running window once it holds enough completions.
func (l *Limit) endWindow(now mono.Time) {
	length := float64(now.Sub(l.start))
	// At least as many completions as ran at once, or the window is shorter than
	// a residence time and its throughput is chance.
	enough := l.done >= max(l.cfg.Samples, int(l.level/math.Max(length, 1)))
	if !enough && (l.done == 0 || length < float64(l.cfg.MaxWindow)) {
		return
	}
	if length <= 0 {
		return
	}
	p := point{l.level / length, float64(l.done) / length, l.sum / float64(l.done)}
	full := l.full / length
	early := l.early
	l.start, l.level, l.full, l.done, l.sum = now, 0, 0, 0, 0
	l.early, l.group, l.groupN = math.Inf(1), 0, 0
	if l.cfg.Min == l.cfg.Max {
		l.observe(p)
		return
	}
	if l.service == 0 {
		// The first requests met no queue of others, whatever came after.
		l.service = math.Min(p.residence, early)
	}
	if l.settling {
		l.settling = false
		return
	}
	switch l.mode {
	case probing:
		l.judgeProbe(p)
	case cutting:
		l.continueCut(p, full)
	default:
		l.steer(p, full)
	}
	l.limit = math.Max(float64(l.cfg.Min), math.Min(l.limit, float64(l.cfg.Max)))
	l.observe(p)
}

// observe updates the service time by a window that cannot have had a queue,
// because its residence is the shortest known, and the hidden queue by any.
func (l *Limit) observe(p point) {
	if l.service == 0 || p.residence < l.service {
		l.learn(p.residence)
	}
	l.excess += (math.Max(p.residence-l.service, 0) - l.excess) / 4
}

func (l *Limit) learn(residence float64) {
	if l.service == 0 {
		l.service = residence
	}
	l.service += (residence - l.service) * learn
}

// allowed is the residence time the limit is steered to.
func (l *Limit) allowed() float64 {
	return l.service + math.Max(float64(l.cfg.Slack), l.service/4)
}

// steer acts on a window in which no experiment ran.
func (l *Limit) steer(p point, full float64) {
	allowed := l.allowed()
	if p.residence > allowed*1.1 { // a tenth for the noise of the mean
		l.mode, l.before = cutting, p
		l.cut(p)
		return
	}
	if full < binding {
		return
	}
	// Binding and fast enough: to the fixed point, at least one more, so that a
	// small limit is not held down by rounding.
	want := p.throughput * allowed
	if p.residence < allowed {
		want = math.Max(want, l.limit+math.Min(1, l.limit/16))
	}
	l.limit = math.Min(want, l.limit*2)
	if l.since++; l.since >= probeAfter && l.Limit() > l.cfg.Min {
		l.since = 0
		l.mode, l.before, l.resumed = probing, p, l.limit
		l.limit = math.Max(l.limit/2, float64(l.cfg.Min))
		l.settling = true
	}
}

// cut lowers the limit to what the throughput of p needs, at most to half.
func (l *Limit) cut(p point) {
	from := math.Min(l.limit, p.concurrency)
	l.limit = math.Max(math.Min(p.throughput*l.allowed(), from*0.9), from/2)
	l.settling = true
}

// continueCut follows a cut until residence is short enough, or until it is
// clear that the work is slower, not queued.
func (l *Limit) continueCut(p point, full float64) {
	if p.residence <= l.allowed()*1.1 {
		l.mode = steady
		return
	}
	atFloor := l.Limit() <= l.cfg.Min
	if p.concurrency > l.before.concurrency*judgeAt && !atFloor {
		if full < binding && p.concurrency < l.limit*0.9 {
			// Load fell away: nothing binds, nothing can be judged.
			l.mode = steady
			return
		}
		l.cut(p)
		return
	}
	if atFloor || elasticity(l.before, p) > queueElasticity {
		l.service = p.residence
		l.limit = math.Max(l.limit, l.before.throughput*l.allowed())
		l.mode = steady
		l.settling = true
		return
	}
	l.before = p
	l.cut(p)
}

// judgeProbe compares half the limit with the limit.
func (l *Limit) judgeProbe(p point) {
	l.mode = steady
	if p.concurrency > l.before.concurrency*0.8 {
		l.limit = l.resumed
		return // the limit did not bind before or after: nothing learned
	}
	e := elasticity(l.before, p)
	switch {
	case e > queueElasticity:
		// Half the slots cost throughput: no queue to speak of, so the residence
		// at half is the service time, shorter or longer than believed.
		l.limit = l.resumed
		l.learn(p.residence)
	default:
		l.service = p.residence
		l.limit = math.Max(p.throughput*l.allowed(), l.resumed/2)
	}
	l.settling = true
}

// elasticity is the relative fall of throughput per relative fall of
// concurrency from a to b.
func elasticity(a, b point) float64 {
	fall := math.Log(a.concurrency / b.concurrency)
	if !(fall > 0) {
		return 0
	}
	return math.Log(a.throughput/b.throughput) / fall
}
