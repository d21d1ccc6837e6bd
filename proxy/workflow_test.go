package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// byTenant is a configuration in which a header names the workflow.
func byTenant(urls ...string) Config {
	c := to(urls...)
	c.Workflows = map[string]Workflow{"acme": {Class: work.Interactive, Priority: 3}, "slow": {Deadline: 50 * time.Millisecond}, classify.DefaultName: {Priority: 9}}
	c.Rules = []classify.Rule{{Match: classify.Match{Header: []classify.Header{{Name: "X-Tenant"}}}, Set: classify.Set{WorkflowHeader: "X-Tenant"}}}
	return c
}

// ask makes a request with some headers.
func ask(t testing.TB, c *http.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp, read(t, resp)
}

// What the rules say reaches the upstream in the tags, and what a stranger says
// does not; a trusted sender's tags go on where no rule has another opinion.
func TestWhatRulesSay(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		msg, _ := wire.FromHeader(r.Header.Get(wire.HeaderName))
		tags, err := wire.ParseTags(msg)
		fmt.Fprintf(w, "%s %v %d %v [%s]", tags.Workflow, tags.Class, tags.Priority, err, r.Header.Get("Baggage"))
	}))
	evil := wire.Header(wire.Tags{Workflow: "evil", Class: work.Interactive, Credits: true, Process: 3}.Append(nil))
	for _, major := range []int{1, 2} {
		for _, trusted := range []bool{false, true} {
			cfg := byTenant("http://" + addr)
			if trusted {
				cfg.Trust = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
			p := start(t, cfg)
			c := client(t, major, nil)
			for _, test := range []struct {
				header []string
				want   [2]string // of a stranger, and of a friend
			}{
				{nil, [2]string{" default 9 <nil> [spillgate.priority=9]", " default 9 <nil> [spillgate.priority=9]"}},
				{[]string{"X-Tenant", "acme"}, [2]string{"acme interactive 3 <nil> [spillgate.workflow=acme,spillgate.class=interactive,spillgate.priority=3]", ""}},
				{[]string{"X-Tenant", "acme", "Spillgate", evil}, [2]string{"acme interactive 3 <nil> [spillgate.workflow=acme,spillgate.class=interactive,spillgate.priority=3]", ""}},
				{[]string{"Spillgate", evil}, [2]string{" default 9 <nil> [spillgate.priority=9]", "evil interactive 9 <nil> [spillgate.workflow=evil,spillgate.class=interactive,spillgate.priority=9]"}},
				{[]string{"Baggage", "a=b,spillgate.workflow=evil"}, [2]string{" default 9 <nil> [a=b,spillgate.priority=9]", "evil default 9 <nil> [a=b,spillgate.workflow=evil,spillgate.priority=9]"}},
				{[]string{"X-Tenant", "who", "Baggage", "spillgate.workflow=evil"}, [2]string{" default 9 <nil> [spillgate.priority=9]", ""}},
			} {
				want := test.want[0]
				if trusted && test.want[1] != "" {
					want = test.want[1]
				}
				if _, got := ask(t, c, p.url, test.header...); got != want {
					t.Errorf("HTTP/%d, trusted %v, %v:\n%s, want\n%s", major, trusted, test.header, got, want)
				}
			}
		}
	}
}

// A path that one server takes for /checkout/x and another for one below /bulk/ reaches the upstream as it is written, with
// the rank of bulk.
func TestWhatRulesSayOfPathsWithTwoReadings(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s [%s]", r.RequestURI, r.Header.Get("Baggage"))
	}))
	interactive, low := work.Interactive, work.Priority(7)
	cfg := to("http://" + addr)
	cfg.Rules = []classify.Rule{
		{Match: classify.Match{Path: []string{"/checkout/"}}, Set: classify.Set{Class: &interactive}},
		{Match: classify.Match{Path: []string{"/bulk/"}}, Set: classify.Set{Priority: &low}},
	}
	p := start(t, cfg)
	for _, major := range []int{1, 2} {
		c := client(t, major, nil)
		for path, want := range map[string]string{
			"/checkout/x": "spillgate.class=interactive", "/bulk/x": "spillgate.priority=7",
			"/bulk/..%2fcheckout/x": "spillgate.priority=7", "/bulk/..;/checkout/x": "spillgate.priority=7", "/checkout/..%2Fbulk/x": "spillgate.priority=7",
		} {
			if _, got := ask(t, c, p.url+path); got != path+" ["+want+"]" {
				t.Errorf("HTTP/%d: %s, expected %s [%s]", major, got, path, want)
			}
		}
	}
}

// A workflow's deadline ends a request that brought none, and nothing else.
func TestDeadlines(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(200 * time.Millisecond):
			io.WriteString(w, "late")
		}
	}))
	cfg := byTenant("http://" + addr)
	cfg.Exempt = []string{"/health"}
	p := start(t, cfg)
	c := client(t, 1, nil)
	long := wire.Header(wire.Tags{Budget: time.Minute}.Append(nil))
	for _, test := range []struct {
		path   string
		header []string
		want   int
	}{
		{"/", []string{"X-Tenant", "slow"}, 504},
		{"/", []string{"X-Tenant", "acme"}, 200},
		{"/", []string{"X-Tenant", "slow", "Spillgate", long}, 200},
		{"/health", []string{"X-Tenant", "slow"}, 200},
	} {
		if resp, body := ask(t, c, p.url+test.path, test.header...); resp.StatusCode != test.want {
			t.Errorf("%s %v: %d %s, want %d", test.path, test.header, resp.StatusCode, body, test.want)
		}
	}
}

// A gate stays as long as it can be told what is new, and its successor begins with
// the slots that it found.
func TestReloadGates(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	cfg := byTenant("http://" + addr)
	cfg.Schedule.Fair = true
	p := start(t, cfg)
	c := client(t, 1, nil)
	now := func() *upstream { return p.state.Load().upstreams[0] }
	for _, step := range []struct {
		name   string
		change func(*Config)
		stays  bool
	}{
		{"nothing", func(c *Config) {}, true},
		{"a weight", func(c *Config) { c.Workflows["acme"] = Workflow{Weight: 3} }, true},
		{"a deadline and a rank", func(c *Config) { c.Workflows["acme"] = Workflow{Weight: 3, Deadline: time.Second, Priority: 1} }, true},
		{"a workflow more", func(c *Config) { c.Workflows["new"] = Workflow{Weight: 2} }, true},
		{"a workflow less", func(c *Config) { delete(c.Workflows, "slow") }, true},
		{"rules", func(c *Config) { c.Rules = nil }, true},
		{"room for names", func(c *Config) { c.Names = 8 }, true},
		{"mode", func(c *Config) { c.Mode = live.Monitor }, true},
		{"more workflows than there is room for", func(c *Config) {
			for i := range 100 {
				c.Workflows[fmt.Sprint("w", i)] = Workflow{}
			}
		}, false},
		{"the order", func(c *Config) { c.Schedule.Order = schedule.EDF }, false},
		{"rates", func(c *Config) { c.Rates.Enabled = true }, false},
		{"a guarantee", func(c *Config) { c.Workflows["acme"] = Workflow{Guarantee: 5} }, true},
		{"a weight of rates", func(c *Config) { c.Workflows["acme"] = Workflow{Guarantee: 5, Weight: 2} }, true},
		{"workflows come and go beside rates", func(c *Config) { delete(c.Workflows, "new"); c.Workflows["newer"] = Workflow{Guarantee: 1} }, true},
		{"a deadline beside rates", func(c *Config) { c.Workflows["acme"] = Workflow{Guarantee: 5, Weight: 2, Deadline: time.Second} }, true},
		{"the policy", func(c *Config) { c.Rates = Rates{Enabled: true, Policy: rates.MaxMinFair} }, false},
		{"health", func(c *Config) { c.Health.Failures = 3 }, false},
	} {
		cfg.Workflows = cloned(cfg.Workflows)
		step.change(&cfg)
		before := now()
		if ignored, err := p.Reload(withRequired(cfg, p)); err != nil || ignored != nil {
			t.Fatalf("%s: %v, %v", step.name, ignored, err)
		}
		if stays := now() == before; stays != step.stays {
			t.Errorf("%s: the gate stayed %v, want %v", step.name, stays, step.stays)
		}
		if a, b := before.gate.Stats().Limit, now().gate.Stats().Limit; a != b {
			t.Errorf("%s: %d slots, were %d", step.name, b, a)
		}
		if _, body := ask(t, c, p.url, "X-Tenant", "acme"); body != "ok" {
			t.Errorf("%s: %q", step.name, body)
		}
	}
	// A mistake in rules changes nothing.
	bad := cfg
	bad.Rules = []classify.Rule{{Set: classify.Set{Workflow: "none"}}}
	before := p.state.Load()
	if _, err := p.Reload(withRequired(bad, p)); err == nil || !strings.Contains(err.Error(), "rules[0].set.workflow") || p.state.Load() != before {
		t.Errorf("a mistake: %v", err)
	}
}

func cloned(m map[string]Workflow) map[string]Workflow {
	out := map[string]Workflow{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// Whatever names come, the labels are few, and nothing is lost from the sum.
func TestTallies(t *testing.T) {
	a := newTallies("x", nil)
	a.list(map[string]Workflow{"listed": {}, classify.DefaultName: {}})
	for i := range 1000 {
		a.observe(live.Event{Workflow: fmt.Sprint("w", i)})
		a.observe(live.Event{Workflow: "listed", Reason: work.Rate, Enforced: true})
		a.observe(live.Event{Reason: work.Delay})
		a.observe(live.Event{Reason: work.Reason(250)})
	}
	known := *a.known.Load()
	if len(known) != maxTallies+3 {
		t.Errorf("%d workflows, want %d", len(known), maxTallies+3)
	}
	got := [4]int64{known[otherName].admitted.Load(), known["listed"].refused[work.Rate].Load(), known[""].would[work.Delay].Load(), known["w0"].admitted.Load()}
	if want := [4]int64{1000 - maxTallies, 1000, 1000, 1}; got != want {
		t.Errorf("counts %v, want %v", got, want)
	}
	a.list(map[string]Workflow{"late": {}})
	if a.observe(live.Event{Workflow: "late"}); (*a.known.Load())["late"].admitted.Load() != 1 {
		t.Error("a workflow that was listed later has no count of its own")
	}
}

// The time of requests is told apart by workflow, in bounds of seconds.
func TestLatencyByWorkflow(t *testing.T) {
	addr := slowly(t)
	p := start(t, byTenant(addr))
	c := client(t, 1, nil)
	ask(t, c, p.url, "X-Tenant", "acme")
	ask(t, c, p.url)
	eventually(t, "both to be counted", func() bool {
		got := metrics(t, p)
		gate := strings.TrimPrefix(addr, "http://")
		for _, workflow := range []string{"acme", "default"} {
			labels := fmt.Sprintf(`{gate="%s",workflow="%s"`, gate, workflow)
			if !strings.Contains(got, "spillgate_workflow_latency_seconds_count"+labels+"} 1\n") || !strings.Contains(got, "spillgate_workflow_latency_seconds_bucket"+labels+`,le="0.0025"} `) {
				return false
			}
		}
		return true
	})
}

// Rates are shown, and their absence too.
func TestRatesInStatus(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	cfg := byTenant("http://" + addr)
	cfg.Rates = Rates{Enabled: true, Period: 10 * time.Millisecond}
	cfg.Workflows["acme"] = Workflow{Guarantee: 5, Weight: 2}
	p := start(t, cfg)
	c := client(t, 1, nil)
	eventually(t, "the rate that is offered", func() bool {
		ask(t, c, p.url, "X-Tenant", "acme")
		s := p.Status().Upstreams[0].Workflows["acme"]
		return s.Offered > 0 && s.Served > 0 && s.Rate == 0
	})
	if got := withRequired(cfg, p).WithDefaults().Rates; !reflect.DeepEqual(got, Rates{Enabled: true, Period: 10 * time.Millisecond, Quantile: 0.5}) {
		t.Errorf("rates %+v", got)
	}
}

// A limit is shown with where it comes from, who waits for it and who was dropped for
// it, on the status page and in metrics; a workflow without one has none.
func TestLimitsInStatus(t *testing.T) {
	limit := wire.Header(wire.Reply{Process: 9, Service: "stock", HasRate: true, Rate: 2}.Append(nil))
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Tenant") == "acme" {
			w.Header().Set(wire.HeaderName, limit)
		}
		io.WriteString(w, "ok")
	}))
	cfg := byTenant("http://" + addr)
	cfg.Rates = Rates{Enabled: true, Period: 5 * time.Millisecond}
	p := start(t, cfg)
	c := client(t, 1, nil)
	of := func(workflow string) WorkflowStatus { return p.Status().Upstreams[0].Workflows[workflow] }
	eventually(t, "the upstream's limit", func() bool {
		ask(t, c, p.url, "X-Tenant", "acme")
		return of("acme").Rate > 0
	})
	ask(t, c, p.url, "X-Tenant", "slow")
	const n = 8 // those that would wait for more than a second are dropped
	answers := make(chan int, n)
	for range n {
		go func() {
			resp, _ := ask(t, c, p.url, "X-Tenant", "acme")
			answers <- resp.StatusCode
		}()
	}
	eventually(t, "requests that wait, and such that do not", func() bool {
		s := of("acme")
		return s.Shaping > 0 && s.Refused["rate"] > 0
	})
	if s := of("acme"); !(s.Rate > 0 && s.Rate <= 2) || s.Downstream != s.Rate || s.Own != 0 || s.Tight != "stock" {
		t.Errorf("the limited one: %+v", s)
	}
	if s := of("slow"); s.Rate != 0 || s.Own != 0 || s.Downstream != 0 || s.Tight != "" || s.Shaping != 0 || s.Refused != nil {
		t.Errorf("the other one: %+v", s)
	}
	_, text := get(t, c, p.admin+PathMetrics)
	for _, want := range []string{
		`spillgate_workflow_rate{bound="limit",gate="` + addr + `",workflow="acme"} `,
		`spillgate_workflow_rate{bound="downstream",gate="` + addr + `",workflow="acme"} `,
		`spillgate_workflow_shaping{gate="` + addr + `",workflow="acme"} `,
		`spillgate_workflow_offered{gate="` + addr + `",workflow="slow"} `,
		`spillgate_workflow_requests_total{decision="refuse",gate="` + addr + `",reason="rate",workflow="acme"} `,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	for _, never := range []string{`bound="own"`, `workflow="slow"} 1e+09`} {
		if strings.Contains(text, never) {
			t.Errorf("%s in the metrics", never)
		}
	}
	served := 0
	for range n {
		if <-answers == 200 {
			served++
		}
	}
	if served == 0 || served == n {
		t.Errorf("%d of %d were served", served, n)
	}
}
