package proxy

import (
	"context"
	"errors"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"
)

// A try to connect that the server leaves unanswered is given up, and made again with more time, until the time for all
// of them is over. What the server says counts at once.
func TestRedialing(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	silent := func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Err: ctx.Err()} // as net.Dialer says it
	}
	for _, tt := range []struct {
		name    string
		unheard int   // tries that the server leaves unanswered
		err     error // of the one after
		timeout time.Duration
		tries   int
	}{
		{"at once", 0, nil, time.Minute, 1},
		{"the queue was full", 2, nil, time.Minute, 3},
		{"refused", 0, refused, time.Minute, 1},
		{"refused after a while", 1, refused, time.Minute, 2},
		{"a timeout of the system's", 1, &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}, 2 * time.Second, 2},
		{"never", 100, nil, leastTry / 2, 1},
	} {
		var tries []time.Duration
		d := redialer{timeout: tt.timeout, dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			until, ok := ctx.Deadline()
			if !ok || len(tries) > 9 {
				t.Fatal("a try without an end, or no end of tries")
			}
			tries = append(tries, time.Until(until))
			if len(tries) <= tt.unheard {
				return silent(ctx)
			}
			return nil, tt.err
		}}
		d.succeeded(time.Microsecond)
		_, err := d.connect(t.Context(), "tcp", "127.0.0.1:1")
		switch {
		case tt.unheard == 100 && !errors.Is(err, context.DeadlineExceeded), tt.unheard < 100 && !errors.Is(err, tt.err):
			t.Errorf("%s: %v, expected %v", tt.name, err, tt.err)
		case len(tries) != tt.tries:
			t.Errorf("%s: %d tries, expected %d", tt.name, len(tries), tt.tries)
		}
		for i, took := range tries {
			if most := leastTry << i; took > most {
				t.Errorf("%s: try %d may take %v, expected at most %v", tt.name, i, took, most)
			}
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d := redialer{timeout: time.Minute, dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return silent(ctx) }}
	if _, err := d.connect(ended, "tcp", "127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v after the request had ended, expected that it was cancelled", err)
	}
}

// How long a try may take follows from the fastest one: a server that is far away needs more.
func TestTriesFollowTheServer(t *testing.T) {
	var d redialer
	if got := d.first(); got != firstTry {
		t.Errorf("%v before any connection, expected %v", got, firstTry)
	}
	for _, tt := range []struct{ took, want time.Duration }{
		{time.Second, slower * time.Second}, {100 * time.Millisecond, slower * 100 * time.Millisecond},
		{time.Minute, slower * 100 * time.Millisecond}, {0, leastTry},
	} {
		if d.succeeded(tt.took); d.first() != tt.want {
			t.Errorf("%v after a connection that took %v, expected %v", d.first(), tt.took, tt.want)
		}
	}
}

// A dialer divides its time among the addresses of a name, so a name gets all of it.
func TestFixedAddresses(t *testing.T) {
	for _, tt := range []struct {
		u    Upstream
		want bool
	}{
		{Upstream{URL: "http://127.0.0.1:80"}, true}, {Upstream{URL: "https://[::1]"}, true}, {Upstream{URL: "http://localhost:9000"}, true},
		{Upstream{URL: "http://app.internal"}, false}, {Upstream{URL: "http://app.internal", at: "10.0.0.1:80"}, true}, {Upstream{URL: "unix:/run/app.sock"}, false},
	} {
		target, err := url.Parse(tt.u.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.u.fixed(target); got != tt.want {
			t.Errorf("%s at %q: %v, expected %v", tt.u.URL, tt.u.at, got, tt.want)
		}
	}
}
