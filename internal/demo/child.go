package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/harness/proc"
)

// crew starts child processes and places them on processors: the load on the
// first, the services on the others.
type crew struct {
	command               []string
	loadCPUs, serviceCPUs []int
}

// newCrew looks at the processors. With a single one nothing is pinned.
func newCrew(command []string) (crew, error) {
	c := crew{command: command}
	cpus, err := proc.CPUs()
	if err != nil {
		return c, err
	}
	if len(cpus) > 1 {
		c.loadCPUs, c.serviceCPUs = cpus[:1], cpus[1:]
	}
	return c, nil
}

// gogc is the collector's setting of the services. At the default, collection
// alone can look like an overload on one processor. The generator collects nothing
// until it has loadMemory, which no act needs: see package openloop.
const (
	gogc       = "400"
	loadMemory = "1GiB"
)

// The parts go before whatever else the machine does, where that is permitted:
// what else it does is not to be measured. The generator goes before all of it
// (proc.Spec.RealTime), or else first, because a late one makes the run invalid.
const (
	serviceNice = -5
	loadNice    = -10
)

// start starts a child that plays p; every line it writes is given to on.
func (c crew) start(ctx context.Context, name string, p stage.Part, on func(stage.Line)) (*proc.Child, error) {
	arg, err := p.Arg()
	if err != nil {
		return nil, err
	}
	spec := c.spec(name, p.Load != nil)
	spec.Args, spec.Output = append(append([]string(nil), c.command...), arg), &lines{on: on}
	return proc.Start(ctx, spec)
}

// spec says on which processors a child runs, and before what else: the load, or a service.
func (c crew) spec(name string, load bool) proc.Spec {
	if !load {
		return proc.Spec{Name: name, CPUs: c.serviceCPUs, Nice: serviceNice, GOGC: gogc}
	}
	return proc.Spec{
		Name: name, CPUs: c.loadCPUs, Nice: loadNice, RealTime: true, GOGC: "off", Env: []string{"GOMEMLIMIT=" + loadMemory},
		ReadyTimeout: -1, // it only runs
	}
}

// lines cuts what a child writes into lines and decodes those of JSON. What is
// not JSON is kept by proc, for errors.
type lines struct {
	on   func(stage.Line)
	mu   sync.Mutex
	part []byte
}

// longest bounds a line, in bytes.
const longest = 4 << 20

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; ; {
		piece, after, whole := bytes.Cut(rest, []byte("\n"))
		if len(l.part)+len(piece) <= longest {
			l.part = append(l.part, piece...)
		}
		if !whole {
			return len(p), nil
		}
		var line stage.Line
		if bytes.HasPrefix(l.part, []byte("{")) && json.Unmarshal(l.part, &line) == nil {
			l.on(line)
		}
		l.part, rest = l.part[:0], after
	}
}

// services are the three services of an act.
type services struct {
	entry    string // address
	children []*proc.Child
}

// grace is how long a service may take to end when it is asked to.
const grace = 2 * time.Second

// stop ends the services and returns when they are gone.
func (s *services) stop() {
	var all sync.WaitGroup
	for _, child := range s.children {
		all.Go(func() { child.Stop(grace) })
	}
	all.Wait()
}

// kind is how the services of an act are protected.
type kind uint8

const (
	plainServices  kind = iota
	gatedServices       // a gate each
	sharedServices      // a gate each that tells tenants apart
)

// open starts the services, from the last to the first.
func (c crew) open(ctx context.Context, p Plan, seed uint64, k kind, on func(*stage.Report)) (*services, error) {
	s := &services{}
	next := ""
	for _, name := range []string{"store", "middle", "entry"} {
		part := stage.Service{Name: name, Next: next, Gated: k != plainServices, Tenants: k == sharedServices, Objective: p.SLO}
		if k == sharedServices {
			part.Budget = p.Timeout
		}
		if next == "" {
			part.Workers, part.Mean, part.Seed = p.Workers, p.Mean, seed
		}
		child, err := c.start(ctx, name, stage.Part{Service: &part}, func(l stage.Line) {
			if l.Service != nil {
				on(l.Service)
			}
		})
		if err != nil {
			s.stop()
			return nil, fmt.Errorf("demo: starting the services: %w", err)
		}
		s.children = append(s.children, child)
		next = child.Addr()
	}
	s.entry = next
	return s, nil
}

// died returns an error if a service ended by itself.
func (s *services) died() error {
	for _, child := range s.children {
		select {
		case <-child.Exited():
			if err := child.Wait(); err != nil {
				return err
			}
			return fmt.Errorf("demo: process %d ended in the middle of the demo", child.Pid())
		default:
		}
	}
	return nil
}
