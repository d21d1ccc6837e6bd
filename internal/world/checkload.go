package world

import (
	"fmt"

	"github.com/spillgate/spillgate/internal/work"
)

func (c *checker) group(path string, g *Group) {
	c.integer(path+".clients", g.Clients, 0, MaxClients)
	c.integer(path+".connections", g.Connections, 0, MaxClients)
	if g.Kind > Minting {
		c.wrong(path+".kind", fmt.Sprintf("kind %d", g.Kind), "credits, plain, greedy or minting")
	}
	if len(g.Ask) == 0 {
		c.wrong(path+".ask", "", "the method that the clients ask for")
	}
	c.entries(path+".ask", len(g.Ask))
	bounded := len(g.Ask) == 0
	for i, a := range g.Ask {
		at := fmt.Sprintf("%s.ask[%d]", path, i)
		n := c.target(at, a.Target)
		// A method that is not there is one mistake, not two.
		bounded = bounded || n == nil || n.bounded
		c.number(at+".weight", a.Weight, 1e9, false)
	}
	c.load(path+".load", &g.Load, bounded)
	c.duration(path+".arrive", g.Arrive, 0)
	c.duration(path+".churn.stay", g.Churn.Stay, 0)
	c.duration(path+".churn.away", g.Churn.Away, 0)
	if (g.Churn.Stay > 0) != (g.Churn.Away > 0) {
		c.wrong(path+".churn", fmt.Sprintf("%v and %v", g.Churn.Stay, g.Churn.Away), "both times above 0, or none")
	}
	if g.Deadline > 0 {
		c.duration(path+".deadline", g.Deadline, 0)
	}
	c.duration(path+".give_up", g.GiveUp, 0)
	c.integer(path+".cycle", g.Cycle, 0, MaxArrivals)
	c.retry(path+".retry", &g.Retry)
	if len(g.Workflow) > MaxName {
		c.wrong(path+".workflow", fmt.Sprintf("%d bytes", len(g.Workflow)), fmt.Sprintf("at most %d", MaxName))
	}
	if g.Class >= work.NumClasses {
		c.wrong(path+".class", fmt.Sprintf("class %d", g.Class), "default or interactive")
	}
	c.integer(path+".priority", int(g.Priority), 0, int(work.MaxPriority))
	c.number(path+".share", g.Share, 1e6, false)
}

func (c *checker) retry(path string, r *Retry) {
	const most = 100
	c.integer(path+".attempts", r.Attempts, 0, most)
	c.duration(path+".backoff", r.Backoff, 0)
	c.number(path+".budget", r.Budget, most, false)
	if r.Attempts < 2 && (r.Backoff != 0 || r.Stubborn || r.Budget != 0) {
		value := ""
		if r.Attempts != 0 {
			value = fmt.Sprint(r.Attempts)
		}
		c.wrong(path+".attempts", value, "2 or more, for a retry needs a second attempt")
	}
}

// load checks l; bounded says that something limits the capacity for what is asked.
func (c *checker) load(path string, l *Load, bounded bool) {
	set := 0
	for _, is := range [...]bool{len(l.Steps) > 0, l.Users != 0, len(l.Arrivals) > 0} {
		if is {
			set++
		}
	}
	switch set {
	case 0:
		c.wrong(path, "", "one of rate, steps, users and arrivals")
	case 1:
	default:
		c.wrong(path, fmt.Sprintf("%d of rate or steps, users and arrivals", set), "one of them")
	}
	c.entries(path+".steps", len(l.Steps))
	for i := range l.Steps {
		c.rate(fmt.Sprintf("%s.steps[%d]", path, i), l.Steps, i, bounded)
	}
	c.integer(path+".users", l.Users, 0, MaxClients)
	c.duration(path+".think", l.Think, 0)
	if l.Think != 0 && l.Users == 0 {
		c.wrong(path+".think", l.Think.String(), "users beside it: they are what thinks")
	}
	c.arrivals(path+".arrivals", l)
}

// multiples checks the rates that are multiples of the capacity, which only a world
// without other mistakes has.
func (c *checker) multiples() {
	w := c.world.WithDefaults()
	for i := range w.Clients {
		for k, r := range w.Clients[i].Load.Steps {
			if r.Times == 0 {
				continue
			}
			if rate := r.Times * w.Capacity(i); rate > MaxRate {
				c.wrong(fmt.Sprintf("clients[%d].load.steps[%d].rate", i, k), fmt.Sprintf("%gx, or %.6g/s", r.Times, rate), fmt.Sprintf("at most %d/s", int(MaxRate)))
			}
		}
	}
}

func (c *checker) rate(path string, steps []Rate, i int, bounded bool) {
	r := &steps[i]
	c.number(path+".rate", r.PerSecond, MaxRate, false)
	if c.number(path+".rate", r.Times, MaxTimes, false) && r.Times > 0 {
		switch {
		case r.PerSecond > 0:
			c.wrong(path+".rate", "requests per second and a multiple of the capacity", "one of them")
		case !bounded:
			c.wrong(path+".rate", fmt.Sprintf("%gx", r.Times),
				"a rate such as 200/s: what the group asks for has no capacity, for no service has workers, locks, a host or contention")
		}
	}
	switch right := c.instant(path+".at", r.At); {
	case !right:
	case i == 0 && r.At != 0:
		c.wrong(path+".at", r.At.String(), "0s, for the first step")
	case i > 0 && r.At <= steps[i-1].At:
		c.wrong(path+".at", r.At.String(), fmt.Sprintf("later than the step before, %v", steps[i-1].At))
	}
	switch {
	case r.For == 0 && r.Every == 0:
	case i == 0:
		c.wrong(path, "a burst", "a rate without for and every in the first step, which holds between bursts")
	default:
		if c.duration(path+".for", r.For, 1) {
			c.duration(path+".every", r.Every, max(r.For, MinEvery))
		}
	}
}

func (c *checker) arrivals(path string, l *Load) {
	if n := len(l.Arrivals); n > MaxArrivals {
		c.wrong(path, fmt.Sprintf("%d instants", n), fmt.Sprintf("at most %d", MaxArrivals))
		return
	}
	for i, at := range l.Arrivals {
		if i > 0 && at < l.Arrivals[i-1] || at < 0 {
			c.wrong(fmt.Sprintf("%s[%d]", path, i), at.String(), "instants from 0s on, ascending")
			return // what follows is likely to be in another order, too
		}
	}
	if n := len(l.Arrivals); n > 0 && l.Arrivals[n-1] == 0 {
		c.wrong(path, "a trace that takes no time", "one whose last instant is after 0s")
	}
}
