package experiment_test

import (
	"math"
	"testing"

	"github.com/spillgate/spillgate/lab/experiment"
)

func TestBars(t *testing.T) {
	for _, tt := range []struct {
		quick    bool
		ceiling  bool
		measured float64
		pass     bool
	}{
		{false, false, 0.97, true}, {false, false, 0.965, false}, {true, false, 0.965, true}, {true, false, 0.95, false},
		{false, true, 0.97, true}, {false, true, 0.975, false}, {true, true, 0.975, true}, {true, true, 0.99, false},
		{true, false, math.NaN(), false}, {true, true, math.NaN(), false}, {true, false, math.Inf(1), false},
	} {
		r := &experiment.Result{Quick: tt.quick}
		if tt.ceiling {
			r.Ceiling("bar", "", 0.97, 0.01, tt.measured)
		} else {
			r.Floor("bar", "", 0.97, 0.01, tt.measured)
		}
		if r.Bars[0].Pass != tt.pass || (len(r.Short()) == 0) != tt.pass {
			t.Errorf("%+v gave %+v", tt, r.Bars[0])
		}
	}
}
