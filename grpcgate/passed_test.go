package grpcgate

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// A handler that calls a service by HTTP returns what it got, and its caller finds the refusal: that of the service's
// gate, which is a response, and that of the wallet in front of it, which is an error. So it is with a gate inside the
// process. What is no refusal stays what it was.
func TestRefusalsOverHTTPArePassedOn(t *testing.T) {
	store := newGate(t, fixed(2))
	web := httptest.NewServer(httpgate.Handler(store, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "the application's own", http.StatusServiceUnavailable)
	})))
	defer web.Close()
	client := &http.Client{Transport: httpgate.Transport(web.Client().Transport)}
	full := &http.Client{Transport: unsent{&live.Refusal{Reason: work.WalletFull, Pushback: 3 * time.Second}}}
	inner := newGate(t, fixed(2))
	var how func(ctx context.Context) error
	s := serve(t, newGate(t, fixed(2)), &echo{handle: func(ctx context.Context, _ string) (string, error) {
		return "", how(ctx)
	}}, nil)
	get := func(c *http.Client) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL, nil)
			if err != nil {
				return err
			}
			resp, err := c.Do(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if err := httpgate.RefusalIn(resp); err != nil {
				return err
			}
			return status.Error(codes.Internal, resp.Status)
		}
	}
	conn, _ := dialGated(t, s.addr, nil)
	for _, tt := range []struct {
		name  string
		call  func(ctx context.Context) error
		drain *live.Gate
		code  codes.Code
		again bool // its pushback says that another attempt may help
	}{
		{"the application's own answer", get(client), nil, codes.Internal, false},
		{"the store's gate", get(client), store, codes.Unavailable, true},
		{"the wallet", get(full), nil, codes.Unavailable, true},
		{"a gate inside", func(ctx context.Context) error {
			return inner.Do(ctx, "", func(context.Context) error { return nil })
		}, inner, codes.Unavailable, true},
		{"an error without a status", func(context.Context) error { return errors.New("broken") }, nil, codes.Unknown, false},
	} {
		if how = tt.call; tt.drain != nil {
			tt.drain.Drain()
		}
		_, err := call1(within(t), conn, "x")
		var refusal *live.Refusal
		if found := errors.As(err, &refusal); found != tt.again || status.Code(err) != tt.code {
			t.Errorf("%s: %v, a refusal: %v; expected %v, %v", tt.name, err, found, tt.code, tt.again)
		} else if found && (refusal.Reason != work.Downstream || refusal.Pushback <= 0) {
			t.Errorf("%s: %+v, expected downstream and a pushback", tt.name, refusal)
		}
	}
}

// unsent is a transport whose wallet refuses.
type unsent struct{ err error }

// RoundTrip implements http.RoundTripper.
func (u unsent) RoundTrip(*http.Request) (*http.Response, error) { return nil, u.err }
