package httpgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func get(t testing.TB, ctx context.Context, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// outstanding returns the permits that are not back, over all hosts.
func outstanding(rt http.RoundTripper) (n int) {
	tr := rt.(*transport)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, h := range tr.hosts {
		n += h.server.Outstanding()
		if n == 0 && h.users != 0 {
			n = h.users
		}
	}
	return n
}

// Transport and Handler together, over both versions: everybody is served, and
// the client learns its credits.
func TestTogether(t *testing.T) {
	for _, major := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", major), func(t *testing.T) {
			gate := newGate(t, oneSlot(), nil)
			var running, most atomic.Int32
			s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := running.Add(1)
				defer running.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				io.Copy(w, r.Body)
			})))
			rt := Transport(base(t, major))
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for i := range 50 {
						want := fmt.Sprint("body ", i)
						r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader(want))
						if resp, got := send(t, rt, r); resp.StatusCode != 200 || got != want {
							t.Errorf("%d %q, want %q", resp.StatusCode, got, want)
						}
					}
				})
			}
			await.All(t, &wg, "the clients to end")
			if n := outstanding(rt); n != 0 {
				t.Errorf("%d permits are not back", n)
			}
			if most.Load() != 1 {
				t.Errorf("%d ran at once, want 1", most.Load())
			}
			for _, h := range rt.(*transport).hosts {
				if g := gate.Stats(); g.Clients != 1 {
					t.Errorf("%d clients at the gate", g.Clients)
				}
				if h.wallet.Waiting() != 0 {
					t.Errorf("%d wait", h.wallet.Waiting())
				}
			}
		})
	}
}

// A server that knows nothing of credits is not limited.
func TestPlainServer(t *testing.T) {
	s := serve(t, text("plain"))
	rt := Transport(base(t, 1))
	if _, body := send(t, rt, get(t, t.Context(), s.url)); body != "plain" {
		t.Fatalf("body %q", body)
	}
	// Far more than a first flight at once.
	var open []*http.Response
	for range 100 {
		resp, err := rt.RoundTrip(get(t, t.Context(), s.url))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp)
	}
	if n := outstanding(rt); n != 100 {
		t.Errorf("%d permits are out while 100 bodies are open", n)
	}
	for i, resp := range open {
		if i%2 == 0 {
			io.ReadAll(resp.Body)
		} else {
			resp.Body.Close()
		}
		resp.Body.Close()
	}
	if n := outstanding(rt); n != 0 {
		t.Errorf("%d permits are not back", n)
	}
}

// The permit comes back when the exchange fails, at any point.
func TestPermitsComeBack(t *testing.T) {
	block := make(chan struct{})
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "short")
		case "/wait":
			select {
			case <-block:
			case <-r.Context().Done():
			}
		case "/none":
			w.WriteHeader(204)
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer close(block)
	for _, major := range []int{1, 2} {
		rt := Transport(base(t, major))
		for _, path := range []string{"/abort", "/cut", "/wait", "/none", "/events"} {
			ctx, cancel := context.WithCancel(t.Context())
			if path == "/wait" {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
			resp, err := rt.RoundTrip(get(t, ctx, s.url+path))
			if path == "/events" {
				if n := outstanding(rt); n != 0 {
					t.Errorf("an event stream holds a permit")
				}
				cancel()
			}
			if err == nil {
				io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			cancel()
			if n := outstanding(rt); n != 0 {
				t.Errorf("HTTP/%d %s: %d permits are not back", major, path, n)
			}
		}
	}
	rt := Transport(base(t, 1))
	if _, err := rt.RoundTrip(get(t, t.Context(), "http://127.0.0.1:1")); err == nil || outstanding(rt) != 0 {
		t.Errorf("no server: error %v, %d permits out", err, outstanding(rt))
	}
}

// A client without credit waits, as long as its context allows, and says that
// nothing was sent.
func TestNoCredit(t *testing.T) {
	var sent atomic.Int32
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Add(1)
		g := wire.Grant{Epoch: 1, Seq: uint32(sent.Load()), Revive: time.Hour}
		w.Header().Set(field, wire.Header(wire.Reply{Grant: g, HasGrant: true}.Append(nil)))
	}))
	rt := Transport(base(t, 1), Wallet(credit.WalletConfig{MaxWait: 10 * time.Millisecond}))
	if resp, _ := send(t, rt, get(t, t.Context(), s.url)); replyIn(t, resp.Header) != nil {
		t.Error("credits of this hop are passed on")
	}
	closed := &closeSpy{Reader: strings.NewReader("x")}
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, closed)
	_, err := rt.RoundTrip(r)
	var refusal *live.Refusal
	if !errors.As(err, &refusal) || refusal.Reason.Sent() || !closed.closed {
		t.Errorf("error %v, body closed %v", err, closed.closed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := Transport(base(t, 1)).RoundTrip(get(t, ctx, s.url)); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if sent.Load() > 2 {
		t.Errorf("%d requests were sent", sent.Load())
	}
	if _, err := Transport(nil, Wallet(credit.WalletConfig{QueueLimit: -1})).RoundTrip(get(t, t.Context(), s.url)); err == nil {
		t.Error("a wrong configuration was accepted")
	}
}

type closeSpy struct {
	io.Reader
	closed bool
}

func (c *closeSpy) Close() error { c.closed = true; return nil }

// Tags and the time left go with the request; a refusal further down makes the
// outcome at this server, also when the handler hides it.
func TestChain(t *testing.T) {
	store := newGate(t, roomy(), nil)
	var tags wire.Tags
	var budget time.Duration
	var bag string
	storeServer := serve(t, Handler(store, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		tags, bag = live.TagsFrom(r.Context()), r.Header.Get("Baggage")
		d, _ := r.Context().Deadline()
		budget = time.Until(d)
	}), Trust(func(*http.Request) bool { return true })))
	rt := Transport(base(t, 2))
	var seen events
	entry := newGate(t, roomy(), seen.observe)
	entryServer := serve(t, Handler(entry, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resp, _ := send(t, rt, get(t, r.Context(), storeServer.url))
		if resp.StatusCode != 200 {
			io.WriteString(w, "from the cache")
		}
	}), Trust(func(*http.Request) bool { return true })))

	want := wire.Tags{Workflow: "pay", Class: work.Interactive, Priority: 9, Attempt: 1}
	in := want
	in.Budget = time.Minute
	b := base(t, 1)
	send(t, b, request(t, entryServer.url, in))
	if tags != want || budget <= 0 || budget > time.Minute {
		t.Errorf("at the store: %+v, %v left; want %+v", tags, budget, want)
	}
	if bag != "spillgate.workflow=pay,spillgate.class=interactive,spillgate.priority=9" {
		t.Errorf("baggage %q", bag)
	}
	store.Drain()
	if resp, body := send(t, b, request(t, entryServer.url, in)); resp.StatusCode != 200 || body != "from the cache" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	eventually(t, "both requests to be observed", func() bool { return len(seen.list()) == 2 })
	if e := seen.list(); e[0].Outcome != work.Done || e[1].Outcome != work.Dropped {
		t.Errorf("outcomes %v and %v, want done and dropped", e[0].Outcome, e[1].Outcome)
	}
}

// A client with more to send than a first flight gets to send it, over both
// versions: its window follows its demand.
func TestWindowFollowsDemand(t *testing.T) {
	for _, major := range []int{1, 2} {
		const callers = 30
		// The pool grows once an interval, which follows from the objective.
		gate := newGate(t, admission.Config{Objective: time.Second}, nil)
		var running, most atomic.Int32
		s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(50 * time.Millisecond)
		})))
		b := base(t, major)
		b.MaxIdleConnsPerHost = callers
		// Callers may wait: what is tested is the window, not their patience.
		rt := Transport(b, Wallet(credit.WalletConfig{MaxWait: time.Minute}))
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						resp, err := rt.RoundTrip(get(t, context.Background(), s.url))
						if err != nil {
							t.Error(err)
							return
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}
			})
		}
		eventually(t, "more to run at once than a first flight", func() bool { return most.Load() > callers/2 })
		close(stop)
		await.All(t, &wg, "the clients to end")
	}
}

// Servers are forgotten; nothing grows without end.
func TestHostsAreBounded(t *testing.T) {
	answer := func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("x")), ContentLength: 1, Request: r}, nil
	}
	rt := Transport(roundTrip(answer)).(*transport)
	var held []*http.Response
	for i := range 2 * maxHosts {
		resp, err := rt.RoundTrip(get(t, t.Context(), fmt.Sprintf("http://h%d/", i)))
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			resp.Body.Close()
		} else {
			held = append(held, resp)
		}
	}
	if n := len(rt.hosts); n > maxHosts {
		t.Errorf("%d hosts, want at most %d", n, maxHosts)
	}
	// None idle: the next goes without a wallet.
	for i := range maxHosts {
		resp, err := rt.RoundTrip(get(t, t.Context(), fmt.Sprintf("http://k%d/", i)))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, resp)
	}
	if n := len(rt.hosts); n > maxHosts {
		t.Errorf("%d hosts, want at most %d", n, maxHosts)
	}
	for _, resp := range held {
		resp.Body.Close()
	}
	rt.CloseIdleConnections()
	if n := len(rt.hosts); n != 0 {
		t.Errorf("%d hosts after CloseIdleConnections", n)
	}
	// The one that was used last is forgotten as well.
	last := fmt.Sprintf("http://h%d/", 2*maxHosts-1)
	resp, err := rt.RoundTrip(get(t, t.Context(), last))
	if err != nil || len(rt.hosts) != 1 {
		t.Fatalf("%s after CloseIdleConnections: %v, %d hosts", last, err, len(rt.hosts))
	}
	resp.Body.Close()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A client that comes back to a fresh account obeys its grants, although their
// numbers begin anew.
func TestReturningClient(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, text("x")))
	b := base(t, 2)
	rt := Transport(b)
	for range 20 {
		send(t, rt, get(t, t.Context(), s.url))
	}
	b.CloseIdleConnections()
	eventually(t, "the account to close", func() bool { return gate.Stats().Clients == 0 })
	var epochs []uint32
	for _, id := range []uint64{1, 1} {
		c := &conn{}
		c.meet(get(t, t.Context(), s.url))
		a := c.account(live.NewLedger(newAccount, (*account).close), id)
		epochs = append(epochs, a.take(&Target{}, wire.Grant{}).Epoch)
	}
	if epochs[0] == epochs[1] {
		t.Error("two accounts have one epoch")
	}
	send(t, rt, get(t, t.Context(), s.url))
	if gate.Stats().Clients != 1 {
		t.Error("no account after the return")
	}
}

func FuzzReplyField(f *testing.F) {
	f.Add(wire.Header(wire.Reply{HasGrant: true, Grant: wire.Grant{Window: 3}}.Append(nil)), false)
	f.Add(encodeField(wire.Reply{HasShed: true, Shed: wire.Shed{Reason: work.Delay, Retryable: true, Pushback: 5}}.Append(nil), true), true)
	f.Add("AQ", false)
	f.Fuzz(func(t *testing.T, value string, grpc bool) {
		answer := func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{fieldFor(grpc): {value}}, Body: http.NoBody, Request: r}, nil
		}
		rt := Transport(roundTrip(answer))
		r := httptest.NewRequest("POST", "http://x/", nil)
		if grpc {
			r.Header.Set("Content-Type", "application/grpc")
		}
		resp, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if v := resp.Header[fieldFor(grpc)]; v != nil {
			msg, err := decodeField(v, grpc)
			if err != nil {
				t.Fatal(err)
			}
			if reply, err := wire.ParseReply(msg); err != nil || reply.HasGrant || !reply.HasShed {
				t.Fatalf("passed on: %+v, %v", reply, err)
			}
		}
		if outstanding(rt) != 0 {
			t.Fatal("the permit is not back")
		}
	})
}

// headerless answers, and keeps the header of what it was asked with.
type headerless struct{ seen http.Header }

func (h *headerless) RoundTrip(r *http.Request) (*http.Response, error) {
	h.seen = r.Header
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// TestKeepHeader: tags go into the request's own header only where that is allowed, and
// no attempt may still be reading it.
func TestKeepHeader(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []TransportOption
		own  bool
	}{
		{"by default", nil, false},
		{"kept", []TransportOption{KeepHeader()}, true},
		{"with retries", []TransportOption{KeepHeader(), Retries(1)}, false},
	} {
		below := &headerless{}
		r := httptest.NewRequest("GET", "http://a/", nil)
		r.Header.Set("Own", "x")
		resp, err := Transport(below, test.opts...).RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		resp.Body.Close()
		if below.seen["Spillgate"] == nil || below.seen.Get("Own") != "x" {
			t.Errorf("%s: the header that was sent is %v", test.name, below.seen)
		}
		if own := r.Header["Spillgate"] != nil; own != test.own {
			t.Errorf("%s: tags in the request's own header: %v, want %v", test.name, own, test.own)
		}
	}
	// A body of no known length is watched, but stays the sender's in its request.
	body := io.NopCloser(strings.NewReader("x"))
	r := httptest.NewRequest("POST", "http://a/", body)
	r.ContentLength = -1
	before := r.Body
	resp, err := Transport(&headerless{}, KeepHeader()).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if r.Body != before {
		t.Errorf("the body of the request is now a %T", r.Body)
	}
}
