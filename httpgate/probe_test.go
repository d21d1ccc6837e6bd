package httpgate

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/wire"
)

// Health checks pass a gate that refuses everything else, unless the handler is told
// otherwise.
func TestProbesAreExempt(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	gate.Drain()
	for _, tt := range []struct {
		opts []Option
		path string
		want int
	}{
		{nil, "/healthz", 200}, {nil, "/livez", 200}, {nil, "/readyz", 200}, {nil, "/health", 200}, {nil, "/", 503}, {nil, "/healthz/x", 503},
		{[]Option{Exempt(nil)}, "/healthz", 503}, {[]Option{Exempt(Paths("/ping"))}, "/ping", 200}, {[]Option{Exempt(Paths("/ping"))}, "/healthz", 503},
		{[]Option{ExemptPaths("/metrics", "/polls/"), ExemptPaths("/ping")}, "/metrics", 200}, {[]Option{ExemptPaths("/metrics"), ExemptPaths("/ping")}, "/ping", 200},
		{[]Option{ExemptPaths("/polls/")}, "/polls/1", 200}, {[]Option{ExemptPaths("/polls/")}, "/healthz", 200}, {[]Option{ExemptPaths("/polls/")}, "/polls/../x", 503},
		{[]Option{Exempt(nil), ExemptPaths("/ping")}, "/ping", 200}, {[]Option{Exempt(nil), ExemptPaths("/ping")}, "/healthz", 503},
	} {
		w := httptest.NewRecorder()
		Handler(gate, text("ok"), tt.opts...).ServeHTTP(w, httptest.NewRequest("GET", tt.path, nil))
		if w.Code != tt.want {
			t.Errorf("%s: %d, expected %d", tt.path, w.Code, tt.want)
		}
	}
}

// A server without Track says once that its clients get no credits.
func TestUntrackedServerSaysSo(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(before)
	h := Handler(newGate(t, roomy(), nil), text("ok"))
	for range 3 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	if out.Len() > 0 {
		t.Errorf("nobody asked for credits: %s", &out)
	}
	for range 3 {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(field, wire.Header(wire.Tags{Credits: true, Demand: 1}.Append(nil)))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("%d", w.Code)
		}
	}
	if n := strings.Count(out.String(), "httpgate.Track"); n != 1 {
		t.Errorf("said %d times, expected once: %s", n, &out)
	}
}
