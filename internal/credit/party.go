package credit

import "math/bits"

// census counts the parties that asked for something, by standing, in the last season, which
// is a lease long, and in the running one.
type census struct {
	last, now       [standings]int32
	allLast, allNow int32 // their sums, which every request asks for
}

// all returns how many there are.
func (s *census) all() int { return int(max(s.allLast, s.allNow)) }

// join counts a party in the running season, quit takes it out of that, and retire out of
// the last one.
func (s *census) join(as standing)   { s.now[as]++; s.allNow++ }
func (s *census) quit(as standing)   { s.now[as]--; s.allNow-- }
func (s *census) retire(as standing) { s.last[as]--; s.allLast-- }

// move gives a party of the running season another standing.
func (s *census) move(from, to standing) { s.now[from]--; s.now[to]++ }

// of returns how many of them have a standing.
func (s *census) of(as standing) int { return int(max(s.last[as], s.now[as])) }

// next begins a season.
func (s *census) next() { *s = census{last: s.now, allLast: s.allNow} }

// attendance is when a party counts, and as what.
type attendance struct {
	season   uint32 // in which it was active last
	before   bool   // it was so in the one before as well
	as, was  standing
	standing standing // now
}

// attend notes a new season.
func (a *attendance) attend(season uint32, as standing) {
	a.before = a.season+1 == season
	a.was, a.as = a.as, as
	a.season = season
}

// leave calls now or last for a season in which the party no longer counts.
func (a *attendance) leave(season uint32, now, last func(as standing)) {
	switch {
	case a.season == season:
		now(a.as)
		if a.before {
			last(a.was)
		}
	case a.season+1 == season:
		last(a.as)
	}
}

// party is a unit that shares the pool with others: a peer with all its clients, which share
// its part, or a client without a known peer. So more clients gain a peer nothing. A
// client that never asked for anything has none yet, and counts as one by itself.
type party struct {
	attendance
	number           uint64 // of the peer, 0: none
	carries, carried uint64 // the workflows that it asked for in these seasons, a bit each
	issued           int32  // the windows of its clients
	clients, idle    int32  // how many there are, and have nothing and want nothing
	members          census // the clients that asked for something
	counted          uint32 // the season of members
}

// of returns the members as of a season.
func (a *party) of(season uint32) *census {
	switch {
	case a.counted == season:
	case a.counted+1 == season:
		a.members.next()
	default:
		a.members = census{}
	}
	a.counted = season
	return &a.members
}

// OnPeer notes the peer of c, a number that the driver chose, 0 if it does not know.
// It comes before OnWorkflow, OnUse and OnRequest. A peer has as much of the pool as a
// client without a known peer, however many clients it has.
func (p *Pool) OnPeer(c *Client, number uint64) {
	if !c.gone && (c.party == nil || c.party.number != number) {
		p.regroup(c, number)
	}
}

// regroup is apart so that OnPeer can be inlined.
func (p *Pool) regroup(c *Client, number uint64) {
	p.undrain(c)
	if p.forget(c); number == 0 {
		p.join(c, new(party))
		p.drainIfEmpty(c)
		return
	}
	a := p.peers[number]
	if a == nil {
		a = &party{number: number}
		p.peers[number] = a
	}
	p.join(c, a)
	p.drainIfEmpty(c)
}

// join makes c, which is in none, one of a party, as a client that did not ask for anything
// yet.
func (p *Pool) join(c *Client, a *party) {
	p.era++
	if a.clients == 0 {
		a.season = p.season - 2
	}
	c.attendance = attendance{season: p.season - 2, standing: c.standing}
	c.party = a
	if a.clients == a.idle {
		p.holding++
	}
	a.clients++
	a.issued += int32(c.window)
}

// rest counts clients of a party that want nothing any more, or are no longer so.
func (p *Pool) rest(a *party, n int32) {
	p.era++
	if a == nil {
		p.hold(n > 0, n < 0)
		return
	}
	was := a.clients > a.idle
	a.idle += n
	p.hold(was, a.clients > a.idle)
}

// hold counts the parties with a client that has a credit or wants one.
func (p *Pool) hold(was, is bool) {
	switch {
	case is && !was:
		p.holding++
	case was && !is:
		p.holding--
	}
}

// count notes that c is active.
func (p *Pool) count(c *Client) {
	if c.party == nil || c.season != p.season || c.party.season != p.season {
		p.present(c)
	}
}

// present is apart so that count can be inlined: once a season there is something to do.
func (p *Pool) present(c *Client) {
	p.era++
	if c.party == nil {
		p.OnPeer(c, 0)
	}
	if c.season != p.season {
		c.attend(p.season, c.standing)
		p.everyone.join(c.as)
		c.party.of(p.season).join(c.as)
	}
	if a := c.party; a.season != p.season {
		a.attend(p.season, a.standing)
		a.carries, a.carried = 0, a.carries
		p.parties.join(a.as)
	}
}

// rankParty gives a party a new standing.
func (p *Pool) rankParty(a *party, s standing) {
	if a.standing = s; a.season == p.season && a.as != s {
		p.censuses(a.carries, func(n *census) { n.move(a.as, s) })
		a.as = s
	}
}

// recount moves an active client to its new standing.
func (p *Pool) recount(c *Client) {
	if c.season != p.season || c.as == c.standing {
		return
	}
	for _, n := range [...]*census{&p.everyone, c.party.of(p.season)} {
		n.move(c.as, c.standing)
	}
	c.as = c.standing
}

// forget takes a client out of its party, and the party out of the pool with its last
// client. Its part goes to the others at once.
func (p *Pool) forget(c *Client) {
	p.era++
	a := c.party
	if a == nil {
		p.hold(true, false) // it was taken out of the drained
		return
	}
	m := a.of(p.season)
	c.leave(p.season,
		func(as standing) { p.everyone.quit(as); m.quit(as) },
		func(as standing) { p.everyone.retire(as); m.retire(as) })
	was := a.clients > a.idle
	a.clients--
	a.issued -= int32(c.window)
	p.hold(was, a.clients > a.idle)
	if a.clients > 0 {
		return
	}
	last := a.carried
	if a.season != p.season {
		last = a.carries
	}
	a.leave(p.season,
		func(as standing) { p.censuses(a.carries, func(n *census) { n.quit(as) }) },
		func(as standing) { p.censuses(last, func(n *census) { n.retire(as) }) })
	if a.number != 0 {
		delete(p.peers, a.number)
	}
}

// censuses calls f for each census in which a party counts that asked for some workflows.
func (p *Pool) censuses(carries uint64, f func(*census)) {
	f(&p.parties)
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
	p.era++
	p.everyone.next()
	p.parties.next()
	p.known.next()
	for i := range p.workflows {
		p.workflows[i].next()
	}
}

// Parties returns how many peers, and clients without a known peer, share the pool: those
// that asked for something of late, or have something. It is 1 at least.
func (p *Pool) Parties() int { return max(p.parties.all(), p.holding, 1) }

// active returns how many clients of a party are so.
func (p *Pool) active(a *party) int { return max(a.of(p.season).all(), int(a.clients-a.idle), 1) }

// dueOfAll is how much an equal share of all that there is is for c, 1 on average. Every
// request asks for it, and it changes when somebody comes, rests or goes.
func (p *Pool) dueOfAll(c *Client) float64 {
	if c.era != p.era {
		c.part, c.era = p.dueNow(c), p.era
	}
	return c.part
}

func (p *Pool) dueNow(c *Client) float64 {
	if c.party == nil {
		return 1
	}
	all, _ := p.worth(c.party)
	return all * float64(max(p.actives(), 1)) / float64(p.active(c.party)*p.Parties())
}

// dueOfRest is the same for what modest clients leave.
func (p *Pool) dueOfRest(c *Client) float64 {
	if c.party == nil {
		return 1
	}
	_, left := p.worth(c.party)
	n := max(p.active(c.party)-c.party.of(p.season).of(modest), 1)
	return left * float64(p.others()) / float64(n*max(p.Parties()-p.parties.of(modest), 1))
}

// sated reports whether the other clients of c's party have what is due to all of them.
func (p *Pool) sated(c *Client) bool {
	a := c.party
	if a == nil || a.clients == 1 {
		return false
	}
	_, left := p.worth(a)
	return float64(int(a.issued)-c.window) >= p.total*left/float64(max(p.Parties()-p.parties.of(modest), 1))
}
