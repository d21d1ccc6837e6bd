package credit

import "math/bits"

// maxWorkflows is how many workflows a pool tells apart. A client that asks for further
// ones alone has as much of the pool as the others have on average.
const maxWorkflows = 64

// census counts clients that asked for something, in the last season, a lease long, and
// in the running one, by how much they had.
type census struct{ last, now [standings]int }

// all returns how many clients there are.
func (s *census) all() int {
	var last, now int
	for i := range s.now {
		last, now = last+s.last[i], now+s.now[i]
	}
	return max(last, now)
}

// of returns how many of them have a standing.
func (s *census) of(as standing) int { return max(s.last[as], s.now[as]) }

// next begins a season.
func (s *census) next() { s.last, s.now = s.now, [standings]int{} }

// workflow is the clients that ask for a workflow, and what each of them has for it.
type workflow struct {
	census
	share float64 // its weight
	// each is the weight divided by the clients, left the weight divided by those that are
	// not modest: both in such a unit that clients have 1 on average.
	each, left float64
}

// attendance is when and as what a client counts.
type attendance struct {
	season           uint32 // in which it was active last
	before           bool   // it was so in the one before as well
	as, was          standing
	carries, carried uint64 // the workflows that it asked for in these two, a bit each
}

// SetShare sets the weight of a workflow, by the number that OnWorkflow has, 1 at first.
// The clients that ask for a workflow have credits by its weight, in equal parts: a client
// that asks for two has its part of both. Other numbers, and weights not above 0, change
// nothing.
func (p *Pool) SetShare(number int, share float64) {
	if number >= 0 && number < maxWorkflows && share > 0 {
		p.workflows[number].share = share
		p.divide()
	}
}

// OnWorkflow notes that c asks for a workflow, by its number. It comes before OnUse and
// OnRequest. Without it all clients are alike.
func (p *Pool) OnWorkflow(c *Client, number int) {
	if c.gone || number < 0 || number >= maxWorkflows {
		return
	}
	p.count(c)
	bit := uint64(1) << number
	if c.carries&bit != 0 {
		return
	}
	if c.carries == 0 {
		p.known.now[c.as]++
	}
	c.carries |= bit
	w := &p.workflows[number]
	w.now[c.as]++
	if w.each == 0 {
		p.divide() // nobody asked for it before
	}
}

// count notes that c is active.
func (p *Pool) count(c *Client) {
	if c.season == p.season {
		return
	}
	c.before = c.season+1 == p.season
	c.was, c.as = c.as, c.standing
	c.carries, c.carried = 0, c.carries
	c.season = p.season
	p.everyone.now[c.as]++
}

// recount moves an active client to its new standing.
func (p *Pool) recount(c *Client) {
	if c.season != p.season {
		return
	}
	c.censuses(p, c.carries, func(s *census) {
		s.now[c.as]--
		s.now[c.standing]++
	})
	c.as = c.standing
}

// forget takes out a client that is gone: who asked for as much as it did counts in its
// stead at once.
func (p *Pool) forget(c *Client) {
	last, as := c.carried, c.was
	switch {
	case c.season == p.season:
		c.censuses(p, c.carries, func(s *census) { s.now[c.as]-- })
		if !c.before {
			return
		}
	case c.season+1 == p.season:
		last, as = c.carries, c.as
	default:
		return
	}
	c.censuses(p, last, func(s *census) { s.last[as]-- })
}

// censuses calls f for each census in which a client counts that asked for some workflows.
func (c *Client) censuses(p *Pool, carries uint64, f func(*census)) {
	f(&p.everyone)
	if carries != 0 {
		f(&p.known)
	}
	for ; carries != 0; carries &= carries - 1 {
		f(&p.workflows[bits.TrailingZeros64(carries)].census)
	}
}

// nextSeason begins to count anew.
func (p *Pool) nextSeason() {
	p.season++
	p.everyone.next()
	p.known.next()
	for i := range p.workflows {
		p.workflows[i].next()
	}
}

// divide divides the weights of the workflows that are asked for.
func (p *Pool) divide() {
	known := p.known.all()
	if known == 0 {
		return
	}
	var all, left float64
	for i := range p.workflows {
		w := &p.workflows[i]
		n := w.all()
		if w.each, w.left = 0, 0; n == 0 {
			continue
		}
		w.each, w.left = w.share/float64(n), w.share
		all += w.share
		if rest := n - w.of(modest); rest > 0 {
			w.left /= float64(rest)
			left += w.share
		}
	}
	each := float64(known) / all
	rest := 1 / all // nobody is left
	if left > 0 {
		rest = float64(max(known-p.known.of(modest), 1)) / left
	}
	for i := range p.workflows {
		w := &p.workflows[i]
		w.each *= each
		w.left *= rest
	}
}

// due is how much an equal share is for c, 1 on average: of all that there is, and of what
// modest clients leave.
func (p *Pool) due(c *Client) (all, left float64) {
	for carries := c.carries | c.carried; carries != 0; carries &= carries - 1 {
		w := &p.workflows[bits.TrailingZeros64(carries)]
		all, left = all+w.each, left+w.left
	}
	if all == 0 {
		return 1, 1
	}
	return all, left
}
