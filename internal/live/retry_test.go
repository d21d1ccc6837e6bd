package live

import (
	"context"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

type servingContext struct{ context.Context }

func (s servingContext) Value(key any) any {
	if key == (ServingKey{}) {
		return s
	}
	return s.Context.Value(key)
}

func TestRetries(t *testing.T) {
	busy := wire.Shed{Reason: work.Delay, Retryable: true, Pushback: time.Millisecond}
	soon, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		shed   wire.Shed
		earned int
		want   work.Reason
	}{
		{"allowed", t.Context(), busy, 10, work.None},
		{"no budget", t.Context(), busy, 9, work.RetryBudget},
		{"not retryable", t.Context(), wire.Shed{Reason: work.Infeasible}, 10, work.Infeasible},
		{"no reason told", t.Context(), wire.Shed{}, 10, work.Downstream},
		{"never", t.Context(), wire.Shed{Reason: work.Share, Retryable: true, Pushback: -1}, 10, work.Share},
		{"too late", soon, wire.Shed{Reason: work.Delay, Retryable: true, Pushback: 2 * time.Hour}, 10, work.Infeasible},
		{"a day", t.Context(), wire.Shed{Reason: work.Delay, Retryable: true, Pushback: 24 * time.Hour}, 10, work.Infeasible},
		{"not the edge", servingContext{t.Context()}, busy, 10, work.Delay},
	} {
		var r Retries
		for range tt.earned {
			r.Earn(context.Background(), nil, Now())
		}
		if got := r.Ask(tt.ctx, tt.shed); got != tt.want {
			t.Errorf("%s: %v, expected %v", tt.name, got, tt.want)
		}
		// What was denied for another reason cost nothing.
		if got := r.Ask(t.Context(), busy); (got == work.None) != (tt.earned >= 10 && tt.want != work.None) {
			t.Errorf("%s: afterwards %v", tt.name, got)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if Pause(gone, time.Hour) || !Pause(t.Context(), 0) {
		t.Error("a pause ends with its context, and else with its time")
	}
}
