package work

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

func TestEveryReasonHasItsOwnName(t *testing.T) {
	seen := map[string]Reason{}
	for r := None; int(r) < NumReasons; r++ {
		name := r.String()
		if name == "" || name == "unknown" {
			t.Errorf("reason %d has no name", r)
		}
		if other, dup := seen[name]; dup {
			t.Errorf("reasons %d and %d are both called %q", other, r, name)
		}
		seen[name] = r
	}
	if got := Reason(200).String(); got != "unknown" {
		t.Errorf("Reason(200) = %q, want unknown", got)
	}
}

func TestWhatIsHopelessIsNotRetryable(t *testing.T) {
	for _, r := range []Reason{None, WalletExpired, RetryBudget, Expired, Infeasible, Canceled, Downstream} {
		if r.Retryable() {
			t.Errorf("%v is retryable, want not", r)
		}
	}
	for _, r := range []Reason{WalletFull, Delay, QueueFull, Share, Draining, Rate, Culprit} {
		if !r.Retryable() {
			t.Errorf("%v is not retryable, want retryable", r)
		}
	}
}

func TestBudget(t *testing.T) {
	r := Request{Deadline: mono.Time(10 * time.Millisecond)}
	if got := r.Budget(mono.Time(4 * time.Millisecond)); got != 6*time.Millisecond {
		t.Errorf("budget = %v, want 6ms", got)
	}
	if got := r.Budget(mono.Time(14 * time.Millisecond)); got != -4*time.Millisecond {
		t.Errorf("budget = %v, want -4ms", got)
	}
}
