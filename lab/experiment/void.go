package experiment

import "fmt"

// When a bar of a live experiment is void:
//
//  1. Only a record of the machine voids a run: how late the generator sent, what the
//     host stole, what other processes used. What the run measured never does: a
//     contender that answers nothing is measured, not excused.
//  2. A machine that disturbs a run makes its figures worse, not better. So a bar that
//     was missed is void if a run of ours was disturbed, and a bar that was reached
//     beside a contender is void if a run of the contender was. A bar that was missed
//     although only the contender was disturbed is missed.
//  3. A void covers the bars that the disturbed run enters, and no other: a bar missed
//     elsewhere fails the experiment.
//  4. Figures of void runs and bars are printed like all others.

// Machine is what the records say of the runs that a bar was measured on: why they are
// disturbed, nothing if they are not.
type Machine struct {
	Ours, Theirs []string
}

// On states bars, of runs of which the machine's record says m, and voids those of them
// that it explains.
func (r *Result) On(m Machine, bars func()) {
	from := len(r.Bars)
	bars()
	for i := range r.Bars[from:] {
		b := &r.Bars[from+i]
		why := m.Ours
		if b.Pass {
			why = m.Theirs
		}
		if len(why) > 0 {
			b.Void = why[0]
			r.Void = append(r.Void, fmt.Sprintf("%s: %s", b.Name, why[0]))
		}
	}
}

// Error returns nil if every bar was reached on a machine that was quiet enough to say
// so, and otherwise what is wrong: what was missed before what is void.
func (r *Result) Error() error {
	if short := r.Short(); len(short) > 0 {
		besides := ""
		if len(r.Void) > 0 {
			besides = fmt.Sprintf("; besides, the machine disturbed %d of its runs or bars, the first: %s", len(r.Void), r.Void[0])
		}
		return fmt.Errorf("%d of %d bars missed, the first: %s%s", len(short), len(r.Bars), short[0], besides)
	}
	if len(r.Void) > 0 {
		return fmt.Errorf("the machine was too busy to judge, it disturbed %d of its runs or bars, the first: %s; run it when nothing else does", len(r.Void), r.Void[0])
	}
	return nil
}
