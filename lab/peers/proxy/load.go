package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// load is how many requests arrive, in multiples of the capacity: after all the
// time, or, if before is not 0, before until two fifths of a run.
type load struct{ before, after float64 }

// String returns the load as tables and files of runs have it.
func (l load) String() string {
	after := strconv.FormatFloat(l.after, 'g', -1, 64)
	if l.before == 0 {
		return after + "x"
	}
	return strconv.FormatFloat(l.before, 'g', -1, 64) + "→" + after
}

// profile returns the arrivals per second, and where the part of the run begins
// that counts: at the step, or after the first quarter.
func (l load) profile(capacity float64, length time.Duration) (openloop.Profile, time.Duration) {
	if l.before == 0 {
		return openloop.Steady(l.after*capacity, length), length / 4
	}
	step := length * 2 / 5
	return openloop.Profile{{Rate: l.before * capacity, For: step}, {Rate: l.after * capacity, For: length - step}}, step
}

// parseLoads reads loads such as 2 or 0.4-1.4, separated by commas.
func parseLoads(text string) ([]load, error) {
	var loads []load
	var mistakes []error
	for word := range strings.SplitSeq(text, ",") {
		before, after, step := strings.Cut(word, "-")
		if !step {
			before, after = "0", word
		}
		var l load
		var err1, err2 error
		l.before, err1 = strconv.ParseFloat(before, 64)
		l.after, err2 = strconv.ParseFloat(after, 64)
		within := l.before >= 0 && l.before <= maxLoad && l.after > 0 && l.after <= maxLoad && (l.before > 0 || !step)
		if err1 != nil || err2 != nil || !within {
			mistakes = append(mistakes, fmt.Errorf("--loads %q: expected a number above 0 and at most %d, or two of them as in 0.4-1.4", word, maxLoad))
			continue
		}
		loads = append(loads, l)
	}
	return loads, errors.Join(mistakes...)
}

// maxLoad is the highest load: beyond it the generator is its own limit.
const maxLoad = 20
