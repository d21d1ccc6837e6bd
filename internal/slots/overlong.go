package slots

// overlong tells whether requests that run for longer than the objective are long by nature, as polls and exports
// are, or wait for each other inside, as requests do that share a pool of connections. In the second case the more of
// them there are, the longer each takes, or most of their callers give up. Short requests that need no connection may
// end beside them all the time.
type overlong struct {
	longer longer
	ends   float64 // of such requests, the older ones counting half
	given  float64 // of these, requests whose callers gave up
}

const (
	// overlongMemory is after how many ends older ones count half, and overlongLeast how many there must be to tell
	// anything.
	overlongMemory, overlongLeast = 256, 16
	// abandoned is the share of callers that give up from which on the requests wait in vain.
	abandoned = 0.5
	// shared is the elasticity of their residence in the number found from which on they wait for each other. Others
	// run beside them, and requests that take less than the objective are not among them.
	shared = 0.3
)

// add takes the end of a request that took r ns, longer than the objective, and found so many running, itself and
// those without a slot included.
func (o *overlong) add(found, r float64, executed bool) {
	if o.ends >= overlongMemory {
		o.ends, o.given = o.ends/2, o.given/2
		o.longer.halve()
	}
	if o.ends++; !executed {
		o.given++
		return
	}
	o.longer.add(found, r)
}

// Waits reports whether requests that run for longer than the objective wait for each other, as far as is known.
func (l *Limit) Waits() bool { return l.overlong.wait() }

// wait reports whether the requests wait for each other, as far as is known.
func (o *overlong) wait() bool {
	switch {
	case o.ends < overlongLeast:
		return false
	case o.given > abandoned*o.ends:
		return true
	case o.longer.count < overlongLeast:
		return false
	}
	by, deviation := o.longer.elasticity()
	return by >= shared && by >= 2*deviation
}
