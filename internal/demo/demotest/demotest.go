// Package demotest gives tests of the demo's views a recorded demo to show.
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
	s.Acts, s.Tenants = s.Acts[:act+1], nil
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
	s.Share = 0.2 + 0.4*float64(act) + 0.4*elapsed/s.ActLength
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
	s.Scene, s.Note, s.Report = demo.Sharing, "act 3", ""
	s.Number = 500 + int(10*elapsed)
	s.Share = 0.8 + 0.15*elapsed/a.Length
	return s
}

// Searching returns the recorded demo during the search for the capacity, after
// some tries.
func Searching(t testing.TB, tries int) demo.State {
	t.Helper()
	s := Recorded(t)
	s.Scene, s.Note, s.Acts, s.Tenants, s.Report = demo.Searching, "measuring", []demo.Act{}, nil, ""
	s.Capacity.Rate, s.Capacity.Tries = 0, append([]stage.Try{}, s.Capacity.Tries[:tries]...)
	s.Number, s.Share = tries, 0.1
	return s
}
