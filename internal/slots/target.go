package slots

import "math"

const (
	// unordered is the residence with a hidden queue, in Slacks, where the order of service does not matter. The rest
	// of the objective is left for the queue in front, the way to the client, and chance. A residence of harmless
	// Slacks is not worth a trial, and the limit may grow up to roomy while the knee is unknown. These two matter
	// where the order does: without them a server with room for all refused a quarter of the requests for two seconds after its
	// start, because each took 0.15 of the objective (TestColdStartInOrder).
	unordered, harmless, roomy = 4, 2, 3
	// fed is the hidden queue, in Slacks, that a line has in an overload, which keeps the workers busy until the next
	// credits arrive. Without it 2,000 clients got 94 % of the capacity instead of 98 %; with half a Slack the second
	// after a slowdown suffered.
	fed = 0.25
	// scarce is how many means the longest one in fifty of exponential times takes, ln 50.
	scarce = 3.9
	// few is how many requests more than the knee run, however much residence times vary.
	few = 2
	// between is the part of the knee that runs on top of it where processors are short, because requests also wait for
	// other things: chance leaves the processors idle for a tenth of the time if no more run than the knee.
	between = 0.5
	// lagMemory is over how many calls of SetLag a lag is smoothed.
	lagMemory = 16
	// margin is how far, relatively, the limit lies above the knee. The knee is known to a tenth or two, and a slot
	// too few costs more than one too many.
	margin = 0.1
)

// target is the limit that follows from what is known: the second table of the package comment.
func (l *Limit) target() float64 {
	if l.crowd.bound > 0 {
		return l.crowd.bound
	}
	return l.unbounded()
}

// unbounded is target where requests do not hold each other up.
func (l *Limit) unbounded() float64 {
	slack := float64(l.cfg.Slack)
	switch {
	case l.told.useful > 0:
		n := max(l.knee.at, float64(l.told.useful))
		return n + max(min(max(few, between*n), l.knee.rate*(slack-2*l.told.lag)), 0)
	case l.line.confirmed:
		hidden := min(1, l.knee.rate*slack)
		if !l.told.ordered && l.seen.unbound == 0 {
			hidden = max(hidden, fed*l.knee.rate*slack)
		}
		// Each request more than the knee waits for one departure. Where these are rare, that is a part of the
		// objective.
		return l.knee.at + min(max(margin*l.knee.at, hidden), fed*l.knee.rate*slack)
	}
	// A knee that was measured too low may hide behind a few more.
	queued := min(l.knee.rate*l.hidden(), max(l.knee.rate*l.bounded(), l.knee.at+few))
	return max(min(l.knee.at*(1+l.knee.doubt()), max(l.knee.at, most*slack*l.knee.rate)), queued)
}

// hidden is the residence with a hidden queue, in ns, that the objective allows.
func (l *Limit) hidden() float64 {
	if l.told.ordered {
		return float64(l.cfg.Slack)
	}
	return unordered * float64(l.cfg.Slack)
}

// bounded is the mean residence, in ns, with which one request in fifty takes longer than the objective less a Slack
// for the way. If the order inside is not that of arrival, or requests share what serves them, some wait much longer
// than the mean. Without this bound, a tenth of the requests to a store with shared processors were given up while
// they ran (wild/hosts has such a store).
func (l *Limit) bounded() float64 {
	return (whole - 1) * float64(l.cfg.Slack) / (1 + (scarce-1)*l.times.deviation())
}

// harmless is the residence, in ns, up to which no trial asks whether there is a queue.
func (l *Limit) harmless() float64 {
	return max(harmless*float64(l.cfg.Slack), l.hidden())
}

// spacious is the residence with a hidden queue, in ns, that is allowed while the knee is unknown.
func (l *Limit) spacious() float64 {
	return max(roomy*float64(l.cfg.Slack), l.hidden())
}

// doubt is how far, relatively, the limit lies above the knee at least: margin, or the standard error of the knee's
// measurement with exponential times.
func (k *knee) doubt() float64 {
	if k.samples == 0 {
		return margin
	}
	return max(margin, 1/math.Sqrt(k.samples))
}

// doubtful reports whether the knee was never measured, or is far above what by Little's law keeps the server busy:
// then the work has become slower since, or requests hold each other up.
func (k *knee) doubtful() bool { return k.samples == 0 || k.at > far*k.rate*k.alone }

// fewest is the least limit: Min, or the processors while these are short, because an idle processor does nothing.
func (l *Limit) fewest() int { return max(l.cfg.Min, min(l.told.useful, l.cfg.Max)) }

// known returns a number of requests that were seen to be served at once. Where requests share processors, or hold each
// other up, the ranks reach as far as what runs, and do not count.
func (l *Limit) known() float64 {
	n := max(l.knee.at, l.unqueued.n)
	if l.Sharing() || l.crowd.bound > 0 {
		return n
	}
	return max(n, l.reach.most())
}
