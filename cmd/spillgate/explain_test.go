package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/telemetry"
)

// A refused client's answer names the refusal, and explain says why it was.
func TestExplain(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	mux := http.NewServeMux()
	mux.Handle("GET "+telemetry.PathRefusals, telemetry.Refusals(func() map[string]*live.Gate { return map[string]*live.Gate{"orders": gate} }))
	admin := httptest.NewServer(mux)
	defer admin.Close()
	explain := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := run(t.Context(), []func() *cobra.Command{newExplain}, append([]string{"explain", admin.Listener.Addr().String()}, args...), &out, &out)
		return code, out.String()
	}
	if code, text := explain(); code != exitOK || !strings.Contains(text, "no gate has refused a request") {
		t.Errorf("before the first refusal: %d %s", code, text)
	}

	gate.Drain()
	w := httptest.NewRecorder()
	httpgate.Handler(gate, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x", nil))
	var problem struct{ Reason, Refusal string }
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Reason != "draining" || problem.Refusal == "" {
		t.Fatalf("the answer is %d %s, want a refusal with an ID", w.Code, w.Body)
	}
	for _, args := range [][]string{{problem.Refusal}, nil} {
		code, text := explain(args...)
		if code != exitOK || !strings.Contains(text, problem.Refusal+" refused at ") || !strings.Contains(text, "by gate orders: draining (the server was shutting down)") ||
			!strings.Contains(text, "objective 1m0s") || !strings.Contains(text, "client: without credits") {
			t.Errorf("explain %v: %d\n%s", args, code, text)
		}
	}
	code, text := explain("--json", problem.Refusal)
	var all []telemetry.Refused
	if err := json.Unmarshal([]byte(text), &all); code != exitOK || err != nil || len(all) != 1 || all[0].ID.String() != problem.Refusal || all[0].Times.Left != nil {
		t.Errorf("explain --json: %d %v\n%s", code, err, text)
	}
	for args, want := range map[string]string{
		"0123456789abcdef": "no gate at",
		"0123":             "expected 16 hexadecimal digits",
		"--last 0":         "--last is 0, expected 1 to 4096",
		"1 2":              "3 arguments, expected the admin address",
	} {
		if code, text := explain(strings.Fields(args)...); code == exitOK || !strings.Contains(text, want) {
			t.Errorf("explain %s: %d %s, want %q", args, code, text, want)
		}
	}
	without := httptest.NewServer(http.NotFoundHandler())
	defer without.Close()
	var out bytes.Buffer
	if code := run(t.Context(), []func() *cobra.Command{newExplain}, []string{"explain", without.Listener.Addr().String()}, &out, &out); code != exitFailure || !strings.Contains(out.String(), "serves telemetry.Refusals") {
		t.Errorf("a service without the page: %d %s", code, out.String())
	}
	share := telemetry.Refused{Reason: "share"}
	long, over := share, share
	long.Of.Long, over.Credits = true, &telemetry.RefusedClient{Over: true}
	if a, b, c := why(&share), why(&long), why(&over); !strings.Contains(a, "its share") || !strings.Contains(b, "longer than the objective") || !strings.Contains(c, "its window") {
		t.Errorf("three causes of share are explained as %q, %q and %q", a, b, c)
	}
	for i := range work.NumReasons {
		r := work.Reason(i)
		if byGate := r.Sent() && r != work.None && r != work.Downstream; byGate != (because[r.String()] != "") {
			t.Errorf("reason %v is explained as %q", r, because[r.String()])
		}
	}
}
