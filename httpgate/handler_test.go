package httpgate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) })
}

// The header of an answer is sent before the request has left. It says what the client has after that, not what it had
// before: what the request brings back it would hear of with its next answer alone, for which it may have no credit.
func TestTheHeaderSaysWhatTheRequestBringsBack(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := writerIn(w)
		own.account.mu.Lock()
		own.account.parts[0].grant.Window = 0 // as if the grant before had said so
		own.account.sum()
		own.account.mu.Unlock()
		io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
	})))
	resp, _ := send(t, base(t, 1), request(t, s.url, wire.Tags{Credits: true, Asks: true, Client: 7}))
	if r := replyIn(t, resp.Header); r == nil || !r.HasGrant || r.Grant.Window == 0 || int(r.Grant.Window) != gate.Stats().Issued {
		t.Errorf("the header says %+v, the only client of the gate has %d credits", r, gate.Stats().Issued)
	}
}

// A client that asks for credits gets them with every answer: HTTP/1.1 in the
// header, HTTP/2 in the header and in the trailer. A plain client
// notices nothing.
func TestCredits(t *testing.T) {
	for _, major := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", major), func(t *testing.T) {
			gate := newGate(t, roomy(), nil)
			s := serve(t, Handler(gate, text("hello")))
			b := base(t, major)
			var last wire.Grant
			for i := range 3 {
				resp, body := send(t, b, request(t, s.url, wire.Tags{Credits: true, Demand: 3, Asks: true, Client: 7}))
				if resp.ProtoMajor != major || body != "hello" {
					t.Fatalf("HTTP/%d, body %q", resp.ProtoMajor, body)
				}
				at, other := resp.Header, resp.Trailer
				if major == 2 {
					at, other = other, at
				}
				r := replyIn(t, at)
				if r == nil || !r.HasGrant || r.Grant.Window == 0 {
					t.Fatalf("answer %d: reply %+v, want a grant", i, r)
				}
				if got := replyIn(t, other); (got != nil) != (major == 2) || got != nil && !got.HasGrant {
					t.Errorf("answer %d: the field elsewhere: %+v", i, got)
				}
				if i > 0 && (r.Grant.Epoch != last.Epoch || !r.Grant.Newer(last)) {
					t.Errorf("grant %+v after %+v", r.Grant, last)
				}
				last = r.Grant
				if i > 0 && int(r.Grant.Window) < 4 {
					t.Errorf("window %d, want at least the demand and the request itself", r.Grant.Window)
				}
			}
			if got := gate.Stats().Clients; got != 1 {
				t.Errorf("%d clients, want 1", got)
			}
			plain, _ := http.NewRequest("GET", s.url, nil)
			resp, _ := send(t, b, plain)
			if replyIn(t, resp.Header) != nil || replyIn(t, resp.Trailer) != nil {
				t.Errorf("a plain client got the field: %v %v", resp.Header, resp.Trailer)
			}
			b.CloseIdleConnections()
			eventually(t, "the account to close with its connections", func() bool { return gate.Stats().Clients == 0 })
		})
	}
}

// One identity has one account over all its connections, and addresses cannot
// mint identities without end.
func TestIdentities(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, text("")))
	one, two := base(t, 1), base(t, 1)
	send(t, one, request(t, s.url, wire.Tags{Credits: true, Client: 7}))
	send(t, two, request(t, s.url, wire.Tags{Credits: true, Client: 7}))
	if got := gate.Stats().Clients; got != 1 {
		t.Errorf("%d clients after two connections of one, want 1", got)
	}
	one.CloseIdleConnections()
	time.Sleep(time.Millisecond) // the account must survive whenever the server notices
	// It asks, as an answer without news carries no grant, and no field either.
	if resp, _ := send(t, two, request(t, s.url, wire.Tags{Credits: true, Asks: true, Client: 7})); replyIn(t, resp.Header) == nil || !replyIn(t, resp.Header).HasGrant {
		t.Error("no grant on the second connection after the first closed")
	}
	for id := range uint64(3 * live.MaxBindings) {
		send(t, two, request(t, s.url, wire.Tags{Credits: true, Client: id + 1000}))
	}
	if got := gate.Stats().Clients; got > live.MaxBindings {
		t.Errorf("one connection has %d accounts, want at most %d", got, live.MaxBindings)
	}
	// A client with a connection to itself is never without, whatever others of
	// its address do: connections cost something.
	for id := range uint64(100) {
		b := base(t, 1)
		resp, _ := send(t, b, request(t, s.url, wire.Tags{Credits: true, Client: id + 100}))
		if replyIn(t, resp.Header) == nil {
			t.Errorf("client %d has no account", id)
		}
		before := gate.Stats().Clients
		for more := range uint64(3) {
			send(t, b, request(t, s.url, wire.Tags{Credits: true, Client: id*10 + more + 10_000}))
		}
		if got := gate.Stats().Clients; got > before && got > live.MaxIdentities+1 {
			t.Errorf("%d accounts after %d: identities were minted", got, before)
		}
	}
}

// Refused requests get the status, the hints and the exact facts, and never
// reach the handler.
func TestRefusals(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	var served atomic.Int32
	entered, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, Handler(gate, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		served.Add(1)
		entered <- struct{}{}
		<-leave
	})))
	b := base(t, 1)
	var wg sync.WaitGroup
	wg.Go(func() { send(t, b, request(t, s.url, wire.Tags{})) })
	await.Value(t, entered, "a request to reach the handler")

	// Out of time on arrival, and in the queue.
	for _, budget := range []time.Duration{1, 20 * time.Millisecond} {
		resp, body := send(t, b, request(t, s.url, wire.Tags{Budget: budget, Credits: true}))
		r := replyIn(t, resp.Header)
		if resp.StatusCode != 504 || r == nil || !r.HasShed || r.Shed.Retryable || resp.Header.Get("Retry-After") != "" || !r.HasGrant {
			t.Errorf("out of time: %d %v %+v %s", resp.StatusCode, resp.Header, r, body)
		}
	}
	gate.Drain()
	for _, method := range []string{"GET", "HEAD", "POST"} {
		r := request(t, s.url, wire.Tags{})
		r.Method = method
		resp, body := send(t, b, r)
		shed := replyIn(t, resp.Header)
		if resp.StatusCode != 503 || shed == nil || shed.Shed.Reason != work.Draining || !shed.Shed.Retryable || shed.Shed.Pushback <= 0 {
			t.Errorf("draining: %d %+v", resp.StatusCode, shed)
		}
		h := resp.Header
		if h.Get("Retry-After") == "" || h.Get("RateLimit") != `"capacity";r=0;t=`+h.Get("Retry-After") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("draining: header %v", h)
		}
		if method == "HEAD" {
			continue
		}
		var p struct {
			Type, Title, Reason string
			Status              int
			Retryable           bool
			Violated            []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil || p.Status != 503 || p.Reason != "draining" || !p.Retryable || len(p.Violated) != 1 {
			t.Errorf("problem %s: %+v, %v", body, p, err)
		}
	}
	close(leave)
	await.All(t, &wg, "the clients to end")
	if got := served.Load(); got != 1 {
		t.Errorf("%d requests reached the handler, want 1", got)
	}
}

func TestFormOfEachReason(t *testing.T) {
	for _, test := range []struct {
		reason work.Reason
		status int
		header string
	}{
		{work.Share, 429, `"credit";r=0;t=3`},
		{work.WalletFull, 429, `"credit";r=0;t=3`},
		{work.RetryBudget, 429, ``},
		{work.Rate, 429, `"rate";r=0;t=3`},
		{work.Delay, 503, `"capacity";r=0;t=3`},
		{work.QueueFull, 503, `"capacity";r=0;t=3`},
		{work.Downstream, 503, ``},
		{work.Expired, 504, ``},
		{work.Infeasible, 504, ``},
		{work.Canceled, 499, ``},
	} {
		pushback := 2001 * time.Millisecond
		if !test.reason.Retryable() {
			pushback = -1
		}
		w := httptest.NewRecorder()
		Refuse(w, httptest.NewRequest("GET", "/", nil), &live.Refusal{Reason: test.reason, Pushback: pushback})
		if w.Code != test.status || w.Header().Get("RateLimit") != test.header || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%v: %d %v %s", test.reason, w.Code, w.Header(), w.Body)
		}
		if want := map[bool]string{true: "3", false: ""}[pushback > 0]; w.Header().Get("Retry-After") != want {
			t.Errorf("%v: Retry-After %q, want %q", test.reason, w.Header().Get("Retry-After"), want)
		}
	}
}

// The ticket comes back once whatever the handler does.
func TestTicketsComeBack(t *testing.T) {
	var seen events
	gate := newGate(t, oneSlot(), seen.observe)
	inside := make(chan struct{})
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/abort-late":
			io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/wait":
			inside <- struct{}{}
			<-r.Context().Done()
		case "/error":
			http.Error(w, "no", 500)
		case "/outcome":
			SetOutcome(struct{ around }{around{w}}, work.Ignored)
		}
	})))
	for _, major := range []int{1, 2} {
		b := base(t, major)
		for _, test := range []struct {
			path string
			want work.Outcome
		}{{"/abort", work.Ignored}, {"/abort-late", work.Ignored}, {"/wait", work.Ignored}, {"/error", work.Done}, {"/", work.Done}, {"/outcome", work.Ignored}} {
			before := len(seen.list())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if test.path == "/wait" {
				go func() {
					<-inside
					cancel()
				}()
			}
			r, _ := http.NewRequestWithContext(ctx, "GET", s.url+test.path, nil)
			if resp, err := b.RoundTrip(r); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			eventually(t, test.path+" to be observed", func() bool { return len(seen.list()) > before })
			cancel()
			if got := seen.list()[before]; got.Outcome != test.want || len(seen.list()) != before+1 {
				t.Errorf("HTTP/%d %s: observed %+v, want one %v", major, test.path, seen.list()[before:], test.want)
			}
			if got := gate.Stats().Running; got != 0 {
				t.Fatalf("HTTP/%d %s: %d running afterwards", major, test.path, got)
			}
		}
	}
}

type around struct{ http.ResponseWriter }

func (a around) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Upgraded connections and streams hold no slot; with one slot, all of these are
// served at once.
func TestStreamsHoldNoSlot(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/upgrade":
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer c.Close()
			rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			rw.Flush()
			io.Copy(c, rw)
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/long":
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
		}
	})
	s := serve(t, Handler(gate, handler, HoldStreams(time.Millisecond)))

	nc, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(await.Patience))
	fmt.Fprintf(nc, "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	br := bufio.NewReader(nc)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("upgrade: %v %v", resp, err)
	}
	echo := func() {
		t.Helper()
		fmt.Fprintf(nc, "ping\n")
		if line, err := br.ReadString('\n'); line != "ping\n" {
			t.Fatalf("echo %q, %v", line, err)
		}
	}
	echo()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, major := range []int{1, 2} {
		for _, path := range []string{"/events", "/long"} {
			eventually(t, "the slot to be free", func() bool { return gate.Stats().Running == 0 })
			r, _ := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
			resp, err := base(t, major).RoundTrip(r)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: %v %v", path, resp, err)
			}
			defer resp.Body.Close()
		}
	}
	eventually(t, "the slot to be free", func() bool { return gate.Stats().Running == 0 })
	echo()
}

// Class, priority and workflow are believed from trusted peers only; budget and
// attempt from all. What was for this hop goes no further.
func TestTrust(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		var seen events
		gate := newGate(t, roomy(), seen.observe)
		var got wire.Tags
		var header http.Header
		var left time.Duration
		opts := []Option{}
		if trusted {
			opts = append(opts, Trust(Networks(netip.MustParsePrefix("127.0.0.0/8"))))
		}
		s := serve(t, Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got, header = live.TagsFrom(r.Context()), r.Header
			if d, ok := r.Context().Deadline(); ok {
				left = time.Until(d)
			}
		}), opts...))
		b := base(t, 1)
		rank := wire.Tags{Workflow: "pay", Class: work.Interactive, Priority: 3}
		tags := rank
		tags.Budget, tags.Attempt = time.Minute, 2
		r := request(t, s.url, tags)
		send(t, b, r)
		want := wire.Tags{Attempt: 2}
		if trusted {
			want = rank
			want.Attempt = 2
		}
		if got != want || left <= 0 || left > time.Minute || header[field] != nil {
			t.Errorf("trusted %v: tags %+v, want %+v; left %v, header %v", trusted, got, want, left, header)
		}
		// By baggage, which stays for others.
		r, _ = http.NewRequest("GET", s.url, nil)
		r.Header.Set("Baggage", "a=b,spillgate.class=interactive,spillgate.workflow=pay,spillgate.priority=3")
		send(t, b, r)
		wantBaggage := "a=b"
		if trusted {
			want, wantBaggage = rank, r.Header.Get("Baggage")
		} else {
			want = wire.Tags{}
		}
		if got != want || header.Get("Baggage") != wantBaggage {
			t.Errorf("trusted %v: tags by baggage %+v, want %+v; baggage %q", trusted, got, want, header.Get("Baggage"))
		}
		if e := seen.list(); len(e) != 2 || e[0].Class != got.Class {
			t.Errorf("trusted %v: observed %+v", trusted, e)
		}
	}
}

// Malformed tags are ignored and counted.
func TestMalformed(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	var malformed atomic.Int32
	s := serve(t, Handler(gate, text("ok"), OnMalformed(func(_ *http.Request, err error) {
		malformed.Add(1)
		if !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrVersion) {
			t.Errorf("%v wraps neither error", err)
		}
	})))
	b := base(t, 1)
	values := [][]string{
		{""}, {"!"}, {"////"}, {strings.Repeat("A", 20_000)}, {wire.Header([]byte{9})}, {wire.Header([]byte{1, 1, 8})},
		{wire.Header([]byte{1, 1, 8, 255, 255, 255, 255, 255, 255, 255, 255})}, {"AQ", "AQ"}, {"AQ=="},
	}
	for _, v := range values {
		r, _ := http.NewRequest("GET", s.url, nil)
		r.Header[field] = v
		if resp, body := send(t, b, r); resp.StatusCode != 200 || body != "ok" {
			t.Errorf("%.40q: %d %q", v, resp.StatusCode, body)
		}
	}
	if got := malformed.Load(); int(got) != len(values) {
		t.Errorf("%d counted, want %d", got, len(values))
	}
}

func TestExempt(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	gate.Drain()
	s := serve(t, Handler(gate, text("ok"), Exempt(Paths("/health", "/internal/"))))
	b := base(t, 1)
	for path, want := range map[string]int{"/health": 200, "/internal/x/y": 200, "/healthy": 503, "/internal": 503, "/": 503} {
		r, _ := http.NewRequest("GET", s.url+path, nil)
		if resp, _ := send(t, b, r); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// Several targets look like one window to a client.
func TestSpread(t *testing.T) {
	var targets []*Target
	for range 3 {
		targets = append(targets, NewTarget(newGate(t, roomy(), nil), text("")))
	}
	next := 0
	s := serve(t, Spread(func(*http.Request) *Target {
		if next == len(targets) {
			return nil
		}
		return targets[next]
	}))
	b := base(t, 2)
	windows := []uint32{}
	tags := wire.Tags{Credits: true, Client: 7}
	for next = range targets {
		resp, _ := send(t, b, request(t, s.url, tags))
		windows = append(windows, replyIn(t, resp.Trailer).Grant.Window)
	}
	if windows[0] == 0 || windows[1] <= windows[0] || windows[2] <= windows[1] {
		t.Errorf("windows %v, want each larger by that of one more target", windows)
	}
	targets[0].Close()
	targets[1].Close()
	next = 2
	resp, _ := send(t, b, request(t, s.url, tags))
	if got, want := replyIn(t, resp.Trailer).Grant.Window, targets[2].Gate().Stats().Issued; int(got) != want {
		t.Errorf("window %d after two of three targets left, want that of the third, %d", got, want)
	}
	next = 3
	if resp, _ := send(t, b, request(t, s.url, tags)); resp.StatusCode != 503 {
		t.Errorf("without a target: %d", resp.StatusCode)
	}
}

func TestGRPCTimeout(t *testing.T) {
	for s, want := range map[string]time.Duration{"1n": 1, "20m": 20 * time.Millisecond, "3S": 3 * time.Second, "99999999n": 99999999, "24H": 24 * time.Hour} {
		if got, ok := grpcTimeout(s); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "1", "n", "-1n", "+1n", "1x", "123456789n", "25H", "99999999H", "1 m"} {
		if got, ok := grpcTimeout(s); ok {
			t.Errorf("%q: %v, want none", s, got)
		}
	}
	for _, d := range []time.Duration{-5, 1, 99999999, 100_000_000, time.Hour, 24 * time.Hour} {
		got, ok := grpcTimeout(grpcTimeoutText(d))
		if want := max(d, 1); !ok || got < want || got > want+want/1e7+1 {
			t.Errorf("%v travels as %s, %v", d, grpcTimeoutText(d), got)
		}
	}
}

func FuzzRequestField(f *testing.F) {
	gate := newGate(f, roomy(), nil)
	h := Handler(gate, text("ok"), Trust(func(*http.Request) bool { return true })).(*handler)
	full := wire.Tags{Budget: time.Second, Workflow: "w", Class: 1, Priority: 5, Attempt: 1, Credits: true, Demand: 9, Client: 4}
	f.Add(wire.Header(full.Append(nil)), "spillgate.class=interactive,a=b", "1S", false)
	f.Add(encodeField(full.Append(nil), true), "spillgate.priority=%31", "99999999n", true)
	f.Add("AQ", ",,;=", "", false)
	f.Fuzz(func(t *testing.T, value, bag, timeout string, grpc bool) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header[fieldFor(grpc)] = []string{value}
		r.Header[baggage] = []string{bag}
		r.Header["Grpc-Timeout"] = []string{timeout}
		tags, speaks := h.readTags(r, nil, grpc)
		if r.Header[fieldFor(grpc)] != nil {
			t.Fatal("the field stays on the request")
		}
		if !speaks && (tags.Credits || tags.Budget != 0) {
			t.Fatalf("unread tags say %+v", tags)
		}
		if b := shortest(tags.Budget, grpc, r.Header); b < 0 {
			t.Fatalf("budget %v", b)
		}
		if tags.Class >= work.NumClasses || tags.Priority > work.MaxPriority || tags.Workflow != "" && !wire.ValidWorkflow(tags.Workflow) {
			t.Fatalf("tags %+v", tags)
		}
	})
}

// A service without a handler of its own is http.DefaultServeMux, as for http.Server; one without a gate is a
// mistake that is said at once, not with the first request.
func TestNilHandlerAndNilGate(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(newGate(t, roomy(), nil), nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/nothing/here", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("status %d, expected the 404 of http.DefaultServeMux", w.Code)
	}
	for name, call := range map[string]func(){
		"Handler":   func() { Handler(nil, http.NotFoundHandler()) },
		"Install":   func() { Install(nil, &http.Server{}) },
		"NewTarget": func() { NewTarget(nil, nil) },
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "spillgate.New") {
					t.Errorf("%s without a gate: %q, expected a message that says what is missing", name, said)
				}
			}()
			call()
		}()
	}
}

// An answer says something where there is something to say, and carries no field else.
func TestNothingNew(t *testing.T) {
	s := serve(t, Handler(newGate(t, roomy(), nil), text("")))
	b := base(t, 1)
	fields, grants := 0, 0
	for i := range 100 {
		resp, _ := send(t, b, request(t, s.url, wire.Tags{Credits: true, Asks: i == 0, Client: 7}))
		if r := replyIn(t, resp.Header); r != nil {
			fields++
			if r.HasGrant {
				grants++
			}
		}
	}
	if fields != grants || grants < 100/16-1 || grants > 20 {
		t.Errorf("%d of 100 answers carry the field, %d a grant; want the same, one in 16 or a few more", fields, grants)
	}
}

// With mode Off, a request that says nothing about itself is served without a ticket, and knows all the same that
// requests made for it are not at the edge; one with tags is served with them, and one behind Spread with a ticket.
func TestOffPasses(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	var ticket *live.Ticket
	var serving, tagged bool
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		ticket, serving, tagged = live.TicketFrom(ctx), live.Serving(ctx), live.TagsFrom(ctx).Workflow == "w"
	})
	target := NewTarget(gate, next)
	one := serve(t, Handler(gate, next, Trust(Everyone)))
	spread := serve(t, Spread(func(*http.Request) *Target { return target }, Trust(Everyone)))
	b := base(t, 1)
	for _, mode := range []live.Mode{live.Enforce, live.Off, live.Enforce} {
		gate.SetMode(mode)
		for _, url := range []string{one.url, spread.url} {
			for _, workflow := range []string{"", "w"} {
				r, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
				if workflow != "" {
					r = request(t, url, wire.Tags{Workflow: workflow})
				}
				send(t, b, r)
				if passes := mode == live.Off && workflow == "" && url == one.url; (ticket == nil) != passes || !serving || tagged != (workflow != "") {
					t.Errorf("%v, %s, workflow %q: ticket %v, serving %v, tagged %v", mode, url, workflow, ticket != nil, serving, tagged)
				}
			}
		}
	}
}

// A request of HTTP/1 that passes is handed on as it came, without a copy, if its connection is tracked: the connection's
// context says that a server works on it. Of others a copy does.
func TestOffPassesWithoutACopy(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	gate.SetMode(live.Off)
	for _, tracked := range []bool{false, true} {
		for _, major := range []int{1, 2} {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			if r.ProtoMajor = major; tracked {
				r = r.WithContext(&conn{Context: r.Context()})
			}
			Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
				if (got == r) != (tracked && major == 1) || !live.Serving(got.Context()) {
					t.Errorf("HTTP/%d, tracked %v: the same request %v, serving %v", major, tracked, got == r, live.Serving(got.Context()))
				}
			})).ServeHTTP(httptest.NewRecorder(), r)
			if live.Serving(r.Context()) {
				t.Errorf("HTTP/%d, tracked %v: the next request of the connection seems to be served", major, tracked)
			}
		}
	}
}

// What a tracked server serves beside its gate is at the edge of the system: calls made for it are retried.
func TestUngatedIsAtTheEdge(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	var serving bool
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { serving = live.Serving(r.Context()) })
	mux := http.NewServeMux()
	mux.Handle("/gated", Handler(gate, next))
	mux.Handle("/exempt", Handler(gate, next, Exempt(Paths("/exempt"))))
	mux.Handle("/", next)
	s := serve(t, mux)
	for _, major := range []int{1, 2} {
		b := base(t, major)
		for range 2 {
			for path, want := range map[string]bool{"/gated": true, "/exempt": false, "/other": false} {
				r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				if send(t, b, r); serving != want {
					t.Errorf("HTTP/%d: %s is being served: %v", major, path, serving)
				}
			}
		}
	}
}
