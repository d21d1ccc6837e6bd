package demo

import "github.com/spillgate/spillgate/internal/demo/stage"

// Course is what becomes of one of several loads that are played at once.
type Course struct {
	InFlight int           `json:"in_flight"`
	Points   []stage.Point `json:"points"`
	Totals   stage.Totals  `json:"totals"`
	// Steps are those that are over.
	Steps []stage.StepStats `json:"steps"`
	// Outcome is the result, once the load is over.
	Outcome *stage.Outcome `json:"outcome,omitempty"`
}

func newCourse() Course {
	return Course{
		Points: []stage.Point{}, Steps: []stage.StepStats{},
		Totals: stage.Totals{Shed: map[string]uint64{}, Unsent: map[string]uint64{}},
	}
}

// Last returns the newest point, or a zero one.
func (c *Course) Last() stage.Point {
	if len(c.Points) == 0 {
		return stage.Point{}
	}
	return c.Points[len(c.Points)-1]
}

// take adds what is told of the load of that name.
func (c *Course) take(l stage.Line, name string) {
	switch {
	case l.Progress != nil && l.Progress.Tenant == name:
		c.Points = append(c.Points, l.Progress.New...)
		c.InFlight, c.Totals = l.Progress.InFlight, l.Progress.Totals
		c.Steps = append([]stage.StepStats{}, l.Progress.Over...)
	case l.Outcome != nil && l.Outcome.Tenant == name:
		c.Outcome, c.Totals, c.Steps, c.InFlight = l.Outcome, l.Outcome.Totals, l.Outcome.Steps, 0
	}
}

// stepAt returns the index of the step that a time falls into.
func stepAt(steps []StepState, elapsed float64) int {
	for i, step := range steps {
		if elapsed < step.To {
			return i
		}
	}
	return len(steps) - 1
}
