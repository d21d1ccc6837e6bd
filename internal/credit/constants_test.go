package credit

import (
	"testing"
	"time"
)

// The intervals of a pool follow from its target, the steps from Breakwater §3.2.
func TestPoolDefaults(t *testing.T) {
	for _, c := range []struct {
		target, interval, lease time.Duration
	}{
		{40 * time.Millisecond, 5 * time.Millisecond, 320 * time.Millisecond},
		{400 * time.Microsecond, 50 * time.Microsecond, 10 * time.Millisecond}, // the least lease
		{40 * time.Microsecond, 10 * time.Microsecond, 10 * time.Millisecond},  // and interval
	} {
		got, err := Config{TargetDelay: c.target}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		want := Config{TargetDelay: c.target, Interval: c.interval, Additive: 0.001, Decrease: 0.02,
			InitialWindow: 8, MinTotal: 1, MaxWindow: WindowLimit, Lease: c.lease}
		if got != want {
			t.Errorf("defaults are %+v, want %+v", got, want)
		}
	}
}
