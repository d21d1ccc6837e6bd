package grpcgate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// A caller finds the refusal of a server in the error of its call, unary or stream, as it
// finds that of its wallet; an application's error has none; and an HTTP edge passes it on.
func TestRefusalsAreFoundInErrors(t *testing.T) {
	gate := newGate(t, fixed(2))
	s := serve(t, gate, &echo{handle: func(_ context.Context, req string) (string, error) {
		return "", status.Error(codes.Unavailable, "the application's own")
	}}, nil)
	conn, _ := dialGated(t, s.addr, nil)
	var refusal *live.Refusal
	if _, err := call1(within(t), conn, "x"); errors.As(err, &refusal) || status.Code(err) != codes.Unavailable {
		t.Errorf("%v: expected no refusal in an application's error", err)
	}
	gate.Drain()
	_, err := call1(within(t), conn, "x")
	if !errors.As(err, &refusal) || refusal.Reason != work.Draining || refusal.Pushback <= 0 || status.Code(err) != codes.Unavailable {
		t.Errorf("%v: %+v, expected the server's refusal", err, refusal)
	}
	if why, ok := gate.Explain(refusal.ID); !ok || why.Reason != work.Draining {
		t.Errorf("the gate explains its refusal as %+v, %v", why, ok)
	}
	ss, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true}, watchMethod)
	if err == nil {
		_ = ss.SendMsg(wrapperspb.String(""))
		_ = ss.CloseSend()
		err = ss.RecvMsg(new(wrapperspb.StringValue))
	}
	if refusal = nil; !errors.As(err, &refusal) || refusal.Reason != work.Draining {
		t.Errorf("%v: %+v, expected the server's refusal of a stream", err, refusal)
	}

	for _, tt := range []struct {
		err   error
		code  int
		after string
	}{
		{err, http.StatusServiceUnavailable, "1"},
		{&live.Refusal{Reason: work.WalletFull, Pushback: 3 * time.Second}, http.StatusServiceUnavailable, "3"},
		{&live.Refusal{Reason: work.Rate, Pushback: -1}, http.StatusServiceUnavailable, ""},
		{status.Error(codes.Unavailable, "the application's own"), http.StatusOK, ""},
	} {
		w := httptest.NewRecorder()
		if passed := httpgate.RefuseBelow(w, httptest.NewRequest("GET", "/", nil), tt.err); passed != (tt.code != http.StatusOK) {
			t.Errorf("%v: passed on: %v", tt.err, passed)
		}
		if w.Code != tt.code || w.Header().Get("Retry-After") != tt.after {
			t.Errorf("%v: %d, Retry-After %q, expected %d, %q", tt.err, w.Code, w.Header().Get("Retry-After"), tt.code, tt.after)
		}
	}
}
