package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (c *checker) services() {
	w := c.world
	if len(w.Services) == 0 {
		c.wrong("services", "", "one service or more")
	}
	c.entries("services", len(w.Services))
	c.methods = map[Target]*node{}
	seen := map[string]string{}
	processes := 0
	for i := range w.Services {
		s, path := &w.Services[i], fmt.Sprintf("services[%d]", i)
		c.name(path, s.Name, seen)
		c.undotted(path, s.Name)
		if s.Host != "" && !c.host(s.Host) {
			var known []string
			for _, h := range w.Hosts {
				known = append(known, h.Name)
			}
			c.unknown(path+".host", s.Host, "a host", known)
		}
		if c.integer(path+".replicas", s.Replicas, 0, MaxProcesses) {
			processes += max(s.Replicas, 1)
		}
		c.integer(path+".threads", s.Threads, 0, MaxProcessors)
		c.integer(path+".workers", s.Workers, 0, MaxWorkers)
		if c.duration(path+".message", s.Message, 0) && s.Message > 0 && s.Workers == 0 {
			c.wrong(path+".message", s.Message.String(), "workers beside it: they handle the messages")
		}
		if s.Async && s.Workers == 0 {
			c.wrong(path+".async", "true", "workers beside it: they are what is given back")
		}
		c.locks(path+".locks", s.Locks)
		c.number(path+".contention.each", s.Contention.Each, 1, false)
		c.number(path+".contention.pair", s.Contention.Pair, 1, false)
		if s.Objective != 0 {
			c.duration(path+".objective", s.Objective, time.Microsecond)
		}
		c.serviceMethods(path, s)
	}
	if processes > MaxProcesses {
		c.wrong("services", fmt.Sprintf("%d processes", processes), fmt.Sprintf("at most %d", MaxProcesses))
	}
}

func (c *checker) locks(path string, locks []Lock) {
	c.entries(path, len(locks))
	seen := map[string]string{}
	for i, l := range locks {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.name(at, l.Name, seen)
		if l.Name == workersName {
			c.wrong(at+".name", strconv.Quote(l.Name), "another name, for it is that of the workers")
		}
		c.integer(at+".permits", l.Permits, 0, MaxWorkers)
	}
}

// workersName is what the workers of a service are called among its locks.
const workersName = "workers"

func (c *checker) serviceMethods(path string, s *Service) {
	if len(s.Methods) == 0 {
		c.wrong(path+".methods", "", "one method or more")
	}
	c.entries(path+".methods", len(s.Methods))
	seen := map[string]string{}
	for i := range s.Methods {
		m, path := &s.Methods[i], fmt.Sprintf("%s.methods[%d]", path, i)
		c.name(path, m.Name, seen)
		c.undotted(path, m.Name)
		if len(m.Steps) == 0 {
			c.wrong(path+".steps", "", "one step or more")
		}
		c.entries(path+".steps", len(m.Steps))
		for k := range m.Steps {
			c.step(fmt.Sprintf("%s.steps[%d]", path, k), &m.Steps[k], s)
		}
		if a := m.Answer; a.Least < 0 || a.Most < a.Least || a.Most > MaxAnswer {
			c.wrong(path+".answer", fmt.Sprintf("%d to %d bytes", a.Least, a.Most), fmt.Sprintf("0 to %d, the least first", MaxAnswer))
		}
		if at := (Target{s.Name, m.Name}); c.methods[at] == nil {
			c.methods[at] = &node{service: s, method: m, path: path}
		}
	}
}

// undotted checks a name that is a part of a target.
func (c *checker) undotted(path, name string) {
	if strings.Contains(name, ".") {
		c.wrong(path+".name", strconv.Quote(cut(name)), "a name without a dot, which separates service and method")
	}
}

func (c *checker) step(path string, s *Step, of *Service) {
	set := 0
	for _, is := range [...]bool{s.Wait != nil, s.Compute != nil, len(s.Call) > 0} {
		if is {
			set++
		}
	}
	if set != 1 {
		c.wrong(path, fmt.Sprintf("%d of wait, compute and call", set), "one of them")
	}
	if s.Wait != nil {
		c.draw(path+".wait", s.Wait)
	}
	if s.Compute != nil {
		c.draw(path+".compute", s.Compute)
	}
	c.entries(path+".call", len(s.Call))
	switch {
	case s.Lock == "":
	case len(s.Call) > 0:
		c.wrong(path+".lock", strconv.Quote(cut(s.Lock)), "none: a lock is held for a wait or compute")
	case !slices.ContainsFunc(of.Locks, func(l Lock) bool { return l.Name == s.Lock }):
		var known []string
		for _, l := range of.Locks {
			known = append(known, l.Name)
		}
		c.unknown(path+".lock", s.Lock, "a lock of the service", known)
	}
}

func (c *checker) draw(path string, d *Draw) {
	if d.Shape == Weighted {
		c.points(path, d)
		return
	}
	if d.Shape > Weighted {
		c.wrong(path, fmt.Sprintf("shape %d", d.Shape), "constant, exponential, pareto, lognormal or points")
		return
	}
	c.duration(path, d.Mean, time.Nanosecond)
	switch d.Shape {
	case Pareto:
		if !(d.Param > 1 && d.Param <= 100) {
			c.wrong(path, fmt.Sprintf("pareto with a tail index of %g", d.Param), "above 1, at most 100")
		}
	case Lognormal:
		if !(d.Param > 0 && d.Param <= 5) {
			c.wrong(path, fmt.Sprintf("lognormal with a standard deviation of %g", d.Param), "above 0, at most 5")
		}
	default:
		if d.Param != 0 {
			c.wrong(path, fmt.Sprintf("parameter %g", d.Param), "none for this shape")
		}
	}
	if len(d.Points) > 0 || d.Spread {
		c.wrong(path, "points beside a shape of another kind", "one of them")
	}
}

func (c *checker) points(path string, d *Draw) {
	if len(d.Points) == 0 {
		c.wrong(path+".points", "", "one point or more")
		return
	}
	if len(d.Points) > MaxPoints {
		c.wrong(path+".points", fmt.Sprintf("%d points", len(d.Points)), fmt.Sprintf("at most %d", MaxPoints))
		return
	}
	right, some := true, false
	for i, p := range d.Points {
		at := fmt.Sprintf("%s.points[%d]", path, i)
		right = c.duration(at, p.Value, 0) && right
		right = c.number(at, p.Weight, 1e15, false) && right
		some = some || p.Value > 0 && p.Weight > 0
	}
	if right && !some {
		c.wrong(path+".points", "no time above 0 with a weight above 0", "one or more")
	}
}

func (c *checker) host(name string) bool {
	for i := range c.world.Hosts {
		if c.world.Hosts[i].Name == name {
			return true
		}
	}
	return false
}

func (c *checker) service(name string) *Service {
	for i := range c.world.Services {
		if c.world.Services[i].Name == name {
			return &c.world.Services[i]
		}
	}
	return nil
}

func (c *checker) serviceNames() []string {
	var all []string
	for i := range c.world.Services {
		all = append(all, c.world.Services[i].Name)
	}
	return all
}
