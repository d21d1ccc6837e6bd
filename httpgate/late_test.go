package httpgate

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// An answer after the objective is late, whatever its status, and pays for no retries.
func TestLateAnswersAreNoSuccess(t *testing.T) {
	for _, tt := range []struct {
		objective time.Duration
		want      work.Outcome
		retry     work.Reason
	}{{time.Hour, work.Done, work.None}, {time.Millisecond, work.Late, work.RetryBudget}} {
		gate := newGate(t, admission.Config{Objective: tt.objective}, nil)
		s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Millisecond)
			io.WriteString(w, "ok")
		})))
		rt := Transport(base(t, 1), Retries(1))
		ask := func() {
			r, err := http.NewRequestWithContext(t.Context(), "GET", s.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			send(t, rt, r)
		}
		for range 20 {
			ask()
		}
		// A busy machine may refuse one for the objective of 1 ms.
		eventually(t, "20 requests that "+tt.want.String(), func() bool {
			if gate.Stats().Served[tt.want] >= 20 {
				return true
			}
			ask()
			return false
		})
		for outcome, n := range gate.Stats().Served {
			if work.Outcome(outcome) != tt.want && n > 0 {
				t.Errorf("objective %v: %d served as %v, expected none but %v", tt.objective, n, work.Outcome(outcome), tt.want)
			}
		}
		busy := wire.Shed{Reason: work.Delay, Retryable: true}
		if why := rt.(*transport).latest.budget.Ask(t.Context(), busy); why != tt.retry {
			t.Errorf("objective %v: a retry after 20 answers of 5 ms: %v, expected %v", tt.objective, why, tt.retry)
		}
	}
}

// A handler that does not hear that the client's time is over has done nothing that counts.
func TestNothingAfterTheDeadlineIsDone(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		io.WriteString(w, "ok")
	})))
	send(t, base(t, 1), request(t, s.url, wire.Tags{Budget: 50 * time.Millisecond}))
	eventually(t, "the request to leave", func() bool { return gate.Stats().Running == 0 })
	if n := gate.Stats().Served; n[work.Done] != 0 {
		t.Errorf("served %v by outcome, expected none to be done", n)
	}
}

// A path has the objective that ByPath gives it, or the longest path above it.
func TestObjectivesPerPath(t *testing.T) {
	gate := newGate(t, admission.Config{Objective: time.Millisecond}, nil)
	h := Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
	}), Objectives(ByPath(map[string]time.Duration{"/reports/": time.Hour, "/reports/quick/": time.Millisecond, "/export": time.Hour, "/reports/quick/not": time.Hour})))
	s := serve(t, h)
	for path, want := range map[string]work.Outcome{
		"/": work.Late, "/reports": work.Late, "/reports/": work.Done, "/reports/a/b": work.Done, "/reports/quick/a": work.Late,
		"/reports/quick/not": work.Done, "/export": work.Done, "/export/a": work.Late, "/exports": work.Late,
	} {
		before := gate.Stats().Served
		rt := base(t, 1)
		// A busy machine may refuse one for the objective of 1 ms.
		eventually(t, path+" to be served", func() bool {
			r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, _ := send(t, rt, r)
			return resp.StatusCode == http.StatusOK
		})
		eventually(t, "the request to leave", func() bool { return gate.Stats().Served != before })
		if n := gate.Stats().Served; n[want] != before[want]+1 {
			t.Errorf("%s: %v after %v, expected one more %v", path, n, before, want)
		}
	}
}
