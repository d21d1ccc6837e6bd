package httpgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// refusing is a server that refuses as often as it is told to and then answers
// with the request's body.
type refusing struct {
	*server
	left  atomic.Int64
	shed  atomic.Pointer[wire.Shed]
	after atomic.Pointer[string] // Retry-After
	calls atomic.Int64
	tags  chan wire.Tags
}

func newRefusing(t *testing.T) *refusing {
	s := &refusing{tags: make(chan wire.Tags, 1000)}
	s.server = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		grpc := isGRPC(r.Header)
		if msg, err := decodeField(r.Header[fieldFor(grpc)], grpc); err == nil {
			tags, _ := wire.ParseTags(msg)
			s.tags <- tags
		}
		body, _ := io.ReadAll(r.Body)
		if s.left.Add(-1) < 0 {
			w.Write(body)
			return
		}
		shed := s.shed.Load()
		if after := s.after.Load(); after != nil {
			w.Header().Set("Retry-After", *after)
		}
		w.Header().Set(fieldFor(grpc), encodeField(wire.Reply{Shed: *shed, HasShed: true}.Append(nil), grpc))
		if grpc {
			refuseGRPC(w, &live.Refusal{Reason: shed.Reason, Pushback: shed.Pushback})
			return
		}
		w.WriteHeader(503)
		io.WriteString(w, "refused")
	}))
	s.shed.Store(&wire.Shed{Reason: work.Delay, Retryable: true, Pushback: time.Millisecond})
	return s
}

// earn fills the budget with n successes.
func earn(t *testing.T, rt http.RoundTripper, url string, n int) {
	for range n {
		send(t, rt, get(t, t.Context(), url))
	}
}

func TestRetries(t *testing.T) {
	for _, major := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", major), func(t *testing.T) {
			s := newRefusing(t)
			var denied, made atomic.Int64
			rt := Transport(base(t, major), Retries(2), OnRetry(func(_ *http.Request, why work.Reason) {
				switch why {
				case work.None:
					made.Add(1)
				case work.RetryBudget:
					denied.Add(1)
				}
			}))
			earn(t, rt, s.url, 9)
			post := func(body io.Reader) (*http.Response, string, int64) {
				before := s.calls.Load()
				r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, body)
				resp, text := send(t, rt, r)
				return resp, text, s.calls.Load() - before
			}
			s.left.Store(1)
			if resp, text, n := post(strings.NewReader("x")); resp.StatusCode != 503 || text != "refused" || n != 1 || denied.Load() != 1 {
				t.Errorf("with nine successes: %d %q after %d attempts, %d denied", resp.StatusCode, text, n, denied.Load())
			}
			earn(t, rt, s.url, 31)
			for len(s.tags) > 0 {
				await.Value(t, s.tags, "the tags of a call")
			}
			s.left.Store(2)
			if resp, text, n := post(strings.NewReader("again")); resp.StatusCode != 200 || text != "again" || n != 3 || made.Load() != 2 {
				t.Errorf("refused twice: %d %q after %d attempts, %d retries", resp.StatusCode, text, n, made.Load())
			}
			for want := range 3 {
				got := await.Value(t, s.tags, "the tags of a call")
				if got.Attempt != want {
					t.Errorf("attempt %d, expected %d", got.Attempt, want)
				}
				if least := time.Duration(want) * time.Millisecond; got.Waited < least {
					t.Errorf("attempt %d says that the request waited %v, the pauses were %v", want, got.Waited, least)
				}
			}
			// What cannot be repeated is not, whatever the budget.
			s.left.Store(1)
			if resp, text, n := post(io.MultiReader(strings.NewReader("once"))); resp.StatusCode != 503 || text != "refused" || n != 1 {
				t.Errorf("a body that cannot be repeated: %d %q after %d attempts", resp.StatusCode, text, n)
			}
			// Nor what is refused for good.
			s.shed.Store(&wire.Shed{Reason: work.Infeasible})
			s.left.Store(1)
			if resp, _, n := post(nil); resp.StatusCode != 503 || n != 1 {
				t.Errorf("not retryable: %d after %d attempts", resp.StatusCode, n)
			}
			// Nor what is made while serving.
			s.shed.Store(&wire.Shed{Reason: work.Delay, Retryable: true, Pushback: time.Millisecond})
			s.left.Store(1)
			before := s.calls.Load()
			inside := &served{Context: t.Context()}
			if resp, _ := send(t, rt, get(t, inside, s.url)); resp.StatusCode != 503 || s.calls.Load()-before != 1 {
				t.Errorf("while serving: %d after %d attempts", resp.StatusCode, s.calls.Load()-before)
			}
			// gRPC's form of a refusal.
			s.left.Store(1)
			r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader("x"))
			r.Header.Set("Content-Type", "application/grpc")
			if resp, text := send(t, rt, r); resp.Header.Get("Grpc-Status") != "" || text != "x" {
				t.Errorf("gRPC: %v %q", resp.Header, text)
			}
			// Nobody waits longer than he has.
			after := "30"
			s.after.Store(&after)
			s.left.Store(1)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if resp, _ := send(t, rt, get(t, ctx, s.url)); resp.StatusCode != 503 {
				t.Errorf("Retry-After beyond the deadline: %d", resp.StatusCode)
			}
			if n := outstanding(rt); n != 0 {
				t.Errorf("%d permits are not back", n)
			}
		})
	}
}

// No mix of successes and refusals is answered by more retries than a tenth of
// the successes.
func TestRetriesStayInBudget(t *testing.T) {
	s := newRefusing(t)
	rt := Transport(base(t, 1), Retries(3))
	earn(t, rt, s.url, 200)
	s.left.Store(1 << 40)
	before := s.calls.Load()
	for range 50 {
		send(t, rt, get(t, t.Context(), s.url))
	}
	if got := s.calls.Load() - before; got != 60 {
		t.Errorf("%d attempts of 50 requests, expected 60: at most 10 retries are saved up", got)
	}
}

// A caller that leaves during the pause gets the refusal, and no credit stays
// away while it waits.
func TestRetryPause(t *testing.T) {
	s := newRefusing(t)
	rt := Transport(base(t, 1), Retries(1))
	earn(t, rt, s.url, 10)
	s.shed.Store(&wire.Shed{Reason: work.Delay, Retryable: true, Pushback: 20 * time.Second})
	s.left.Store(1)
	ctx, cancel := context.WithCancel(t.Context())
	before := s.calls.Load()
	go func() {
		for s.calls.Load() == before || outstanding(rt) != 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	resp, err := rt.RoundTrip(get(t, ctx, s.url))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); string(b) != "refused" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	// A body that fails to be made again is no reason to lose the answer.
	s.shed.Store(&wire.Shed{Reason: work.Delay, Retryable: true})
	earn(t, rt, s.url, 10)
	s.left.Store(1)
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader("x"))
	r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("gone") }
	if resp, text := send(t, rt, r); resp.StatusCode != 503 || text != "refused" {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}

func TestPauseOfARefusal(t *testing.T) {
	for _, tt := range []struct {
		after    string
		pushback time.Duration
		want     time.Duration
	}{
		{"", time.Millisecond, time.Millisecond},
		{"1", time.Millisecond, time.Millisecond}, // the same, in whole seconds
		{"2", 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"5", time.Millisecond, 5 * time.Second},
		{"-5", time.Millisecond, time.Millisecond},
		{"99999999999", time.Millisecond, time.Millisecond},
		{"nonsense", time.Millisecond, time.Millisecond},
		{time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), time.Millisecond, time.Millisecond},
	} {
		h := http.Header{}
		if tt.after != "" {
			h.Set("Retry-After", tt.after)
		}
		if got := pause(h, tt.pushback); got != tt.want {
			t.Errorf("Retry-After %q, pushback %v: %v, expected %v", tt.after, tt.pushback, got, tt.want)
		}
	}
	at := http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}
	if got := pause(at, 0); got < 58*time.Minute || got > time.Hour {
		t.Errorf("in an hour: %v", got)
	}
}
