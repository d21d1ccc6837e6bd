package culprit

import (
	"math"

	"github.com/spillgate/spillgate/internal/mono"
)

// past remembers what recent had summed up at some earlier samples, so that a task is blamed for no loss from before it
// began: where nothing else comes, a loss fades from recent only with time, and the next task, whatever it does, would inherit it.
type past struct {
	marks []mark  // at most mostMarks, the oldest first
	age   float64 // windows since the first sample
}

const (
	marksPerWindow = 8                  // a loss from less than an eighth of a window before a task is taken for one since
	mostMarks      = 4 * marksPerWindow // after four windows e^-4, 2 %, is left of a loss
)

// mark is what recent had summed up at a sample.
type mark struct {
	at    mono.Time
	age   float64
	looks float64
	lost  []float64 // by resource
}

// add enters a sample that came so many windows after the one before.
func (p *past) add(at mono.Time, windows float64, w *recent) {
	p.age += windows
	if n := len(p.marks); n > 0 && p.age-p.marks[n-1].age < 1.0/marksPerWindow {
		return
	}
	var free []float64
	if len(p.marks) == mostMarks {
		free = p.marks[0].lost[:0]
		p.marks = p.marks[:copy(p.marks, p.marks[1:])]
	}
	p.marks = append(p.marks, mark{at: at, age: p.age, looks: w.looks, lost: append(free, w.lost...)})
}

// before returns the last mark before an instant, nil if none is as old.
func (p *past) before(at mono.Time) *mark {
	for i := len(p.marks) - 1; i >= 0; i-- {
		if p.marks[i].at < at {
			return &p.marks[i]
		}
	}
	return nil
}

// lostSince returns how many foreground tasks have lost their time to resource r in the mean of the last samples, or of those since
// an instant, if that is less.
func (w *recent) lostSince(r int, at mono.Time) float64 {
	lost, looks := w.lost[r], w.looks
	all := ratio(lost, looks)
	if m := w.past.before(at); m != nil {
		left := math.Exp(m.age - w.past.age)
		looks -= left * m.looks
		if r < len(m.lost) {
			lost -= left * m.lost[r]
		}
	}
	const one = 0.5 // of a sample, but for what rounding leaves
	if looks < one {
		return 0
	}
	return min(max(lost, 0)/looks, all)
}

func (p *past) visit(c *codec) {
	c.float(&p.age)
	p.marks = list(c, p.marks, mostMarks, func(m *mark) {
		whole(c, &m.at)
		c.float(&m.age)
		c.float(&m.looks)
		m.lost = list(c, m.lost, MaxResources, c.float)
	})
}
