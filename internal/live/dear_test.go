package live

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
)

// TestDearestRefusals: of several edges of a gate, that with the dearest refusals counts, in whatever order they come.
func TestDearestRefusals(t *testing.T) {
	const cheap, dear = 5 * time.Microsecond, 20 * time.Microsecond
	for _, test := range []struct {
		edges []time.Duration
		want  time.Duration
	}{
		{[]time.Duration{cheap}, cheap},
		{[]time.Duration{cheap, dear}, dear},
		{[]time.Duration{dear, cheap}, dear},
		{[]time.Duration{cheap, 0}, 0},
		{[]time.Duration{0, cheap}, 0},
	} {
		g, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range test.edges {
			g.watch(e)
		}
		if g.refusal != test.want {
			t.Errorf("edges with refusals of %v: %v counts, want %v", test.edges, g.refusal, test.want)
		}
		g.Close()
	}
}
