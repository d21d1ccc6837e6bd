package httpgate

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// An edge that calls a store by HTTP passes the store's refusal on as a refusal, whether its client has credits or not.
func TestRefusalInResponse(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	store := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "the application's own", http.StatusServiceUnavailable)
	})))
	get := func(url string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, major := range []int{1, 2} {
		plain := base(t, major)
		for _, rt := range []http.RoundTripper{plain, Transport(plain)} {
			if resp, _ := send(t, rt, get(store.url)); RefusalIn(resp) != nil {
				t.Errorf("HTTP/%d: %v in the application's own answer", major, RefusalIn(resp))
			}
		}
	}
	gate.Drain()
	for _, major := range []int{1, 2} {
		plain := base(t, major)
		for _, rt := range []http.RoundTripper{plain, Transport(plain)} {
			resp, _ := send(t, rt, get(store.url))
			err := RefusalIn(resp)
			var refusal *live.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != work.Draining || refusal.Pushback <= 0 {
				t.Fatalf("HTTP/%d: %v, %+v; expected the store's refusal", major, err, refusal)
			}
			w := httptest.NewRecorder()
			if !RefuseBelow(w, httptest.NewRequest("GET", "/", nil), err) || w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
				t.Errorf("HTTP/%d: %d %v", major, w.Code, w.Header())
			}
		}
	}
	if w := httptest.NewRecorder(); RefuseBelow(w, httptest.NewRequest("GET", "/", nil), RefusalIn(&http.Response{Header: http.Header{field: {"nonsense"}}})) {
		t.Error("nonsense is a refusal")
	}
}
