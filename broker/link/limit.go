package link

import (
	"fmt"
	"time"
)

// Limits are the fields of an edge's limits: their names in configuration files, where
// they are, and what is allowed. A field of 0 takes its default.
type Limits struct {
	numbers   []number
	durations []duration
}

type number struct {
	name                   string
	at                     *int
	otherwise, least, most int
	unit                   string
}

type duration struct {
	name            string
	at              *time.Duration
	otherwise, most time.Duration
}

// Number adds a field that counts something, in unit, from least to most, and otherwise if it is 0.
func (l *Limits) Number(name string, at *int, otherwise, least, most int, unit string) {
	l.numbers = append(l.numbers, number{name, at, otherwise, least, most, unit})
}

// Duration adds a field of time, up to most, and otherwise if it is 0.
func (l *Limits) Duration(name string, at *time.Duration, otherwise, most time.Duration) {
	l.durations = append(l.durations, duration{name, at, otherwise, most})
}

// Fill puts defaults where fields are 0.
func (l Limits) Fill() {
	for _, n := range l.numbers {
		if *n.at == 0 {
			*n.at = n.otherwise
		}
	}
	for _, d := range l.durations {
		if *d.at == 0 {
			*d.at = d.otherwise
		}
	}
}

// Check calls wrong for every field that is out of its range.
func (l Limits) Check(wrong func(field, value, want string)) {
	for _, n := range l.numbers {
		if v := *n.at; v != 0 && (v < n.least || v > n.most) {
			wrong(n.name, fmt.Sprint(v), fmt.Sprintf("%d to %d %s, or 0 for the default", n.least, n.most, n.unit))
		}
	}
	for _, d := range l.durations {
		if v := *d.at; v < 0 || v > d.most {
			wrong(d.name, v.String(), fmt.Sprintf("above 0 and at most %gh, or 0 for the default", d.most.Hours()))
		}
	}
}
