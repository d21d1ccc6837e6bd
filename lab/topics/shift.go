package topics

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/placement"
)

// shift is a topic on several brokers whose traffic moves from one to another, and one of which is cut off for
// a while: it goes on serving, and neither is heard nor hears.
type shift struct {
	bucket placement.Bucket
	seed   uint64
	until  float64 // seconds
	// together is how many messages arrive at the same instant, of publishers at one broker that fire together; 0 is 1.
	together int
	// rates returns the messages a second that arrive at each broker.
	rates func(now float64) []float64
	// cutOff reports whether a broker is.
	cutOff func(broker int, now float64) bool
}

// Times of a shift, in seconds.
const (
	tick    = 0.05 // how often messages between brokers and whoever divides the bucket are delivered
	stepped = 1    // how often both speak
	slowest = 0.05 // how long the slowest message takes
	lost    = 0.01 // the share of them that never arrive
)

// divider divides a bucket. Whoever obeys it hears of the parts by part; what it hears of them comes by
// report. Both may be late and lost.
type divider interface {
	report(now float64, broker int, r placement.Report)
	step(now float64)
	part(broker int) placement.Grant
}

// moment is what there was in a tick.
type moment struct {
	now      float64
	parts    []placement.Bucket // obeyed
	arriving []float64
}

// shifted is what a divider made of it.
type shifted struct {
	// waits are the seconds that messages wait for tokens by the part of their broker as they arrive, by whole seconds of
	// their arrival, where not cut off.
	waits   [][]float32
	moments []moment
	rate    float64 // the largest sum of parts, against the bucket
	burst   float64
}

// p99 returns that of the messages that arrived from one instant to another.
func (s *shifted) p99(from, to float64) float64 {
	var all []float32
	for _, w := range s.waits[int(from):min(int(to), len(s.waits))] {
		all = append(all, w...)
	}
	return quantile(all, 0.99)
}

// followed returns how long after from a broker's part is as large as what arrives there, and for a window from then on
// not less than 0.95 of it. It looks until to.
func (s *shifted) followed(broker int, from, to float64) float64 {
	since := math.Inf(1)
	for _, m := range s.moments {
		if m.now < from || m.now >= to {
			continue
		}
		switch part, arriving := m.parts[broker].Rate, m.arriving[broker]; {
		case m.now >= since+adaptorWindow:
			return since - from
		case part < 0.95*arriving:
			since = math.Inf(1)
		case part >= arriving && math.IsInf(since, 1):
			since = m.now
		}
	}
	return since - from
}

// site is a broker of a shift.
type site struct {
	shaper
	grant    placement.Grant
	messages float64
	told     float64 // when it reported last
}

// letter is on its way.
type letter struct {
	due    float64
	broker int
	report *placement.Report
	grant  placement.Grant
}

// play plays it with a divider.
func (s shift) play(d divider) *shifted {
	arrivals, net := chance(s.seed, 0x7368), chance(s.seed, 0x6e65)
	out := &shifted{waits: make([][]float32, int(s.until)+1)}
	sites := make([]site, len(s.rates(0)))
	for i := range sites {
		sites[i].grant = d.part(i)
	}
	var mail []letter
	post := func(l letter) {
		if l.due += slowest * net.Float64(); net.Float64() >= lost && !s.cutOff(l.broker, l.due) {
			mail = append(mail, l)
		}
	}
	for k := range int(s.until / tick) {
		now := float64(k) * tick
		mail = deliver(mail, now, d, sites)
		for i := range sites {
			if at := &sites[i]; k > 0 && at.speaks(i, k) {
				post(letter{due: now, broker: i, report: &placement.Report{Messages: at.messages, Span: time.Duration((now - at.told) * 1e9), Backlog: at.most, Waiting: at.waiting(now), Version: at.grant.Version}})
				at.messages, at.most, at.told = 0, 0, now
			}
		}
		if k > 0 && k%perStep == 0 {
			d.step(now)
			for i := range sites {
				post(letter{due: now, broker: i, grant: d.part(i)})
			}
		}
		out.moments = append(out.moments, s.serve(arrivals, sites, now, out))
	}
	return out
}

// deliver hands over what is due and returns the rest.
func deliver(mail []letter, now float64, d divider, sites []site) (later []letter) {
	for _, l := range mail {
		switch {
		case l.due > now:
			later = append(later, l)
		case l.report != nil:
			d.report(now, l.broker, *l.report)
		case l.grant.Version >= sites[l.broker].grant.Version:
			sites[l.broker].grant = l.grant
		}
	}
	return later
}

// serve plays the messages of a tick.
func (s shift) serve(rng *rand.Rand, sites []site, now float64, out *shifted) moment {
	m := moment{now: now, arriving: s.rates(now), parts: make([]placement.Bucket, len(sites))}
	sum := placement.Bucket{}
	for i := range sites {
		at := &sites[i]
		if at.Bucket = at.grant.Bucket; instant(now) >= at.grant.Expires {
			at.Bucket = at.grant.Floor
		}
		m.parts[i] = at.Bucket
		sum.Rate, sum.Burst = sum.Rate+at.Rate, sum.Burst+at.Burst
		n := max(s.together, 1)
		for t := now; m.arriving[i] > 0; {
			if t += rng.ExpFloat64() * float64(n) / m.arriving[i]; t >= now+tick {
				break
			}
			for range n {
				if wait := float32(at.pass(t)); !s.cutOff(i, now) {
					out.waits[int(t)] = append(out.waits[int(t)], wait)
				}
				at.messages++
			}
		}
	}
	out.rate, out.burst = max(out.rate, sum.Rate/s.bucket.Rate), max(out.burst, sum.Burst/s.bucket.Burst)
	return m
}

// perStep is how many ticks a step has.
const perStep = int(stepped / tick)

// speaks reports whether a broker reports in a tick. No two do in the same one: nothing makes their clocks agree.
func (s *site) speaks(broker, k int) bool { return (k+7*broker)%perStep == 0 }

// waiting returns how many messages have no token yet.
func (s *shaper) waiting(now float64) float64 {
	return max(0, s.backlog-s.Rate*(now-s.last)-s.Burst)
}
