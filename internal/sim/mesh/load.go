package mesh

import (
	"fmt"
	"math"
	"time"
)

// Load is what a group of clients means to send. One of Steps, Trace and Users.
type Load struct {
	// Steps is an open load: Poisson arrivals at a rate that changes in steps,
	// in order of time. The first rate holds from the start, the last to the end.
	Steps []Change
	// Trace is an open load as well: the times from the start at which the group
	// sends, ascending; clients take turns. See ReadTrace.
	Trace []time.Duration
	// Users is a closed loop: so many clients from an instant on, each of which
	// sends, waits for the end of its request, and thinks for an exponential
	// time of the mean Think.
	Users []Users
	Think time.Duration
}

// Users is a number of clients from an instant on. Before the first there are
// none.
type Users struct {
	At time.Duration
	N  int
}

// Constant is the open load of one rate, in requests per second.
func Constant(rate float64) Load { return Load{Steps: []Change{{Rate: rate}}} }

// Closed is the closed loop of n clients.
func Closed(n int, think time.Duration) Load { return Load{Users: []Users{{0, n}}, Think: think} }

func (l *Load) closed() bool { return len(l.Users) > 0 }

// most returns the most users at any time.
func (l *Load) most() int {
	n := 1
	for _, u := range l.Users {
		n = max(n, u.N)
	}
	return n
}

func (l *Load) check() error {
	kinds := 0
	for _, n := range []int{len(l.Steps), len(l.Trace), len(l.Users)} {
		if n > 0 {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("Load has %d of Steps, Trace and Users, expected one", kinds)
	}
	for i, s := range l.Steps {
		if s.At < 0 || !(s.Rate >= 0) || math.IsInf(s.Rate, 0) || i > 0 && s.At < l.Steps[i-1].At {
			return fmt.Errorf("step %d is %v at %v, expected a rate of 0 or more at ascending times", i, s.Rate, s.At)
		}
	}
	for i, at := range l.Trace {
		if at < 0 || i > 0 && at < l.Trace[i-1] {
			return fmt.Errorf("trace entry %d is %v, expected ascending times", i, at)
		}
	}
	for i, u := range l.Users {
		if u.At < 0 || u.N < 0 || u.N > maxUsers || i > 0 && u.At < l.Users[i-1].At {
			return fmt.Errorf("users %d are %d at %v, expected 0 to %d at ascending times", i, u.N, u.At, maxUsers)
		}
	}
	if l.Think < 0 {
		return fmt.Errorf("Think is %v, expected 0 or more", l.Think)
	}
	return nil
}

// maxUsers bounds the clients of a closed loop. More are refused.
const maxUsers = 1 << 20

// Change is a rate, in requests/s, from an instant on.
type Change struct {
	At   time.Duration
	Rate float64
}
