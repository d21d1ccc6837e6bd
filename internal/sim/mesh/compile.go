package mesh

import (
	"cmp"
	"strconv"
)

// program is all workflows flattened, so that running one follows indexes and
// looks up no names.
type program struct {
	stages []stage
	steps  []step
	calls  []callee
	roots  []callee // per workflow
}

// stage is steps[first:last] at a service.
type stage struct {
	service     int32
	first, last int32
	kind        string
}

// Kind is what a request does there, for gates.
func (s *stage) Kind() string { return s.kind }

type stepKind uint8

const (
	stepWork stepKind = iota
	stepHold
	stepFree
	stepCalls
	stepWait
	stepCompute
	stepBegin
)

type step struct {
	kind     stepKind
	shape    Shape
	parallel bool
	resource int32
	mean     float64 // ns
	// first and last bound the step's calls.
	first, last int32
	draw        drawing // of stepWait and stepCompute
}

// timed reports whether the step is time that passes, or work.
func (s *step) timed() bool { return s.kind == stepWork || s.kind == stepWait || s.kind == stepCompute }

// callee is a call, or several like ones.
type callee struct {
	stage     int32
	service   int32
	slot      int32 // of the service among those that the caller calls
	least     int32
	most      int32
	skip      float64
	mandatory bool // always exactly one
}

// compile flattens the workflows. down gets, per service, the services that it
// calls; a callee's slot is an index into that.
func compile(cfg *Config) (p program, down [][]int32) {
	number := map[string]int32{}
	for i, s := range cfg.Services {
		number[s.Name] = int32(i)
	}
	down = make([][]int32, len(cfg.Services))
	for i := range cfg.Workflows {
		root := &cfg.Workflows[i].Root
		s := number[root.Service]
		p.roots = append(p.roots, callee{stage: p.add(cfg, number, down, root), service: s, least: 1, most: 1, mandatory: true})
	}
	return p, down
}

func (p *program) add(cfg *Config, number map[string]int32, down [][]int32, from *Stage) int32 {
	service := number[from.Service]
	id := int32(len(p.stages))
	first := int32(len(p.steps))
	p.stages = append(p.stages, stage{service, first, first + int32(len(from.Steps)), cmp.Or(from.kind, strconv.Itoa(int(id)))})
	p.steps = append(p.steps, make([]step, len(from.Steps))...)
	for i := range from.Steps {
		s := &from.Steps[i]
		to := step{parallel: s.Parallel, shape: s.Work.Shape, mean: float64(s.Work.Mean)}
		if s.Resource != "" {
			to.resource = int32(cfg.Services[service].resource(s.Resource))
		}
		switch {
		case s.Hold:
			to.kind = stepHold
		case s.Free:
			to.kind = stepFree
		case s.begin:
			to.kind = stepBegin
		case s.Wait != nil:
			to.kind, to.draw = stepWait, newDrawing(s.Wait)
			to.mean = to.draw.mean
		case s.Compute != nil:
			to.kind, to.draw = stepCompute, newDrawing(s.Compute)
			to.mean = to.draw.mean
		case len(s.Calls) > 0:
			to.kind = stepCalls
			to.first = int32(len(p.calls))
			to.last = to.first + int32(len(s.Calls))
			p.calls = append(p.calls, make([]callee, len(s.Calls))...)
			for k := range s.Calls {
				c := &s.Calls[k]
				least := max(c.Min, 1)
				if c.Min == 0 && c.Max > 0 {
					least = 0
				}
				callee := callee{service: number[c.Stage.Service], least: int32(least), most: int32(max(c.Max, least)), skip: c.Skip}
				callee.mandatory = callee.least == 1 && callee.most == 1 && c.Skip == 0
				callee.slot = slotOf(&down[service], callee.service)
				callee.stage = p.add(cfg, number, down, &c.Stage)
				p.calls[to.first+int32(k)] = callee
			}
		}
		p.steps[first+int32(i)] = to
	}
	return id
}

// slotOf returns the place of a service in list, and puts it there if needed.
func slotOf(list *[]int32, service int32) int32 {
	for i, s := range *list {
		if s == service {
			return int32(i)
		}
	}
	*list = append(*list, service)
	return int32(len(*list) - 1)
}
