package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spillgate/spillgate/internal/demo/stage"
)

// Run is one of the two runs of an act that is played on a process of its own: without control, and with it.
type Run struct {
	Name    string  `json:"name"` // "plain" first
	Running bool    `json:"running"`
	Elapsed float64 `json:"elapsed"`
	// Course is that of the load that keeps to its rate.
	Course
	// Services holds the last report of the process.
	Services []stage.Report `json:"services"`
}

func newRun(name string) Run {
	return Run{Name: name, Running: true, Course: newCourse(), Services: []stage.Report{}}
}

func (r *Run) run() *Run { return r }

// During returns what became of the load in a step, and false before that is over.
func (r *Run) During(step int) (stage.StepStats, bool) {
	if len(r.Steps) > step {
		return r.Steps[step], true
	}
	return stage.StepStats{}, false
}

// take adds what the load or the process tells of a run of that length, in seconds.
func (r *Run) take(l stage.Line, length float64) {
	switch {
	case l.Service != nil:
		r.Services = replace(r.Services, *l.Service)
	case l.Progress != nil:
		r.Elapsed = max(r.Elapsed, min(l.Progress.Elapsed, length))
	}
	r.Course.take(l, "")
}

// embeds is a pointer to a struct that embeds a Run.
type embeds[T any] interface {
	*T
	run() *Run
}

// running returns the run that is played, nil if none is.
func running[T any, P embeds[T]](runs []T) P {
	for i := range runs {
		if P(&runs[i]).run().Running {
			return &runs[i]
		}
	}
	return nil
}

// complete reports whether there are two runs with their outcomes, each of so many steps.
func complete[T any, P embeds[T]](runs []T, steps int) bool {
	for i := range runs {
		if o := P(&runs[i]).run().Outcome; o == nil || len(o.Steps) != steps {
			return false
		}
	}
	return len(runs) == 2
}

// clone returns runs to which more may be added beside the old ones.
func clone[T any, P embeds[T]](runs []T) []T {
	out := slices.Clone(runs)
	for i := range out {
		r := P(&out[i]).run()
		r.Points, r.Services = slices.Clip(r.Points), slices.Clone(r.Services)
	}
	return out
}

// invalid returns why runs of an act do not count.
func invalid[T any, P embeds[T]](act string, runs []T) (why []string) {
	for i := range runs {
		if r := P(&runs[i]).run(); r.Outcome != nil && !r.Outcome.Valid {
			why = append(why, fmt.Sprintf("%s, %s: %s", act, r.Name, strings.Join(r.Outcome.Invalid, ", ")))
		}
	}
	return why
}

// alone plays a load on a process of its own, which is called name, and passes on what both tell.
func (d *director) alone(ctx context.Context, c crew, name string, part stage.Part, load stage.Load, on func(stage.Line)) error {
	child, err := c.start(ctx, name, part, on)
	if err != nil {
		return fmt.Errorf("demo: starting the %s: %w", name, err)
	}
	s := &services{}
	s.children, s.entry = append(s.children, child), child.Addr()
	defer s.stop()
	load.Target, load.Objective, load.Timeout, load.Seed = s.entry, d.cfg.Plan.SLO, d.cfg.Plan.Timeout, d.cfg.Seed
	return c.run(ctx, s, load, func(l stage.Line) {
		on(l)
		d.update(func(*State) {})
	})
}
