package httpgate

import (
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/spillgate/spillgate/internal/live"
)

// A retry of gRPC's own policy is known as one behind a handler of net/http too, and what
// cannot be read says nothing. Of plain HTTP the field means nothing.
func TestAttemptsOfGRPC(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strconv.Itoa(live.TagsFrom(r.Context()).Attempt))
	})))
	for _, tt := range []struct {
		contentType, head string
		want              string
	}{
		{"application/grpc", "", "0"}, {"application/grpc", "2", "2"}, {"application/grpc", "1000", "255"}, {"application/grpc", "-2", "0"}, {"text/plain", "2", "0"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", tt.contentType)
		if tt.head != "" {
			r.Header.Set("grpc-previous-rpc-attempts", tt.head)
		}
		if _, got := send(t, base(t, 2), r); got != tt.want {
			t.Errorf("%s with %q: attempt %s, expected %s", tt.contentType, tt.head, got, tt.want)
		}
	}
}
