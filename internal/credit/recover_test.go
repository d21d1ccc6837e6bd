package credit

import (
	"testing"
	"time"
)

// TestRecover: the pool comes back to four fifths of what it was, in one step, to no more
// than it was, and stays within its bounds.
func TestRecover(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: time.Millisecond, MinTotal: 1, MaxWindow: 10})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		p.Register(0)
	}
	for _, tt := range []struct{ now, before, want float64 }{
		{10, 100, 80}, {90, 100, 90}, {80, 100, 80}, {10, 0, 10}, {150, 100, 100},
	} {
		p.SetTotal(0, tt.now)
		p.Recover(0, int(tt.before))
		if got := p.total; got != min(tt.want, p.ceiling()) {
			t.Errorf("%v credits after %v before the disturbance become %v, expected %v", tt.now, tt.before, got, min(tt.want, p.ceiling()))
		}
	}
	p.Recover(0, 1<<30)
	if p.total > p.ceiling() {
		t.Errorf("%v credits, expected at most %v", p.total, p.ceiling())
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
