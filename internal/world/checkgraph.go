package world

import (
	"fmt"
	"slices"
	"strings"
)

// String returns the target as files write it: service.method.
func (t Target) String() string {
	if t.Method == "" {
		return t.Service
	}
	return t.Service + "." + t.Method
}

// node is a method in the call graph.
type node struct {
	service *Service
	method  *Method
	path    string
	state   visit
	// calls is how many calls the method leads to, at most MaxCalls+1; bounded
	// whether something limits how many requests a second it can serve.
	calls   int
	bounded bool
}

// visit is how far a search through the graph has come at a node.
type visit uint8

const (
	unseen visit = iota
	open         // on the way from the root of the search
	closed
)

// graph checks that calls lead to methods of other services, never back, and not to
// too many.
func (c *checker) graph() {
	for i := range c.world.Services {
		s := &c.world.Services[i]
		for k := range s.Methods {
			at := Target{s.Name, s.Methods[k].Name}
			if n := c.methods[at]; n.method == &s.Methods[k] {
				c.visit(at, n, nil)
			}
		}
	}
}

// visit walks what n calls, way being the targets that lead to it.
func (c *checker) visit(at Target, n *node, way []Target) {
	if n.state != unseen {
		return
	}
	n.state = open
	way = append(way, at)
	n.bounded = n.service.Workers > 0 && !n.method.Idle || c.costs(n) || n.contends() || n.locks()
	for i := range n.method.Steps {
		for k, to := range n.method.Steps[i].Call {
			path := fmt.Sprintf("%s.steps[%d].call[%d]", n.path, i, k)
			called := c.target(path, to)
			switch {
			case called == nil:
				continue
			case called.service == n.service:
				c.wrong(path, to.String(), "a method of another service")
				continue
			case called.state == open:
				c.wrong(path, to.String(), "calls that do not lead back: "+loop(way, to))
				continue
			}
			c.visit(to, called, way)
			n.calls = min(n.calls+1+called.calls, MaxCalls+1)
			n.bounded = n.bounded || called.bounded
		}
	}
	n.state = closed
	if n.calls > MaxCalls && len(way) == 1 {
		c.wrong(n.path, fmt.Sprintf("more than %d calls for one request, with those of its calls", MaxCalls), fmt.Sprintf("at most %d", MaxCalls))
	}
}

// costs reports whether a request takes time of a host: of what computes there, or of
// its messages.
func (c *checker) costs(n *node) bool {
	for i := range c.world.Hosts {
		if h := &c.world.Hosts[i]; h.Name == n.service.Host && h.Message >= 0 {
			return true
		}
	}
	return n.service.Host != "" && slices.ContainsFunc(n.method.Steps, func(s Step) bool { return s.Compute != nil })
}

// contends reports whether what the method waits for is done for so many at a time at most.
func (n *node) contends() bool {
	return n.service.Contention != Contention{} && slices.ContainsFunc(n.method.Steps, func(s Step) bool { return s.Wait != nil })
}

// locks reports whether the method holds a lock.
func (n *node) locks() bool {
	return slices.ContainsFunc(n.method.Steps, func(s Step) bool { return s.Lock != "" })
}

// loop writes the part of way that begins at to, which it ends with again.
func loop(way []Target, to Target) string {
	var names []string
	for i := range way {
		if way[i] == to || len(names) > 0 {
			names = append(names, way[i].String())
		}
	}
	return cutList(append(names, to.String()), " → ")
}

// cutList joins names, the middle ones left out where there are many.
func cutList(names []string, by string) string {
	if len(names) > 8 {
		names = append(append(names[:4:4], "…"), names[len(names)-3:]...)
	}
	return strings.Join(names, by)
}

// target returns the method that is called at path, nil if there is none.
func (c *checker) target(path string, to Target) *node {
	if n := c.methods[to]; n != nil {
		return n
	}
	s := c.service(to.Service)
	if s == nil {
		c.unknown(path, to.String(), "a method of one of the services", c.serviceNames())
		return nil
	}
	var known []string
	for i := range s.Methods {
		known = append(known, s.Name+"."+s.Methods[i].Name)
	}
	c.unknown(path, to.String(), "a method of the service", known)
	return nil
}
