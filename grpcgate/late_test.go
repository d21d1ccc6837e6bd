package grpcgate

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// A handler that does not hear that its time is over ends without an error. Its answer
// is late all the same: after the deadline, after the caller has left, after the
// objective.
func TestLateAnswersAreNoSuccess(t *testing.T) {
	cut := func(ctx context.Context) { <-ctx.Done() }
	slow := func(context.Context) { time.Sleep(5 * time.Millisecond) }
	soon := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 20*time.Millisecond)
	}
	long := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), patience)
	}
	for _, tt := range []struct {
		name      string
		objective time.Duration
		ctx       func() (context.Context, context.CancelFunc)
		work      func(context.Context)
		leaves    bool // the caller, once it is served
		want      work.Outcome
	}{
		{"in time", time.Hour, long, slow, false, work.Done},
		{"after the deadline", time.Hour, soon, cut, false, work.Late},
		{"after the caller left", time.Hour, long, cut, true, work.Late},
		{"after the objective", time.Millisecond, long, slow, false, work.Late},
	} {
		gate := newGate(t, admission.Config{Objective: tt.objective})
		inside := make(chan struct{}, 1)
		s := serve(t, gate, &echo{handle: func(ctx context.Context, req string) (string, error) {
			inside <- struct{}{}
			tt.work(ctx)
			return req, nil
		}}, nil)
		conn, _ := dialGated(t, s.addr, nil)
		served := func() bool { return gate.Stats().Served[tt.want] == 1 }
		// What comes too late, as this machine was busy, runs nowhere: it is sent again.
		eventually(t, tt.name, func() bool {
			ctx, cancel := tt.ctx()
			defer cancel()
			if tt.leaves {
				go func() { <-inside; cancel() }()
			}
			call1(ctx, conn, "x")
			for range 1000 {
				if st := gate.Stats(); st.Running == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if !tt.leaves {
				select {
				case <-inside:
				default:
				}
			}
			return served()
		})
		if n := gate.Stats().Served; n[work.Done]+n[work.Late] != 1 || n[work.Ignored] != 0 {
			t.Errorf("%s: served %v by outcome, expected one %v", tt.name, n, tt.want)
		}
	}
}

// callUntilServed calls until an answer comes: with an objective of a millisecond, a busy machine
// refuses some calls before they run.
func callUntilServed(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	eventually(t, "an answer", func() bool {
		_, err := call1(within(t), conn, "x")
		return err == nil
	})
}

// Calls that were answered after the objective pay for no retries.
func TestLateAnswersEarnNoRetries(t *testing.T) {
	for _, tt := range []struct {
		objective time.Duration
		want      work.Reason
	}{{time.Hour, work.None}, {time.Millisecond, work.RetryBudget}} {
		gate := newGate(t, admission.Config{Objective: tt.objective})
		s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
			time.Sleep(5 * time.Millisecond)
			return req, nil
		}}, nil)
		conn, c := dialGated(t, s.addr, []ClientOption{WithRetries(1)})
		for range 20 {
			callUntilServed(t, conn)
		}
		busy := wire.Shed{Reason: work.Delay, Retryable: true}
		if why := c.retries.Ask(t.Context(), busy); why != tt.want {
			t.Errorf("objective %v: a retry after 20 answers of 5 ms: %v, expected %v", tt.objective, why, tt.want)
		}
	}
}

// A method has the objective that WithObjectives gives it or its service.
func TestObjectivesPerMethod(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []Option
		want work.Outcome
	}{
		{"none of its own", nil, work.Late},
		{"its own", []Option{WithObjectives(map[string]time.Duration{echoMethod: time.Hour})}, work.Done},
		{"its service's", []Option{WithObjectives(map[string]time.Duration{"test.Echo": time.Hour})}, work.Done},
		{"its own before its service's", []Option{WithObjectives(map[string]time.Duration{"test.Echo": time.Hour, echoMethod: time.Millisecond})}, work.Late},
		{"another method's", []Option{WithObjectives(map[string]time.Duration{watchMethod: time.Hour})}, work.Late},
		{"the last for the name", []Option{WithObjectives(map[string]time.Duration{echoMethod: time.Hour}), WithObjectives(map[string]time.Duration{echoMethod: time.Millisecond})}, work.Late},
	} {
		gate := newGate(t, admission.Config{Objective: time.Millisecond})
		s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
			time.Sleep(5 * time.Millisecond)
			return req, nil
		}}, tt.opts)
		callUntilServed(t, dial(t, s.addr))
		if n := gate.Stats().Served; n[tt.want] != 1 {
			t.Errorf("%s: served %v by outcome, expected one %v", tt.name, n, tt.want)
		}
	}
}
