package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const someTrace = "0af7651916cd43dd8448eb211c80319c"

func parent(trace string, span int) string { return fmt.Sprintf("00-%s-%016x-01", trace, span) }

// goesOn is a server that calls another one for /order, through where, and hands on
// nothing but the trace; /page it answers itself.
type goesOn struct {
	where  string // host:port
	client *http.Client
	hold   chan struct{} // if set, /page and /order wait for it before they go on
}

func (g *goesOn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.hold != nil {
		select {
		case <-g.hold:
		case <-r.Context().Done():
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, "/order") {
		out, err := http.NewRequestWithContext(r.Context(), "GET", "http://"+g.where+r.URL.Path, nil)
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		out.Header.Set("User-Agent", "shop/1.0")
		if v := r.Header.Get("Traceparent"); v != "" {
			out.Header.Set("Traceparent", v[:36]+"00000000000000aa-01")
		}
		resp, err := g.client.Do(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		w.WriteHeader(resp.StatusCode)
		fmt.Fprintf(w, "shop, %s", body)
		return
	}
	fmt.Fprint(w, "page")
}

// shop starts a server that goes on, behind a proxy with one slot, in front of next.
func shop(t testing.TB, next string, cfg Config) (*running, *goesOn) {
	t.Helper()
	g := &goesOn{client: client(t, 1, nil)}
	_, addr := serve(t, g)
	cfg.Upstreams = []Upstream{{URL: "http://" + addr}}
	cfg.Egress = []Egress{{Address: "127.0.0.1:0", Name: "stock", URL: "http://" + next}}
	if cfg.Slots == (Slots{}) {
		cfg.Slots = Slots{1, 1}
	}
	cfg.Share.Service = "shop"
	p := start(t, cfg)
	g.where = p.EgressAddrs()[0].String()
	return p, g
}

// from makes a request as somebody.
func from(t testing.TB, who, url string, header ...string) (*http.Response, string) {
	t.Helper()
	return ask(t, client(t, 1, nil), url, append([]string{"User-Agent", who}, header...)...)
}

// TestSlotWhileAway: with one slot, a request that has called another server stands
// in nobody's way.
func TestSlotWhileAway(t *testing.T) {
	called, release := make(chan struct{}, 10), make(chan struct{})
	_, next := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		<-release
		fmt.Fprint(w, "stock")
	}))
	p, _ := shop(t, next, Config{})
	answers := make(chan string, 2)
	for range 2 {
		go func() {
			_, body := from(t, "web", p.url+"/order")
			answers <- body
		}()
	}
	await.Value(t, called, "the call to arrive")
	await.Value(t, called, "the call to arrive") // the second would wait for the first one's slot
	if _, body := from(t, "web", p.url+"/page"); body != "page" {
		t.Errorf("answer %q", body)
	}
	u := p.state.Load().upstreams[0]
	if st := p.Status(); st.Upstreams[0].Running != 0 || st.Upstreams[0].Share.Away != 2 || st.Egress[0].Matched != 2 || st.Inside != 2 {
		t.Errorf("%+v, %+v, %+v", st.Upstreams[0], st.Upstreams[0].Share, st.Egress)
	}
	close(release)
	for range 2 {
		if body := await.Value(t, answers, "an answer"); body != "shop, stock" {
			t.Errorf("answer %q", body)
		}
	}
	eventually(t, "all to have ended", func() bool { return u.loose.Load() == 0 && p.traces.count() == 0 && p.outside.Load() == 0 })
}

// TestLimitAway: beyond Limits.Away a request keeps its slot, and nobody else has it.
func TestLimitAway(t *testing.T) {
	called, release := make(chan struct{}, 10), make(chan struct{})
	_, next := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		<-release
	}))
	p, _ := shop(t, next, Config{Limits: Limits{Away: 1}})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { from(t, "web", p.url+"/order") })
		await.Value(t, called, "the call to arrive")
	}
	all.Go(func() { from(t, "web", p.url+"/order") })
	eventually(t, "the third to wait", func() bool {
		st := p.Status().Upstreams[0]
		return st.Running == 1 && st.Waiting == 1 && st.Share.Away == 1 && st.Share.Kept == 1
	})
	close(release)
	await.All(t, &all, "the clients to end")
}

// TestLearnsWhoGoesOn: what calls others becomes interactive, from there its calls are
// believed by a proxy that trusts, and the admin's page says why.
func TestLearnsWhoGoesOn(t *testing.T) {
	share2 := Share{Order: LearnedShare, Period: 10 * time.Millisecond}
	_, stock := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "stock [%s]", r.Header.Get("Baggage"))
	}))
	cfg := to("http://" + stock)
	cfg.Trust = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	cfg.Slots, cfg.Share = Slots{2, 2}, Share{Order: LearnedShare, Service: "stock"}
	last := start(t, cfg)
	first, _ := shop(t, last.addr, Config{Share: share2})
	var body string
	for range 12 {
		from(t, "web", first.url+"/page")
		_, body = from(t, "web/2.0 (x)", first.url+"/order/123456")
	}
	if want := "shop, stock [spillgate.class=interactive]"; body != want {
		t.Errorf("answer %q, want %q", body, want)
	}
	find := func(p *running, caller, method string) ClassStatus {
		for _, c := range p.Classes() {
			if c.Caller == caller && c.Method == method {
				return c
			}
		}
		t.Errorf("no %s by %s in %+v", method, caller, p.Classes())
		return ClassStatus{}
	}
	if c := find(first, "web", "GET /order/*"); c.Class != "interactive" || c.Why != "hops" || c.Hops != 1 || c.Callee != "shop" || c.Isolated <= 0 {
		t.Errorf("%+v", c)
	}
	if c := find(first, "web", "GET /page"); c.Class != "default" || c.Why != "neither" {
		t.Errorf("%+v", c)
	}
	// Behind, nothing goes on; the call says itself what it is of.
	if c := find(last, "shop", "GET /order/*"); c.Class != "interactive" || c.Why != "tag" || c.Hops != 0 || c.Ratio <= 1 {
		t.Errorf("%+v", c)
	}
	eventually(t, "a decision", func() bool {
		s := first.Status().Upstreams[0].Share
		return s.Reason != "early" && s.Weight > 0 && s.Admitted["interactive"] > 0
	})
	_, text := get(t, client(t, 1, nil), first.admin+PathClasses)
	for _, want := range []string{"caller", "GET /order/*", "hops", "whole/own", "weight", "stock"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var page struct {
		Classes   []ClassStatus
		Upstreams []struct {
			Upstream string
			Weight   float64
		}
	}
	if _, text := get(t, client(t, 1, nil), first.admin+PathClasses+"?format=json"); json.Unmarshal([]byte(text), &page) != nil || len(page.Classes) != 2 || len(page.Upstreams) != 1 || page.Upstreams[0].Weight == 0 {
		t.Errorf("JSON is %s", text)
	}
	_, text = get(t, client(t, 1, nil), first.admin+PathMetrics)
	for _, want := range []string{"spillgate_share_weight{", `spillgate_classes{class="interactive"`, `why="hops"`, "spillgate_share_decisions_total{", `spillgate_egress_calls_total{call="matched"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if _, text := get(t, client(t, 1, nil), start(t, to("http://"+stock)).admin+PathClasses); !strings.Contains(text, "off") {
		t.Errorf("without share: %s", text)
	}
}

// TestProgressIsTold: the answer says what the whole chain took, without what it
// waited in between.
func TestProgressIsTold(t *testing.T) {
	var away atomic.Int64 // for how long the call waits in the callee
	_, next := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func(began time.Time) { away.Store(int64(time.Since(began))) }(time.Now())
		time.Sleep(300 * time.Millisecond)
		w.Header().Set("Spillgate", wire.Header(wire.Reply{HasProgress: true, Progress: wire.Progress{Service: 40 * time.Millisecond, Work: 40 * time.Millisecond}}.Append(nil)))
		fmt.Fprint(w, "stock")
	}))
	for _, major := range []int{1, 2} {
		p, _ := shop(t, next, Config{Trust: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Share: Share{Order: LearnedShare}})
		tags := wire.Header(wire.Tags{Elapsed: wire.Progress{Service: 10 * time.Second, Work: 10 * time.Second}}.Append(nil))
		began := time.Now()
		resp, body := ask(t, client(t, major, nil), p.url+"/order", "Spillgate", tags)
		rest := time.Since(began) - time.Duration(away.Load()) // on the way, and in the shop
		if body != "shop, stock" {
			t.Errorf("answer %q", body)
		}
		values := resp.Header["Spillgate"]
		if major == 2 {
			values = resp.Trailer["Spillgate"]
		}
		reply, ok := decodeReply(values, false)
		if !ok || !reply.HasProgress || reply.Progress.Service < 40*time.Millisecond || reply.Progress.Service > 40*time.Millisecond+rest {
			t.Errorf("HTTP/%d: %v, %+v, want from 40ms to %v more", major, ok, reply, rest)
		}
		// Ten seconds of it were before.
		eventually(t, "a class", func() bool { return len(p.Classes()) > 0 }) // it is learned behind the answer
		for _, c := range p.Classes() {
			if c.Ratio < 2 || c.Isolated > (40*time.Millisecond+rest).Seconds() {
				t.Errorf("%+v, expected at most %v", c, 40*time.Millisecond+rest)
			}
		}
	}
}

// TestWhoGivesTheClass: a rule before the configured classes, these before a trusted
// sender, he before what was learned; and in fifo nobody.
func TestWhoGivesTheClass(t *testing.T) {
	seen := make(chan string, 1)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var tags wire.Tags
		err := wire.ParseBaggage(r.Header.Get("Baggage"), &tags)
		seen <- fmt.Sprintf("%v %v", tags.Class, err)
	}))
	interactive, standard := work.Interactive, work.Default
	cfg := to("http://" + addr)
	cfg.Trust = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	cfg.Slots = Slots{1, 1}
	cfg.Workflows = map[string]Workflow{"fast": {Class: work.Interactive}}
	cfg.Rules = []classify.Rule{
		{Match: classify.Match{Path: []string{"/ruled"}}, Set: classify.Set{Class: &interactive}},
		{Match: classify.Match{Path: []string{"/slow"}}, Set: classify.Set{Class: &standard}},
		{Match: classify.Match{Path: []string{"/flow"}}, Set: classify.Set{Workflow: "fast"}},
	}
	cfg.Share = Share{Order: FixedShare, Weight: 0.7, Caller: "X-Who", Classes: []share.Override{
		{Caller: "boss", Class: work.Interactive}, {Method: "GET /told", Class: work.Default}, {Method: "GET /slow", Class: work.Interactive}}}
	claim := []string{"Baggage", "a=b,spillgate.class=interactive"}
	for _, fifo := range []bool{false, true} {
		if fifo {
			cfg.Share.Order, cfg.Share.Weight = OneFIFO, 0
		}
		p := start(t, cfg)
		for _, test := range []struct {
			path   string
			header []string
			want   work.Class
			why    string
		}{
			{"/ruled", nil, work.Interactive, "rule"},
			{"/slow", claim, work.Default, "rule"},
			{"/flow", nil, work.Interactive, "workflow"},
			{"/told", claim, work.Default, "override"},
			{"/any", []string{"X-Who", "boss"}, work.Interactive, "override"},
			{"/any", append(claim, "X-Who", "x"), work.Interactive, "tag"},
			{"/any", []string{"X-Who", "y"}, work.Default, "few"},
			{"/any", []string{"X-Who", "boss", "X-Who", "boss"}, work.Default, "few"},
		} {
			resp, _ := ask(t, client(t, 1, nil), p.url+test.path, test.header...)
			if resp.StatusCode != 200 {
				t.Fatal(resp.Status)
			}
			want := test.want
			if fifo {
				want = work.Default
			}
			if got := await.Value(t, seen, "what the server saw"); got != want.String()+" <nil>" {
				t.Errorf("fifo %v, %+v: the server was told %s", fifo, test, got)
			}
			eventually(t, "the request to be learned", func() bool { return len(p.Classes()) > 0 && p.traces.count() == 0 && p.active.Load() == 0 })
			if c := p.Classes()[0]; c.Class != test.want.String() || c.Why != test.why {
				t.Errorf("fifo %v, %+v: shown as %s, %s", fifo, test, c.Class, c.Why)
			}
		}
	}
}

// TestInteractiveFirst: while both wait, interactive requests go first with priority,
// and in order of arrival with fifo.
func TestInteractiveFirst(t *testing.T) {
	for _, order := range []ClassOrder{OnePriority, OneFIFO} {
		t.Run(order.String(), func(t *testing.T) {
			var mu sync.Mutex
			var served []string
			hold := make(chan struct{})
			_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-hold
				mu.Lock()
				served = append(served, r.URL.Path)
				mu.Unlock()
			}))
			cfg := to("http://" + addr)
			cfg.Slots, cfg.Share = Slots{1, 1}, Share{Order: order, Classes: []share.Override{{Method: "GET /chain", Class: work.Interactive}}}
			p := start(t, cfg)
			var all sync.WaitGroup
			for i, path := range []string{"/first", "/a", "/b", "/chain", "/chain"} {
				all.Go(func() { from(t, "web", p.url+path) })
				eventually(t, "the request to be there", func() bool {
					st := p.Status().Upstreams[0]
					return st.Running+st.Waiting == i+1
				})
			}
			close(hold)
			await.All(t, &all, "the clients to end")
			// The class that waited first may have one turn before the weights count.
			want := []string{"[/first /chain /chain /a /b]", "[/first /a /chain /chain /b]"}
			if order == OneFIFO {
				want = []string{"[/first /a /b /chain /chain]"}
			}
			if got := fmt.Sprint(served); !slices.Contains(want, got) {
				t.Errorf("served %s, want one of %s", got, want)
			}
		})
	}
}

// TestHostileTraces: what strangers send as traces costs them no more than their own
// slots; calls of nobody pass.
func TestHostileTraces(t *testing.T) {
	_, next := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Traceparent")) }))
	p, g := shop(t, next, Config{Share: Share{Order: LearnedShare}, Slots: Slots{100, 100}})
	c := client(t, 1, nil)

	// Malformed ones are replaced, and the call is found by the new one.
	for i, bad := range [][]string{{"00-xyz"}, {parent(someTrace, 1), parent(someTrace, 2)}, {"00-" + strings.Repeat("0", 32) + "-0000000000000001-01"}, {strings.Repeat("x", 5000)}} {
		var header []string
		for _, v := range bad {
			header = append(header, "Traceparent", v)
		}
		_, body := ask(t, c, p.url+"/order", header...)
		if !strings.HasPrefix(body, "shop, 00-") || strings.Contains(body, bad[0]) {
			t.Errorf("%q went on as %q", bad, body)
		}
		if got := p.exits[0].matched.Load(); got != int64(i+1) {
			t.Errorf("%d calls belong to a request, want %d", got, i+1)
		}
	}
	if n := p.traces.malformed.Load(); n != 4 {
		t.Errorf("%d malformed", n)
	}

	// Straight to the egress, with traces of nobody and with none.
	where := "http://" + g.where
	for _, header := range [][]string{nil, {"Traceparent", parent(someTrace, 1)}, {"Traceparent", "x"}} {
		if resp, _ := ask(t, c, where+"/order", header...); resp.StatusCode != 200 {
			t.Errorf("%q: %s", header, resp.Status)
		}
	}
	if x := p.exits[0]; x.strange.Load() != 1 || x.untraced.Load() != 2 {
		t.Errorf("strange %d, untraced %d", x.strange.Load(), x.untraced.Load())
	}
	if resp, _ := ask(t, c, where+"/order", "Spillgate", "nonsense"); resp.StatusCode != 200 {
		t.Errorf("nonsense tags: %s", resp.Status)
	}

	// One trace with everything: some are found by it, the others just served.
	g.hold = make(chan struct{})
	var all sync.WaitGroup
	const many = maxOfTrace + 10
	for range many {
		all.Go(func() { from(t, "web", p.url+"/order", "Traceparent", parent(someTrace, 7)) })
	}
	u := p.state.Load().upstreams[0]
	eventually(t, "all to be inside", func() bool { return u.gate.Stats().Running == many })
	if n := p.traces.count(); n != maxOfTrace {
		t.Errorf("%d are found by their trace, want %d", n, maxOfTrace)
	}
	if n := p.traces.crowded.Load(); n != 10 {
		t.Errorf("%d were too many, want 10", n)
	}
	close(g.hold)
	await.All(t, &all, "the clients to end")
	eventually(t, "nothing to be left", func() bool {
		s := u.gate.Stats()
		return p.traces.count() == 0 && u.loose.Load() == 0 && s.Running == 0 && s.Waiting == 0
	})
}

// TestCallsThatNeverEnd: a caller who leaves takes his request along, and the call of
// a server that stays in it is cut off when the proxy stops.
func TestCallsThatNeverEnd(t *testing.T) {
	called := make(chan struct{}, 1)
	_, next := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		<-r.Context().Done()
	}))
	// A server that does not notice that its caller left.
	g := &goesOn{client: client(t, 1, nil)}
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	}))
	cfg := to("http://" + addr)
	cfg.Egress = []Egress{{Address: "127.0.0.1:0", URL: "http://" + next}}
	cfg.Slots, cfg.Share = Slots{1, 1}, Share{Order: LearnedShare}
	cfg.Drain.Timeout = 50 * time.Millisecond
	p := start(t, cfg)
	g.where = p.EgressAddrs()[0].String()
	ctx, leave := context.WithCancel(context.Background())
	r, _ := http.NewRequestWithContext(ctx, "GET", p.url+"/order", nil)
	gone := make(chan error, 1)
	go func() { _, err := client(t, 1, nil).Do(r); gone <- err }()
	await.Value(t, called, "the call to arrive")
	leave()
	await.Value(t, gone, "the request to end")
	u := p.state.Load().upstreams[0]
	eventually(t, "the request to have ended", func() bool { return p.traces.count() == 0 && u.loose.Load() == 0 && p.active.Load() == 0 })
	if n := p.outside.Load(); n != 1 {
		t.Errorf("%d calls are under way, want the one", n)
	}
	p.stop()
	if err := p.wait(t); err != nil {
		t.Error(err)
	}
	if n := p.outside.Load(); n != 0 {
		t.Errorf("%d calls are left", n)
	}
}

// TestEgressFails: a callee that is not there is a 502 for the server, and no failure
// of it.
func TestEgressFails(t *testing.T) {
	p, _ := shop(t, "127.0.0.1:1", Config{})
	if resp, body := from(t, "web", p.url+"/order"); resp.StatusCode != http.StatusBadGateway || !strings.HasPrefix(body, "shop, ") {
		t.Errorf("%s %q", resp.Status, body)
	}
	if x := p.exits[0]; x.failed.Load() != 1 || x.matched.Load() != 1 {
		t.Errorf("failed %d", x.failed.Load())
	}
}

// TestReloadKeepsClasses: a new configuration keeps what is known of classes and the
// gate, as long as neither slots nor classes change.
func TestReloadKeepsClasses(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	cfg := to("http://" + addr)
	cfg.Slots, cfg.Share = Slots{1, 1}, Share{Order: LearnedShare}
	p := start(t, cfg)
	cfg = p.state.Load().cfg
	from(t, "web", p.url+"/page")
	eventually(t, "the class to be known", func() bool { return len(p.Classes()) == 1 })
	u := p.state.Load().upstreams[0]
	reload := func(change func(*Config)) []string {
		t.Helper()
		next := cfg
		change(&next)
		ignored, err := p.Reload(next)
		if err != nil {
			t.Fatal(err)
		}
		cfg = next
		return ignored
	}
	same := u.shares.Load()
	reload(func(c *Config) { c.Exempt = []string{"/x"} })
	if u.shares.Load() != same {
		t.Error("the controller is another, and nothing of it changed")
	}
	reload(func(c *Config) { c.Share.MaxHarm = 0.5 })
	if u.shares.Load() == same || u.shares.Load() == nil || len(p.Classes()) != 1 || p.state.Load().upstreams[0] != u {
		t.Error("new limits of harm are a new controller, with the old classes and gate")
	}
	reload(func(c *Config) { c.Share.Order, c.Share.Weight = FixedShare, 0.8 })
	if st := p.Status(); u.shares.Load() != nil || len(st.Classes) != 1 || st.Upstreams[0].Share.Weight != 0.8 {
		t.Errorf("%+v", st.Upstreams[0].Share)
	}
	reload(func(c *Config) { c.Share.Classes = []share.Override{{Caller: "x"}} })
	if len(p.Classes()) != 0 {
		t.Error("with other classes all are learned anew")
	}
	reload(func(c *Config) { c.Slots = Slots{2, 2} })
	if st := p.Status().Upstreams[0]; st.Limit != 2 {
		t.Errorf("%d slots, want 2", st.Limit)
	}
	if ignored := reload(func(c *Config) { c.Egress = []Egress{{Address: "127.0.0.1:0", URL: "http://127.0.0.1:1"}} }); fmt.Sprint(ignored) != "[egress]" {
		t.Errorf("ignored %v, want egress", ignored)
	}
	reload(func(c *Config) { c.Share = Share{} })
	if st := p.Status(); st.Classes != nil || st.Upstreams[0].Share != nil {
		t.Errorf("%+v after it was turned off", st)
	}
	from(t, "web", p.url+"/page")
}

func TestParseTrace(t *testing.T) {
	good := parent(someTrace, 5)
	for text, want := range map[string]bool{
		good: true, "cc" + good[2:]: true, "cc" + good[2:] + "-what-ever": true, good + "-x": false, good + "x": false, "ff" + good[2:]: false,
		strings.ToUpper(good): false, good[:54]: false, "": false, "00-" + someTrace + "-0000000000000000-01": false,
		"00-" + strings.Repeat("0", 32) + "-0000000000000001-01": false, strings.Replace(good, "-", "_", 1): false, good[:53] + "0g": false,
		"cc" + good[2:] + "-" + strings.Repeat("x", 300): false,
	} {
		id, ok := parseTrace(text)
		if ok != want || ok && fmt.Sprintf("%x", id) != someTrace {
			t.Errorf("%q: %x, %v", text, id, ok)
		}
	}
	h := http.Header{"Tracestate": {"a=b"}}
	id := newTrace(h)
	if got, ok, malformed := traceOf(h); got != id || !ok || malformed || h["Tracestate"] != nil {
		t.Errorf("a new trace: %v", h)
	}
}

func FuzzParseTrace(f *testing.F) {
	f.Add(parent(someTrace, 5))
	f.Add("cc-" + someTrace + "-0000000000000001-01-more")
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := parseTrace(text)
		if ok && (id == traceID{} || len(text) < 55 || fmt.Sprintf("%x", id) != text[3:35]) {
			t.Errorf("%q: %x", text, id)
		}
	})
}

func TestMethodAndCaller(t *testing.T) {
	for path, want := range map[string]string{
		"/": "GET /", "/orders/17": "GET /orders/*", "/v1/orders/0af76519-16cd": "GET /v1/orders/*", "/a/b/c/d/e/f/g/h": "GET /a/b/c/d/e/f/*",
		"/" + strings.Repeat("x", 41): "GET /*", "/a\x00b": "GET /*", "/step/order": "GET /step/order", "/über": "GET /*",
	} {
		r := &http.Request{Method: "GET", Header: http.Header{}}
		r.URL = mustURL(t, "http://x/")
		r.URL.Path = path
		if got := httpgate.Kind(r); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	for value, want := range map[string]string{"": "", "curl/8.5.0": "curl", "Mozilla/5.0 (X11) y": "Mozilla", "server3": "server3", "a\tb": "", strings.Repeat("x", 99): strings.Repeat("x", 64)} {
		if got := caller(http.Header{"User-Agent": {value}}, "User-Agent"); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	if got := caller(http.Header{"X-Who": {"shop/1 b"}}, "X-Who"); got != "" {
		t.Errorf("a space: %q", got)
	}
}

// TestShortTimes: without a word from the callee, the time of a call without queues
// is about the tenth of its times.
func TestShortTimes(t *testing.T) {
	var k kinds
	key := share.Key{Method: "m"}
	x := uint64(1)
	last := time.Duration(0)
	for range 20000 {
		x = x*6364136223846793005 + 1442695040888963407
		took := time.Duration(float64(x>>40)/float64(1<<24)*float64(time.Second)) + 1 // 0 to 1 s, evenly
		if got := k.isolated(key, took); got > took {
			t.Fatalf("%v of a call that took %v", got, took)
		}
		last = time.Duration(k.all[key].short)
	}
	if last < 40*time.Millisecond || last > 250*time.Millisecond {
		t.Errorf("%v, want about 100ms", last)
	}
	for i := range maxKinds + 1 {
		k.isolated(share.Key{Caller: fmt.Sprint(i)}, time.Second)
	}
	if len(k.all) > maxKinds {
		t.Errorf("%d kinds are remembered", len(k.all))
	}
}

func mustURL(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
