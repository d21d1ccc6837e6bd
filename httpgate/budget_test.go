package httpgate

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
)

// Requests with the same timeout mostly say the same of their budgets, so that they are encoded and read once, and never more
// time than is left.
func TestTimeoutsSayTheSame(t *testing.T) {
	const timeout, requests = 10 * time.Second, 64
	var said []string
	client := &http.Client{Timeout: timeout, Transport: Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
		left, _ := r.Context().Deadline()
		at := time.Until(left) // a moment later than what was told
		//lint:ignore SA1019 http.Client sets it
		if r.Cancel != nil {
			t.Error("http.Transport has a goroutine wait for the end of the time too, as if the context did not end then")
		}
		text := r.Header[field][0]
		msg, err := wire.FromHeader(text)
		if err != nil {
			t.Error(err)
		}
		tags, err := wire.ParseTags(msg)
		if least := at - at/256; err != nil || tags.Budget > timeout || tags.Budget < least {
			t.Errorf("the budget is %v, %v, expected %v at least", tags.Budget, err, least)
		}
		said = append(said, text)
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
	}))}
	same := 0
	for i := range requests {
		resp, err := client.Get("http://server/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if i > 0 && said[i] == said[i-1] {
			same++
		}
	}
	if same == 0 {
		t.Errorf("of %d requests, no two in a row say the same", requests)
	}
}

// A request without a deadline of its context is cancelled as its sender means to.
func TestCancelWithoutADeadline(t *testing.T) {
	r := get(t, t.Context(), "http://server/")
	//lint:ignore SA1019 some callers set it
	r.Cancel = make(chan struct{})
	rt := Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
		//lint:ignore SA1019 some callers set it
		if r.Cancel == nil {
			t.Error("nothing can cancel the request any more")
		}
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
	}))
	resp, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// A handler may write strings as it may without a gate: short, long, and after the header.
func TestStringsAreWrittenAsTheyAre(t *testing.T) {
	long := strings.Repeat("long ", smallBody)
	h := Handler(newGate(t, roomy(), nil), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(io.StringWriter); !ok {
			t.Error("a string has to be copied")
		}
		for _, s := range []string{"", "short ", long, "short again"} {
			if n, err := io.WriteString(w, s); n != len(s) || err != nil {
				t.Errorf("wrote %d of %d bytes, %v", n, len(s), err)
			}
		}
	}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if got := w.Body.String(); w.Code != 200 || got != "short "+long+"short again" {
		t.Errorf("%d, %d bytes", w.Code, len(got))
	}
}
