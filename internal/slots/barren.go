package slots

import "github.com/spillgate/spillgate/internal/mono"

// barrenRounds is how many times as many requests as run at once must end without fruit, one after the other, for
// fewer to run. Half and twice as many lose half a percent of the goodput of call graphs (0.5 ± 0.4 and 0.5 ± 0.3 %; 60
// random ones).
const barrenRounds = 2

// barren bounds what runs while nothing that runs succeeds, because a service further down refuses a part of each.
type barren struct {
	ends   int     // without fruit, in a row
	fruits int     // more than ends without, since the bound was set or doubled
	bound  float64 // 0 while there is none
}

// Barren says, before Release, that a request ends without fruit because a service further down refused a part of it.
// If nothing else ends for two rounds of what runs, so many requests may be what overloads that service: where each
// needs many calls, and one refusal fails it, all fail together for good. A quarter may run then, and twice as many
// each time that a round more have succeeded than have not: requests of a kind that always fails, beside others that
// do not, must not keep the others from their slots. What is known of this service stays.
func (l *Limit) Barren() {
	b := &l.barren
	b.fruits = max(b.fruits-1, 0)
	if b.ends++; b.ends >= barrenRounds*l.Limit() && l.Lends() && l.Limit() > l.fewest() {
		b.ends, b.fruits, b.bound = 0, 0, max(float64(l.Limit())/4, float64(l.fewest()))
		l.round()
	}
}

// fruit takes a request that was executed, at now. A window begins once the bound goes with it.
func (l *Limit) fruit(now mono.Time) {
	b := &l.barren
	b.ends = 0
	if b.bound == 0 {
		return
	}
	if b.fruits++; float64(b.fruits) < b.bound {
		return
	}
	if b.fruits, b.bound = 0, 2*b.bound; b.bound >= l.limit {
		b.bound = 0
		l.begin(now, 1)
	}
	l.round()
}
