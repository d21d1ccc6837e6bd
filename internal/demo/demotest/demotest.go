// Package demotest gives tests of the demo's views a recorded demo to show.
//
// The recording is made anew, when states or the plan have changed, by its own test
// with -record (TestRecord).
//
// What this package does not do: it plays nothing.
package demotest

import (
	_ "embed"
	"encoding/json"
	"testing"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/stage"
)

// Seed is that of the recorded demo.
const Seed = 7

//go:embed recorded.json
var recorded []byte

// Recorded returns the last state of a demo that was played to its end.
func Recorded(t testing.TB) demo.State {
	t.Helper()
	var s demo.State
	if err := json.Unmarshal(recorded, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// At returns the recorded demo as it was some seconds into an act, the first of
// which is 0. Totals and reports of services are those of the end.
func At(t testing.TB, act int, elapsed float64) demo.State {
	t.Helper()
	s := Recorded(t)
	s.Acts, s.Tenants, s.Checkout, s.Culprit, s.Feed = s.Acts[:act+1], nil, nil, nil, nil
	a := &s.Acts[act]
	a.Running, a.Outcome, a.Elapsed = true, nil, elapsed
	n := 0
	for n < len(a.Points) && a.Points[n].T <= elapsed {
		n++
	}
	a.Points = a.Points[:n]
	s.Scene, s.Note, s.Report = demo.Plain, "act 1", ""
	if act == 1 {
		s.Scene, s.Note = demo.Gated, "act 2"
	}
	s.Number = 100*act + n
	s.Share = 0.1 + 0.3*float64(act) + 0.3*elapsed/s.ActLength
	return s
}

// Sharing returns the recorded demo as it was some seconds into the act of the
// tenants. Totals and reports of services are those of the end.
func Sharing(t testing.TB, elapsed float64) demo.State {
	t.Helper()
	s := Recorded(t)
	a := s.Tenants
	a.Running, a.Elapsed = true, elapsed
	for i := range a.Each {
		tenant := &a.Each[i]
		n := 0
		for n < len(tenant.Points) && tenant.Points[n].T <= elapsed {
			n++
		}
		over := 0
		for over < len(a.Steps) && a.Steps[over].To+s.SLOMS/1000 <= elapsed {
			over++
		}
		tenant.Points, tenant.Steps, tenant.Outcome = tenant.Points[:n], tenant.Steps[:over], nil
	}
	s.Scene, s.Note, s.Report, s.Checkout, s.Culprit, s.Feed = demo.Sharing, "act 3", "", nil, nil, nil
	s.Number = 500 + int(10*elapsed)
	s.Share = 0.7 + 0.1*elapsed/a.Length
	return s
}

// Shopping returns the recorded demo as it was some seconds into an order of the
// checkouts, the first of which is 0. Totals, classes and reports of services are
// those of the end.
func Shopping(t testing.TB, order int, elapsed float64) demo.State {
	t.Helper()
	s := Recorded(t)
	a := s.Checkout
	a.Orders = a.Orders[:order+1]
	o := &a.Orders[order]
	o.Running, o.Elapsed = true, elapsed
	for i := range o.Kinds {
		k := &o.Kinds[i]
		n, over := 0, 0
		for n < len(k.Points) && k.Points[n].T <= elapsed {
			n++
		}
		for over < len(a.Steps) && a.Steps[over].To+s.SLOMS/1000 <= elapsed {
			over++
		}
		k.Points, k.Steps, k.Outcome = k.Points[:n], k.Steps[:over], nil
	}
	for i := range o.Weights {
		w := &o.Weights[i]
		n := 0
		for n < len(w.Points) && w.Points[n].T <= elapsed {
			n++
		}
		w.Points = w.Points[:n]
	}
	s.Scene, s.Note, s.Report, s.Culprit, s.Feed = demo.Checkout, "act 4", "", nil, nil
	s.Number = 700 + 100*order + int(10*elapsed)
	s.Share = 0.8 + 0.1*float64(order) + 0.1*elapsed/a.Length
	return s
}

// Seized returns the recorded demo as it was some seconds into a run of the act of
// the culprit, the first of which is 0. Totals and reports are those of the end.
func Seized(t testing.TB, run int, elapsed float64) demo.State {
	t.Helper()
	s := Recorded(t)
	a := s.Culprit
	a.Runs = a.Runs[:run+1]
	r := &a.Runs[run]
	rewind(&r.Run, a.Steps, elapsed, s.SLOMS)
	if r.Named != nil && r.T > elapsed {
		r.Named = nil
	}
	if r.Report != nil && r.Report.At+r.Report.TookMS/1000 > elapsed {
		r.Report = nil
	}
	s.Scene, s.Note, s.Report, s.Feed = demo.Seizing, "act 5", "", nil
	s.Number = 910 + 40*run + int(5*elapsed)
	s.Share = 0.9 + 0.04*float64(run) + 0.04*elapsed/a.Length
	return s
}

// Flooded returns the recorded demo as it was some seconds into a run of the act of the
// broker, the first of which is 0. Totals and reports are those of the end.
func Flooded(t testing.TB, run int, elapsed float64) demo.State {
	t.Helper()
	s := Recorded(t)
	a := s.Feed
	a.Runs = a.Runs[:run+1]
	r := &a.Runs[run]
	rewind(&r.Run, a.Steps, elapsed, s.SLOMS)
	s.Scene, s.Note, s.Report = demo.Flooding, "act 6", ""
	s.Number = 980 + 8*run + int(elapsed)
	s.Share = 0.97 + 0.01*float64(run) + 0.01*elapsed/a.Length
	return s
}

// rewind brings a run back to some seconds after its beginning.
func rewind(r *demo.Run, steps []demo.StepState, elapsed, sloMS float64) {
	r.Running, r.Elapsed = true, elapsed
	n, over := 0, 0
	for n < len(r.Points) && r.Points[n].T <= elapsed {
		n++
	}
	for over < len(steps) && steps[over].To+sloMS/1000 <= elapsed {
		over++
	}
	r.Points, r.Steps, r.Outcome = r.Points[:n], r.Steps[:over], nil
}

// Searching returns the recorded demo during the search for the capacity, after
// some tries.
func Searching(t testing.TB, tries int) demo.State {
	t.Helper()
	s := Recorded(t)
	s.Scene, s.Note, s.Acts, s.Tenants, s.Report = demo.Searching, "measuring", []demo.Act{}, nil, ""
	s.Checkout, s.Culprit, s.Feed = nil, nil, nil
	s.Capacity.Rate, s.Capacity.Tries = 0, append([]stage.Try{}, s.Capacity.Tries[:tries]...)
	s.Number, s.Share = tries, 0.1
	return s
}
