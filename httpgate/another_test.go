package httpgate

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// A request whose server cannot be reached goes through the gate of another one, holds no
// slot of the first meanwhile, and is at no more servers than it may be.
func TestAnotherTarget(t *testing.T) {
	gate := func() *live.Gate {
		g, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { g.Close() })
		return g
	}
	down, well := gate(), gate()
	var first, second *Target
	took := true
	first = NewTarget(down, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := 2
		if r.URL.Path == "/once" {
			most = 1
		}
		if took = Another(w, second, most); !took {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	second = NewTarget(well, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := down.Stats().Running; n != 0 {
			t.Errorf("%d slots of the first target are held while the second one works", n)
		}
		if Another(w, first, 2) {
			t.Error("a request that was at both targets may go to one more")
		}
		_, _ = io.Copy(w, r.Body)
		if Another(w, first, 9) {
			t.Error("a request may go on although its answer has begun")
		}
	}))
	server := httptest.NewServer(Spread(func(*http.Request) *Target { return first }))
	defer server.Close()
	for _, c := range []struct {
		path, body, want string
		status           int
	}{{"/", "what was sent", "what was sent", 200}, {"/once", "", "", 502}} {
		resp, err := (&http.Client{Transport: base(t, 1)}).Post(server.URL+c.path, "text/plain", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || string(got) != c.want || took != (c.status == 200) {
			t.Errorf("%s: status %d, body %q, went on: %v", c.path, resp.StatusCode, got, took)
		}
	}
	if served := well.Stats().Served; served[work.Done] != 1 {
		t.Errorf("the second gate served %v, expected one request", served)
	}
	if served := down.Stats().Served; served[work.Done] != 1 || served[work.Ignored] != 1 {
		t.Errorf("the first gate served %v, expected one request, and one that went on and is no sample", served)
	}
	if Another(httptest.NewRecorder(), second, 2) {
		t.Error("without a gate there is no other target")
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
