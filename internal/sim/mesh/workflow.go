package mesh

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// Workflow is a way through the call graph, as a tree of stages.
type Workflow struct {
	// Name labels results; it is what policies call the workflow. Required,
	// unique.
	Name string
	// Root is the stage at the entry service.
	Root Stage
	// Deadline is every request's budget.
	Deadline Deadline
	// Patience is how long clients wait for the whole request until they give up,
	// the mean of an exponential time. Unlike Deadline it is told nobody. It takes
	// Control.GiveUp. Default: for ever.
	Patience time.Duration
	// Class is that of all calls of the workflow. Default Learned.
	Class Kind
}

// Kind says how calls come by their class.
type Kind uint8

const (
	// Learned leaves it to the classifiers of Control.Share. Without, all calls are
	// of the class work.Default.
	Learned Kind = iota
	// Interactive and NonInteractive are the classes work.Interactive and
	// work.Default, whatever a classifier thinks.
	Interactive
	// NonInteractive is work.Default.
	NonInteractive
)

// Deadline says how long an answer is of use, end to end, from the intended
// send time. At most one of the fields is set; none means for ever.
type Deadline struct {
	// After is the budget itself.
	After time.Duration
	// Multiple, instead of After, is the budget in multiples of the time that
	// the very request takes alone in an idle world.
	Multiple float64
	// Typical, instead of both, is the budget in multiples of the time that
	// requests of the workflow take alone on average.
	Typical float64
}

// Stage is one service's part in a workflow: steps, one after another.
type Stage struct {
	// Service names the service. A random, or otherwise picked, process of it
	// executes the stage.
	Service string
	Steps   []Step
	// kind is what a request does there, as gates know it. Another one for each stage if empty.
	kind string
}

// Step is one of: Work, Hold, Free, Calls, Wait, or Compute.
type Step struct {
	// Work occupies a unit of Resource for so long.
	Work Time
	// Hold takes a unit of Resource and keeps it over the steps that follow,
	// until Free or the end of the stage.
	Hold bool
	// Free gives back what an earlier Hold took.
	Free bool
	// Resource names a resource of the service for the three above. Default its
	// first.
	Resource string
	// Calls are made to other services: one after another, or, with Parallel,
	// all at once. The step ends when all have answered, or at the first failure.
	Calls    []Call
	Parallel bool
	// Wait and Compute are time that passes without any resource of the service, the
	// second at the speed of the processors of its host, if it has one.
	Wait, Compute *world.Draw
	begin         bool // no step: the request takes a worker from here on
}

// Call is a call, or several like ones, to another service.
type Call struct {
	Stage Stage
	// Min and Max bound the number of calls, which is drawn evenly. Default 1
	// and Min.
	Min, Max int
	// Skip is the probability that one of them is not made, as when a cache has
	// the answer.
	Skip float64
}

// Time is a distribution of service times.
type Time struct {
	Mean  time.Duration
	Shape Shape
}

// Exp is the exponential distribution.
func Exp(mean time.Duration) Time { return Time{Mean: mean} }

// Fixed is always d.
func Fixed(d time.Duration) Time { return Time{Mean: d, Shape: ShapeFixed} }

// Work is a step of service time at the first resource.
func Work(t Time) Step { return Step{Work: t} }

// Each is a step of calls, one after another.
func Each(calls ...Call) Step { return Step{Calls: calls} }

// All is a step of calls, all at once.
func All(calls ...Call) Step { return Step{Calls: calls, Parallel: true} }

// One is a call to a service that takes the given steps there.
func One(service string, steps ...Step) Call {
	return Call{Stage: Stage{Service: service, Steps: steps}}
}

// Times returns c, made between least and most times.
func (c Call) Times(least, most int) Call {
	c.Min, c.Max = least, most
	return c
}

// check calls bad for each mistake in the stage and below.
func (s *Stage) check(workflow string, services map[string]*Service, depth int, bad func(string, ...any)) {
	svc := services[s.Service]
	if svc == nil {
		bad("workflow %q has a stage at %q, expected the name of a service", workflow, s.Service)
		return
	}
	if depth > maxDepth {
		bad("workflow %q is more than %d stages deep", workflow, maxDepth)
		return
	}
	for i := range s.Steps {
		st := &s.Steps[i]
		where := fmt.Sprintf("workflow %q, service %q, step %d", workflow, s.Service, i)
		kinds := 0
		for _, is := range []bool{st.Work.Mean != 0, st.Hold, st.Free, len(st.Calls) > 0, st.Wait != nil, st.Compute != nil, st.begin} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			bad("%s is %d of Work, Hold, Free, Calls, Wait and Compute, expected exactly one", where, kinds)
		}
		if st.Work.Mean < 0 {
			bad("%s has Work of %v, expected above 0", where, st.Work.Mean)
		}
		if st.Resource != "" && svc.resource(st.Resource) < 0 {
			bad("%s names the resource %q, which the service does not have", where, st.Resource)
		}
		for k := range st.Calls {
			c := &st.Calls[k]
			if c.Min < 0 || c.Max < 0 || c.Max > 0 && c.Max < c.Min || c.Max > maxCalls || c.Min > maxCalls {
				bad("%s, call %d is made %d to %d times, expected ascending numbers up to %d", where, k, c.Min, c.Max, maxCalls)
			}
			if !(c.Skip >= 0 && c.Skip <= 1) {
				bad("%s, call %d has Skip %v, expected 0 to 1", where, k, c.Skip)
			}
			c.Stage.check(workflow, services, depth+1, bad)
		}
	}
}

const (
	// maxDepth bounds the stages from the entry to a leaf. A deeper workflow is
	// refused.
	maxDepth = 64
	// maxCalls bounds the calls of one kind in one step. More are refused.
	maxCalls = 10_000
)
