package httpgate

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// A refusal further down that a handler answers as a failure is no work done, whatever the protocol of the call, and is said
// once; one that is passed on is not.
func TestFlattenedRefusal(t *testing.T) {
	var log bytes.Buffer
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(was)
	var ends []work.Outcome
	gate := newGate(t, admission.Config{Objective: time.Second}, func(e live.Event) { ends = append(ends, e.Outcome) })
	h := Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refusal := &live.Refusal{Reason: work.Delay, Pushback: time.Second}
		live.RefusedBelow(r.Context()) // as a client does
		if r.URL.Path == "/passed" && RefuseBelow(w, r, refusal) {
			return
		}
		http.Error(w, "the store failed", http.StatusInternalServerError)
	}))
	for _, path := range []string{"/passed", "/flat/7", "/flat/8"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	for i, end := range ends {
		if end != work.Dropped {
			t.Errorf("request %d ended as %v, expected dropped", i, end)
		}
	}
	if n := strings.Count(log.String(), "RefuseBelow"); len(ends) != 3 || n != 1 || strings.Contains(log.String(), "passed") {
		t.Errorf("%d requests, and %d lines about refusals that were flattened, expected one:\n%s", len(ends), n, &log)
	}
}
