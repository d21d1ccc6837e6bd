package rates

import (
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// smoothing is the weight of a period in smoothed rates, loads and calls per
	// request (Wisp §5 leaves it open).
	smoothing = 0.2
	// sampleWeight is the weight of one request in its workflow's service time.
	sampleWeight = 0.1
	// costWeight is the weight of one request in the cost of a workflow's
	// requests, of which a period has together no more than smoothing: 30
	// requests a period would otherwise leave no memory of earlier ones. It must
	// remember a burst: its last requests are those that took longest, and by the
	// last ten the cost was up to 2.5 times what it is (simulation).
	costWeight = 0.02
	// steadyWeight is the weight of a period in what a workflow wants in the long
	// run: requests that fan out make it a burst every few seconds.
	steadyWeight = 0.02
	// leastAlpha is how many calls per request a process must get to count as
	// used.
	leastAlpha = 1e-3
)

// ratio is a quotient of two sums that fade alike, so that a period counts by what
// happened in it.
type ratio struct{ above, below float64 }

// add lets a part of the sums fade and adds to the rest.
func (r *ratio) add(fade, above, below float64) {
	r.above += above - fade*r.above
	r.below += below - fade*r.below
}

// value returns the mean, 0 before the first sample.
func (r *ratio) value() float64 {
	if r.below == 0 {
		return 0
	}
	return r.above / r.below
}

// flow is what is known of one workflow.
type flow struct {
	name  string
	terms Terms

	arrived float64 // first attempts in this period
	offered float64 // A: first attempts per second, smoothed
	demand  float64 // the same without the throttling further up
	steady  float64 // demand, smoothed over some seconds
	periods float64 // since the first request
	sources []source
	// sourceAt and linkAt hold, by place of the peer, the place in sources, or in
	// branches and links, plus one.
	sourceAt []int32

	passed    float64 // requests let in, since the start
	ended     float64 // requests ended in this period
	completed float64 // of these, those that ran to their end
	known     bool    // a request has run to its end
	parents   float64 // completed per period, smoothed over periods that have any
	branches  []branch
	linkAt    []uint32

	use []usage

	cut   float64 // what the overloaded resources leave room for
	local float64 // s: what this process can do, NoLimit if nothing is short
	calm  int     // periods since a resource it uses was overloaded
	held  bool    // some service downstream has fallen silent
	// down is the least rate of the services downstream, by that of service
	// tight; next is the least of the others.
	down, next float64
	tight      int
	sigma      float64

	limiter limiter
	heard   mono.Time
}

// source is an upstream process of a workflow.
type source struct {
	peer    int
	arrived float64 // in this period
	offered float64 // per second, smoothed
	claimed float64 // what it said it would send unthrottled, per second
	toldAt  mono.Time
	heard   mono.Time
	told    bool
	demand  float64 // what it would send unthrottled, per second
	share   float64 // announced
}

// branch is a downstream service of a workflow.
type branch struct {
	service int
	links   []link
	q       float64
	search  search
	rate    float64 // of requests of this workflow that it leaves room for
}

// link is a downstream process of a workflow.
type link struct {
	peer  int
	calls float64 // by requests that completed in this period
	each  float64 // calls per period, smoothed like flow.parents
	tried float64 // first attempts in this period, by whatever request
	tries float64 // per period, smoothed
	alpha float64 // calls per completed request
	sent  float64 // calls made in this period
	shed  float64 // calls refused in this period
	rate  float64 // announced
	at    mono.Time
	heard mono.Time // last call
	any   bool      // something was announced
}

// usage is a workflow's use of one resource.
type usage struct {
	busy  float64 // seconds in this period
	raw   float64 // seconds per second in the last one
	owed  float64 // seconds not yet put down to a request that ended
	total float64 // seconds since the start
	load  float64 // seconds per second, smoothed
	cost  ratio   // seconds per request
}

func newFlow(name string, terms Terms, resources int, now mono.Time) *flow {
	if terms.Weight == 0 {
		terms.Weight = 1
	}
	return &flow{name: name, terms: terms, use: make([]usage, resources), local: NoLimit, down: NoLimit, next: NoLimit, tight: -1, sigma: NoLimit, heard: now}
}

func (f *flow) source(peer int) *source {
	if peer < len(f.sourceAt) && f.sourceAt[peer] > 0 {
		return &f.sources[f.sourceAt[peer]-1]
	}
	return nil
}

func (f *flow) addSource(peer int) *source {
	for len(f.sourceAt) <= peer {
		f.sourceAt = append(f.sourceAt, 0)
	}
	f.sources = append(f.sources, source{peer: peer})
	f.sourceAt[peer] = int32(len(f.sources))
	return &f.sources[len(f.sources)-1]
}

func (f *flow) dropSource(peer int) {
	if f.source(peer) == nil {
		return
	}
	i, last := int(f.sourceAt[peer]-1), len(f.sources)-1
	f.sources[i] = f.sources[last]
	f.sourceAt[f.sources[i].peer] = int32(i + 1)
	f.sourceAt[peer] = 0
	f.sources = f.sources[:last]
}

func (f *flow) link(peer int) *link {
	if peer < len(f.linkAt) && f.linkAt[peer] > 0 {
		at := f.linkAt[peer]
		return &f.branches[at>>placeBits].links[place(at)-1]
	}
	return nil
}

func (f *flow) addLink(peer, service int, q float64) *link {
	b := 0
	for b < len(f.branches) && f.branches[b].service != service {
		b++
	}
	if b == len(f.branches) {
		f.branches = append(f.branches, branch{service: service, q: q, rate: NoLimit})
	}
	for len(f.linkAt) <= peer {
		f.linkAt = append(f.linkAt, 0)
	}
	links := append(f.branches[b].links, link{peer: peer})
	f.branches[b].links = links
	f.linkAt[peer] = linkPlace(b, len(links)-1)
	return &links[len(links)-1]
}

func linkPlace(branch, link int) uint32 { return uint32(branch)<<placeBits | uint32(link+1) }

func (f *flow) dropLink(peer int) {
	if f.link(peer) == nil {
		return
	}
	b, i := int(f.linkAt[peer]>>placeBits), place(f.linkAt[peer])-1
	links := f.branches[b].links
	last := len(links) - 1
	links[i] = links[last]
	f.linkAt[links[i].peer] = linkPlace(b, i)
	f.linkAt[peer] = 0
	f.branches[b].links = links[:last]
	if last > 0 {
		return
	}
	end := len(f.branches) - 1
	f.branches[b] = f.branches[end]
	f.branches[end] = branch{}
	f.branches = f.branches[:end]
	if b == end {
		return
	}
	for i, l := range f.branches[b].links {
		f.linkAt[l.peer] = linkPlace(b, i)
	}
}

// apportion sets the calls to each process per completed request. How many go to a
// service, completed requests tell. To which of its processes they go, all tell: those
// that complete are those that did not meet the process which refuses most.
func (f *flow) apportion() {
	if f.parents == 0 {
		return
	}
	for b := range f.branches {
		links := f.branches[b].links
		each, tries := 0.0, 0.0
		for i := range links {
			l := &links[i]
			l.tries = smooth(l.tries, l.tried)
			l.tried = 0
			each += l.each
			tries += l.tries
		}
		for i := range links {
			if l := &links[i]; tries > 0 {
				l.alpha = each / f.parents * l.tries / tries
			}
		}
	}
}

// measure closes a period of the given length.
func (f *flow) measure(now mono.Time, seconds float64, stale time.Duration, forget time.Duration) {
	f.offered = smooth(f.offered, f.arrived/seconds)
	f.arrived = 0
	f.demand = 0
	for i := len(f.sources) - 1; i >= 0; i-- {
		s := &f.sources[i]
		s.offered = smooth(s.offered, s.arrived/seconds)
		s.arrived = 0
		if now.Sub(s.heard) > forget {
			f.dropSource(s.peer)
			continue
		}
		s.demand = s.unthrottled(now, stale)
		f.demand += s.demand
	}
	// What came from a process that was forgotten since came all the same.
	f.demand = max(f.demand, f.offered)
	f.periods++
	f.steady += max(steadyWeight, 1/f.periods) * (f.demand - f.steady)
	if f.completed > 0 {
		weight := smoothing
		if f.parents == 0 {
			weight = 1
		}
		f.parents += weight * (f.completed - f.parents)
		for b := range f.branches {
			for i := range f.branches[b].links {
				l := &f.branches[b].links[i]
				l.each += weight * (l.calls - l.each)
				l.calls = 0
			}
		}
	}
	f.completed = 0
	f.apportion()
	for r := range f.use {
		u := &f.use[r]
		u.raw, u.busy = u.busy/seconds, 0
		u.load = smooth(u.load, u.raw)
		if f.ended > 0 && u.owed+u.cost.above > 0 {
			u.cost.add(costFade(f.ended), u.owed, f.ended)
			u.owed = 0
		}
	}
	f.ended = 0
}

// costFade returns the weight of a period in which so many requests ended. Twelve weigh
// more than a period may, 1-0.98^12 being 0.215, and most periods need no power.
func costFade(ended float64) float64 {
	if ended >= 12 {
		return smoothing
	}
	return min(1-math.Pow(1-costWeight, ended), smoothing)
}

// unthrottled returns what the source would send if it were not throttled: what it
// says while that is fresh, and in any case what came. Shares that followed what
// came would keep the ratios of the first throttling for ever.
func (s *source) unthrottled(now mono.Time, stale time.Duration) float64 {
	if s.says(now, stale) {
		return max(s.claimed, s.offered)
	}
	return s.offered
}

// says reports whether the source has said its demand lately.
func (s *source) says(now mono.Time, stale time.Duration) bool {
	return s.told && now.Sub(s.toldAt) <= stale
}

// cost returns what a request takes of a resource, in seconds. Before the first
// request has ended it is what those let in have taken so far, so that a
// workflow of long requests does not escape.
func (f *flow) cost(r int) float64 {
	u := &f.use[r]
	if c := u.cost.value(); c > 0 {
		return c
	}
	return u.total / max(f.passed, 1)
}

func smooth(mean, x float64) float64 { return mean + smoothing*(x-mean) }
