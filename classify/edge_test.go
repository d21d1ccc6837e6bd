package classify_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

func tenants(t testing.TB, more ...classify.Rule) *classify.Rules {
	t.Helper()
	r, err := classify.New(classify.Config{
		Workflows: map[string]classify.Defaults{"acme": {Class: work.Interactive, Priority: 4, Deadline: time.Minute}},
		Rules:     append(more, classify.Rule{Match: classify.Match{Header: []classify.Header{{Name: "X-Tenant"}}}, Set: classify.Set{WorkflowHeader: "X-Tenant"}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What the rules say arrives in a gate behind them, with and without credits, and
// what strangers say does not.
func TestHTTP(t *testing.T) {
	events := make(chan live.Event, 1)
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: 10 * time.Second}, Observe: func(e live.Event) { events <- e }})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	var left time.Duration
	var tags wire.Tags
	friend := func(r *http.Request) bool { return r.Header.Get("X-Friend") != "" }
	handler := httpgate.Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		left = 0
		if d, ok := r.Context().Deadline(); ok {
			left = time.Until(d)
		}
		tags = live.TagsFrom(r.Context())
	}), httpgate.Classify(tenants(t).HTTP(nil, friend)))
	server := httptest.NewServer(handler)
	defer server.Close()

	hostile := wire.Tags{Credits: true, Asks: true, Workflow: "evil", Class: work.Interactive, Priority: 1, Process: 7, Total: wire.Progress{Service: time.Hour}}
	credits := wire.Tags{Credits: true, Asks: true, Demand: 3, Attempt: 2, Budget: 20 * time.Second}
	with := func(t, rank wire.Tags) wire.Tags {
		t.Workflow, t.Class, t.Priority = rank.Workflow, rank.Class, rank.Priority
		return t
	}
	answered := 0
	acme := wire.Tags{Workflow: "acme", Class: work.Interactive, Priority: 4}
	for _, test := range []struct {
		name                 string
		tenant, friend, bags string
		tags                 *wire.Tags
		want                 wire.Tags // of which only the rank counts
		deadline             time.Duration
		answered             bool // in Spillgate's field, if there is something new to say
	}{
		{name: "plain"},
		{name: "tenant", tenant: "acme", want: acme, deadline: time.Minute},
		{name: "tenant with tags", tenant: "acme", tags: &hostile, want: acme, deadline: time.Minute, answered: true},
		{name: "tenant with credits", tenant: "acme", tags: &credits, want: acme, deadline: 20 * time.Second, answered: true},
		{name: "tenant with baggage", tenant: "acme", bags: "a=b,spillgate.workflow=evil,spillgate.priority=1", want: acme, deadline: time.Minute},
		{name: "stranger's tags", tags: &hostile, answered: true},
		{name: "stranger's baggage", bags: "spillgate.workflow=evil,a=b"},
		{name: "unknown tenant", tenant: "nobody"},
		{name: "friend's tags", friend: "1", tags: &hostile, want: hostile, answered: true},
		{name: "friend's baggage", friend: "1", bags: "spillgate.workflow=other", want: wire.Tags{Workflow: "other"}},
		{name: "friend's tags and baggage", friend: "1", tags: ptr(with(credits, acme)), bags: "spillgate.workflow=other", want: acme, deadline: 20 * time.Second, answered: true},
		{name: "malformed baggage", friend: "1", bags: "spillgate.priority=1000"},
	} {
		r, _ := http.NewRequest("GET", server.URL, nil)
		for k, v := range map[string]string{"X-Tenant": test.tenant, "X-Friend": test.friend, "Baggage": test.bags} {
			if v != "" {
				r.Header.Set(k, v)
			}
		}
		if test.tags != nil {
			r.Header.Set(wire.HeaderName, wire.Header(test.tags.Append(nil)))
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		e := <-events
		if got, want := (classify.Rank{Workflow: e.Workflow, Class: e.Class, Priority: e.Priority}), (classify.Rank{Workflow: test.want.Workflow, Class: test.want.Class, Priority: test.want.Priority}); got != want {
			t.Errorf("%s: %+v, want %+v", test.name, got, want)
		}
		if test.friend == "" && (tags.Process != 0 || tags.Total != (wire.Progress{})) {
			t.Errorf("%s: a stranger's %+v came through", test.name, tags)
		}
		if left > test.deadline || (left > 0) != (test.deadline > 0) || left < test.deadline-10*time.Second {
			t.Errorf("%s: %v left, want at most %v", test.name, left, test.deadline)
		}
		if speaks := resp.Header.Get(wire.HeaderName) != ""; speaks && !test.answered {
			t.Errorf("%s: answered in %v", test.name, resp.Header)
		} else if speaks {
			answered++
		}
	}
	if answered == 0 {
		t.Error("no request that speaks Spillgate's field was answered in it: answers that say something new are")
	}
	http.DefaultClient.CloseIdleConnections()
}

// The deadline of a workflow is not for a request that has one, in whatever form, nor
// for an upgrade.
func TestHTTPDeadline(t *testing.T) {
	classifier := tenants(t).HTTP(nil, nil)
	for _, test := range []struct {
		name    string
		change  func(*http.Request)
		claimed wire.Tags
		want    time.Duration
	}{
		{"none", func(*http.Request) {}, wire.Tags{}, time.Minute},
		{"budget", func(*http.Request) {}, wire.Tags{Budget: time.Hour}, time.Hour},
		{"gRPC without one", func(r *http.Request) { r.Header.Set("Content-Type", "application/grpc") }, wire.Tags{}, time.Minute},
		{"gRPC", func(r *http.Request) {
			r.Header.Set("Content-Type", "application/grpc")
			r.Header.Set("Grpc-Timeout", "1S")
		}, wire.Tags{}, 0},
		{"upgrade", func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, wire.Tags{}, 0},
		{"context", func(r *http.Request) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			t.Cleanup(cancel)
			*r = *r.WithContext(ctx)
		}, wire.Tags{}, 0},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("X-Tenant", "acme")
		test.change(r)
		if got := classifier(r, test.claimed).Budget; got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// Malformed tags are taken off and told, and other members of baggage stay.
func TestStamp(t *testing.T) {
	for _, grpc := range []bool{false, true} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header["X-Tenant"] = []string{"acme"}
		r.Header["Baggage"] = []string{"a=b", "spillgate.workflow=evil , c=d"}
		field := wire.HeaderName
		if grpc {
			field = "Spillgate-Bin"
			r.Header["Content-Type"] = []string{"application/grpc+proto"}
			r.Header["Grpc-Timeout"] = []string{"1S"}
		}
		r.Header[field] = []string{"!"}
		out, err := tenants(t).Stamp(0, r, nil, false)
		if !errors.Is(err, wire.ErrMalformed) || r.Header[field] != nil {
			t.Errorf("malformed tags: %v, %v left", err, r.Header[field])
		}
		if got, want := strings.Join(r.Header["Baggage"], "+"), "a=b,c=d,spillgate.workflow=acme,spillgate.class=interactive,spillgate.priority=4"; got != want {
			t.Errorf("baggage %s, want %s", got, want)
		}
		if (out.Deadline == 0) != grpc {
			t.Errorf("deadline %v, gRPC %v", out.Deadline, grpc)
		}
		msg := wire.Tags{Workflow: "evil", Credits: true, Demand: 3}.Append(nil)
		r.Header[field] = []string{wire.Header(msg)}
		if grpc {
			r.Header[field] = []string{base64.StdEncoding.EncodeToString(msg)}
		}
		if _, err := tenants(t).Stamp(0, r, nil, false); err != nil {
			t.Error(err)
		}
		msg, err = wire.FromHeader(r.Header[field][0])
		if grpc {
			msg, err = base64.RawStdEncoding.DecodeString(r.Header[field][0])
		}
		got, errParse := wire.ParseTags(msg)
		if want := (wire.Tags{Workflow: "acme", Class: work.Interactive, Priority: 4, Credits: true, Demand: 3}); got != want || err != nil || errParse != nil {
			t.Errorf("tags %+v, %v, %v, want %+v", got, err, errParse, want)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header["X-Tenant"], r.Header["Upgrade"] = []string{"acme"}, []string{"websocket"}
	if out, err := tenants(t).Stamp(0, r, nil, false); out.Deadline != 0 || err != nil {
		t.Errorf("an upgrade has the deadline %v, %v", out.Deadline, err)
	}
}

func FuzzStamp(f *testing.F) {
	f.Add("!", "spillgate.workflow=x", "acme", true, false)
	f.Add(wire.Header(wire.Tags{Workflow: "w", Priority: 3, Process: 9}.Append(nil)), "a=b,,spillgate.class=interactive", "", false, false)
	f.Add(base64.RawStdEncoding.EncodeToString(wire.Tags{Budget: 1}.Append(nil)), "", "x", true, true)
	f.Fuzz(func(t *testing.T, tags, bags, tenant string, grpc, trusted bool) {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header["Spillgate"], r.Header["Baggage"], r.Header["X-Tenant"] = []string{tags}, []string{bags}, []string{tenant}
		if grpc {
			r.Header["Content-Type"], r.Header["Spillgate-Bin"] = []string{"application/grpc"}, []string{tags}
		}
		rules := tenants(t)
		out, _ := rules.Stamp(0, r, nil, trusted)
		if !trusted && !rules.Listed(out.Workflow) {
			t.Fatalf("a stranger is %q", out.Workflow)
		}
		// What was stamped says what the rules said, to whoever believes it.
		plain, err := classify.New(classify.Config{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := plain.Stamp(0, r, nil, true)
		if err != nil || again.Rank != out.Rank {
			t.Fatalf("stamped again: %+v after %+v, %v", again.Rank, out.Rank, err)
		}
	})
}

// The adapter fits grpcgate, and believes as Stamp does.
func TestGRPC(t *testing.T) {
	r := tenants(t, classify.Rule{
		Match: classify.Match{Path: []string{"/shop.Cart/"}, Host: []string{"shop"}, Method: []string{"POST"}, Peer: nil},
		Set:   classify.Set{Workflow: "acme", Priority: ptr(work.Priority(1))},
	})
	var classifier grpcgate.Classifier = r.GRPC(nil, func(_ context.Context, method string) bool { return method == "/friend/f" })
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-tenant", "acme", ":authority", "shop:443"))
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}})
	claimed := wire.Tags{Workflow: "evil", Class: work.Interactive, Priority: 9, Process: 3, Attempt: 1, Credits: true, Client: 5}
	if got, want := classifier(ctx, "/shop.Cart/Add", claimed), (wire.Tags{Workflow: "acme", Class: work.Interactive, Priority: 1, Attempt: 1, Credits: true, Client: 5, Budget: time.Minute}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := classifier(ctx, "/other/Add", claimed); got.Workflow != "acme" || got.Priority != 4 {
		t.Errorf("tenant: %+v", got)
	}
	if got := classifier(t.Context(), "/friend/f", claimed); got != claimed {
		t.Errorf("friend: %+v, want %+v", got, claimed)
	}
	timed, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	if got := classifier(timed, "/shop.Cart/Add", wire.Tags{}); got.Budget != 0 {
		t.Errorf("a call with a deadline got %v", got.Budget)
	}
}

// What a request costs that no rule is about, and one with a rule and tags.
func BenchmarkStamp(b *testing.B) {
	none, err := classify.New(classify.Config{})
	if err != nil {
		b.Fatal(err)
	}
	plain := httptest.NewRequest("GET", "/", nil)
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			none.Stamp(0, plain, nil, false)
		}
	})
	rules, msg := tenants(b), wire.Header(wire.Tags{Credits: true, Demand: 3}.Append(nil))
	b.Run("tenant with credits", func(b *testing.B) {
		b.ReportAllocs()
		r := httptest.NewRequest("GET", "/", nil)
		tenant, sent := []string{"acme"}, []string{msg}
		for b.Loop() {
			r.Header["X-Tenant"], r.Header["Spillgate"] = tenant, sent
			rules.Stamp(0, r, nil, false)
		}
	})
}

// A path that servers read in several ways buys the rank of none for the work of another: the lowest counts.
func TestPathsHoweverWritten(t *testing.T) {
	low := ptr(work.Priority(9))
	rules := tenants(t,
		classify.Rule{Match: classify.Match{Path: []string{"/checkout/"}}, Set: classify.Set{Workflow: "acme"}},
		classify.Rule{Match: classify.Match{Path: []string{"/bulk/"}}, Set: classify.Set{Priority: low}},
		classify.Rule{Match: classify.Match{Path: []string{"/bounded/"}}, Set: classify.Set{Workflow: "acme", Use: classify.Use{AtOnce: 2}}})
	acme, bulk := classify.Rank{Workflow: "acme", Class: work.Interactive, Priority: 4}, classify.Rank{Priority: *low}
	other := classify.Rank{Priority: 4} // the class of one reading, the priority of the other
	for target, want := range map[string]classify.Rank{
		"/checkout/a": acme, "/checkout/a%20b": acme, "/checkout/a;v=1": acme, "/checkout/a%2fb": acme, "/checkout/a/../b": acme, "/checkout//a": acme,
		"/x/../checkout/a": other, "//checkout/a": other, "/checkout;x/a": other, "/checkout%2fa": other,
		"/checkout/../x": other, "/checkout/%2e%2e/x": other, "/checkout/..;/x": other, `/checkout/..%5cx`: other,
		"/bulk/a": bulk, "/checkout/../bulk/a": bulk, "/checkout/%2e%2e/bulk/a": bulk, "/checkout/..%2fbulk/a": bulk,
		"/bulk/..%2fcheckout/a": bulk, "/bulk/..;/checkout/a": bulk, `/bulk/..\checkout/a`: bulk, "/bulk//../checkout/a": bulk,
		"/bulk/../checkout/a": bulk, "/bulk/x%2f..%2f..%2fcheckout/a": bulk,
		// A server that takes parameters off before it decodes has /bulk/..;/checkout/a.
		"/checkout/..;/bulk/..%3b/checkout/a": bulk, "/checkout/" + strings.Repeat(";", 1<<13): bulk, "/checkout/" + strings.Repeat("a", 1<<13): acme,
	} {
		r, err := http.NewRequest("GET", "http://x"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := rules.Stamp(0, r, nil, false); got.Rank != want {
			t.Errorf("%.60s: %+v, expected %+v", target, got.Rank, want)
		}
	}
	r, err := http.NewRequest("GET", "http://x/bounded/..%2fcheckout/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := rules.Stamp(0, r, nil, false); got.Use.AtOnce != 2 {
		t.Errorf("of two of the same rank, that with a bound does not count: %+v", got)
	}
}

// Of each thing that a rule may grant, what all readings of a path have counts, whichever of them is the server's: a
// reading that has less of one thing buys nothing else with it.
func TestPathsGrantNothingTwice(t *testing.T) {
	at := func(p work.Priority, s classify.Set) classify.Set { s.Priority = &p; return s }
	yes := work.Interactive
	no := work.Default
	for name, tt := range map[string]struct{ a, b, want classify.Set }{
		"a bound beside a low priority":   {at(9, classify.Set{}), classify.Set{Use: classify.Use{AtOnce: 2}}, at(9, classify.Set{Use: classify.Use{AtOnce: 2}})},
		"the smaller bound":               {classify.Set{Use: classify.Use{AtOnce: 7}}, at(9, classify.Set{Use: classify.Use{AtOnce: 2}}), at(9, classify.Set{Use: classify.Use{AtOnce: 2}})},
		"the shorter objective":           {at(9, classify.Set{Objective: time.Minute}), classify.Set{Objective: time.Second}, at(9, classify.Set{Objective: time.Second})},
		"the gate's objective":            {at(9, classify.Set{Objective: time.Minute}), classify.Set{}, at(9, classify.Set{})},
		"the longer deadline":             {classify.Set{Deadline: time.Minute}, at(9, classify.Set{Deadline: time.Second}), at(9, classify.Set{Deadline: time.Minute})},
		"no deadline":                     {at(9, classify.Set{}), classify.Set{Deadline: time.Second}, at(9, classify.Set{})},
		"what one of them holds":          {at(9, classify.Set{}), classify.Set{Use: classify.Use{Kind: "exports", Holds: "table", NoCancel: true}}, at(9, classify.Set{Use: classify.Use{Kind: "exports", Holds: "table", NoCancel: true}})},
		"what one of them cannot":         {at(9, classify.Set{Use: classify.Use{Holds: "table"}}), classify.Set{Use: classify.Use{NoCancel: true}}, at(9, classify.Set{Use: classify.Use{Holds: "table", NoCancel: true}})},
		"not what one of them needs":      {at(9, classify.Set{Use: classify.Use{Needs: "table"}}), classify.Set{}, at(9, classify.Set{})},
		"what both need":                  {at(9, classify.Set{Use: classify.Use{Needs: "table"}}), classify.Set{Use: classify.Use{Needs: "table"}}, at(9, classify.Set{Use: classify.Use{Needs: "table"}})},
		"the default class that one sets": {classify.Set{Class: &no}, at(9, classify.Set{Class: &yes}), at(9, classify.Set{Class: &no})},
		"the default class that both set": {classify.Set{Class: &no}, at(9, classify.Set{Class: &no}), at(9, classify.Set{Class: &no})},
		"a class that one leaves open":    {classify.Set{}, at(9, classify.Set{Class: &yes}), at(9, classify.Set{})},
	} {
		rules, err := classify.New(classify.Config{Rules: []classify.Rule{
			{Match: classify.Match{Path: []string{"/a/"}}, Set: tt.a}, {Match: classify.Match{Path: []string{"/b/"}}, Set: tt.b}, {Match: classify.Match{Path: []string{"/both/"}}, Set: tt.want}}})
		if err != nil {
			t.Fatal(name, err)
		}
		is := func(target string) classify.Result {
			r, err := http.NewRequest("GET", "http://x"+target, nil)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := rules.Stamp(0, r, nil, false)
			for i, set := range []classify.Set{tt.a, tt.b} {
				if counts := out.Bound.Has(i); counts != (set.Use.AtOnce > 0) && target != "/both/x" {
					t.Errorf("%s: %s counts with rule %d: %v, which lets in %d at once", name, target, i, counts, set.Use.AtOnce)
				}
			}
			out.Rule, out.Bound = 0, classify.Places{}
			return out
		}
		for _, target := range []string{"/a/..%2fb/x", "/b/..%2fa/x"} {
			if got, want := is(target), is("/both/x"); got != want {
				t.Errorf("%s: %.30s is %+v, expected %+v", name, target, got, want)
			}
		}
	}
}

// Of two workflows of the same rank, the one that is granted less counts, whichever reading is of it.
func TestPathsOfWorkflowsHoweverWritten(t *testing.T) {
	cfg := classify.Config{
		Workflows: map[string]classify.Defaults{"much": {Weight: 3}, "plain": {}, "sure": {Guarantee: 10}, "little": {Weight: 0.5}},
	}
	for _, name := range []string{"much", "plain", "sure", "little"} {
		cfg.Rules = append(cfg.Rules, classify.Rule{Match: classify.Match{Path: []string{"/" + name + "/"}}, Set: classify.Set{Workflow: name}})
	}
	rules, err := classify.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lowestFirst := []string{"little", "plain", "much", "sure"}
	for i, low := range lowestFirst {
		for _, high := range lowestFirst[i+1:] {
			for _, target := range []string{"/" + low + "/..%2f" + high + "/a", "/" + high + "/..%2f" + low + "/a"} {
				r, err := http.NewRequest("GET", "http://x"+target, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got, _ := rules.Stamp(0, r, nil, false); got.Workflow != low {
					t.Errorf("%s is of %q, expected %q", target, got.Workflow, low)
				}
			}
		}
	}
}

// A workflow that is not listed has no part in what the default one is granted.
func TestPathsOfWorkflowsThatAreNotListed(t *testing.T) {
	rules, err := classify.New(classify.Config{
		Workflows: map[string]classify.Defaults{classify.DefaultName: {Weight: 5}, "listed": {Weight: 3}},
		Rules: []classify.Rule{
			{Match: classify.Match{Path: []string{"/named/"}}, Set: classify.Set{WorkflowHeader: "X-Job"}},
			{Match: classify.Match{Path: []string{"/listed/"}}, Set: classify.Set{Workflow: "listed"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/named/..%2flisted/a", "/listed/..%2fnamed/a"} {
		r, err := http.NewRequest("GET", "http://x"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Job", "mine")
		if got, _ := rules.Stamp(0, r, classify.NewNames(1), false); got.Workflow != "mine" {
			t.Errorf("%s is of %q, expected the one that is not listed", target, got.Workflow)
		}
	}
}
