package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/proxy"
)

// process is `spillgate proxy` with a configuration file, until the test ends.
type process struct {
	t          *testing.T
	path       string
	url, admin string
	log        *lockedBuffer
}

// startProcess runs the command with a file that begins with what is required.
func startProcess(t *testing.T, upstream, text string) *process {
	t.Helper()
	p := &process{t: t, path: filepath.Join(t.TempDir(), "c.yaml"), log: &lockedBuffer{}}
	p.write(upstream, text)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, proxyCommands(), []string{"proxy", "--config", p.path}, p.log, p.log) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("exit code %d", code)
		}
	})
	p.url = "http://" + p.waitFor(`listen=(127\S+)`)[1]
	p.admin = "http://" + p.waitFor(`admin=(127\S+)`)[1]
	return p
}

func (p *process) write(upstream, text string) {
	p.t.Helper()
	text = "slo: 500ms\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstreams: " + upstream + "\n" + text
	if err := os.WriteFile(p.path+".new", []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(p.path+".new", p.path); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) waitFor(pattern string) []string {
	p.t.Helper()
	expr := regexp.MustCompile(pattern)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if m := expr.FindStringSubmatch(p.log.String()); m != nil {
			return m
		}
	}
	p.t.Fatalf("no %s in the log:\n%s", pattern, p.log.String())
	return nil
}

// taken waits until the log says for the n-th time that a file was taken.
func (p *process) taken(n int) {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); strings.Count(p.log.String(), "configuration taken") < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("not taken:\n%s", p.log.String())
		}
	}
}

// status returns what the status page says of the one upstream.
func (p *process) status() proxy.UpstreamStatus {
	p.t.Helper()
	resp, err := http.Get(p.admin + proxy.PathStatus)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var s proxy.Status
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		p.t.Fatal(err)
	}
	return s.Upstreams[0]
}

// get makes one request of a tenant and returns the status.
func (p *process) get(c *http.Client, tenant string) int {
	r, _ := http.NewRequest("GET", p.url, nil)
	r.Header.Set("X-Tenant", tenant)
	resp, err := c.Do(r)
	if err != nil {
		return 0
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

// counts are a workflow's requests since some moment.
type counts struct{ served, refused int64 }

func count(s proxy.UpstreamStatus, workflow string) (c counts) {
	w := s.Workflows[workflow]
	c.served = w.Served
	for _, n := range w.Refused {
		c.refused += n
	}
	return c
}

// since returns what happened to a workflow between two looks.
func since(before, after proxy.UpstreamStatus, workflow string) counts {
	a, b := count(before, workflow), count(after, workflow)
	return counts{b.served - a.served, b.refused - a.refused}
}

func (c counts) share() float64 { return float64(c.refused) / max(float64(c.refused+c.served), 1) }

// load makes requests of a tenant at a steady rate, in the background, until ctx
// ends.
func (p *process) load(ctx context.Context, wg *sync.WaitGroup, c *http.Client, tenant string, rate int) {
	wg.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				wg.Go(func() { p.get(c, tenant) })
			}
		}
	})
}

// settled waits until the gate has found how much the upstream can do: what it let
// in before that has left.
func (p *process) settled() {
	p.t.Helper()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s := p.status()
		if s.Limit < 64 && s.Running <= s.Limit && s.Waiting > 0 {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("the gate found no limit: %+v", s)
		}
	}
}

// watch returns what happened to the two tenants from now on until it is enough.
func (p *process) watch(enough func(calm, loud counts) bool) (calm, loud counts) {
	p.t.Helper()
	before := p.status()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s := p.status()
		calm, loud = since(before, s, "calm"), since(before, s, "loud")
		if enough(calm, loud) {
			p.t.Logf("calm %+v, loud %+v", calm, loud)
			return calm, loud
		}
		if time.Now().After(end) {
			p.t.Fatalf("too few requests: %+v", s.Workflows)
		}
	}
}

// workers answers with that many at a time, each for that long.
func workers(t *testing.T, n int, service time.Duration) string {
	slots := make(chan struct{}, n)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		time.Sleep(service)
		<-slots
		io.WriteString(w, "ok")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func newClient(t *testing.T) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 1000}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func tenants(calm, loud string) string {
	return "workflows: {calm: {weight: " + calm + "}, loud: {weight: " + loud + "}}\n" +
		"rules: [{match: {header: X-Tenant}, set: {workflow_header: X-Tenant}}]\n" +
		"schedule: {fair: true}\n"
}

// Of two tenants one sends five times what the upstream can do. The refusals are
// its own; and weights that change while the proxy runs change who gets how much,
// with the same gate.
func TestTenants(t *testing.T) {
	upstream := workers(t, 4, 20*time.Millisecond) // 200 requests/s
	p := startProcess(t, upstream, tenants("1", "1"))
	c := newClient(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.load(ctx, &wg, c, "loud", 1000)
	p.settled()
	calmly, calmed := context.WithCancel(ctx)
	p.load(calmly, &wg, c, "calm", 50) // half of its share
	calm, loud := p.watch(func(calm, _ counts) bool { return calm.served+calm.refused >= 100 })
	calmed()
	if calm.share() > loud.share()/2 || loud.refused < 10*calm.refused {
		t.Errorf("the tenant within its share: %+v, the one that floods: %+v", calm, loud)
	}

	// Both want too much now: as many to each, then four times as many to one.
	p.load(ctx, &wg, c, "calm", 500)
	ratio := func() float64 {
		calm, loud := p.watch(func(calm, loud counts) bool { return calm.served+loud.served >= 300 })
		return float64(calm.served) / float64(max(loud.served, 1))
	}
	even := ratio()
	p.write(upstream, tenants("4", "1"))
	p.taken(1)
	ratio() // of requests that came under the old weights as well
	if odd := ratio(); odd < 2*even || even < 0.5 || even > 2 {
		t.Errorf("served %.2f to one with equal weights and %.2f to one with four to one", even, odd)
	}
	if strings.Contains(p.log.String(), "new gate") || strings.Contains(p.log.String(), "joined") {
		t.Errorf("weights made a new gate:\n%s", p.log.String())
	}
}

// Names that nobody listed share one workflow and one label, however many there
// are; with room the first of them have their own.
func TestUnknownTenants(t *testing.T) {
	upstream := workers(t, 4, 0)
	p := startProcess(t, upstream, tenants("1", "1"))
	c := newClient(t)
	for i := range 50 {
		p.get(c, fmt.Sprint("stranger-", i))
	}
	p.get(c, "calm")
	if all := p.status().Workflows; len(all) != 2 || all["default"].Served != 50 || all["calm"].Served != 1 {
		t.Errorf("workflows %+v, want 50 requests of the default one", all)
	}
	resp, err := c.Get(p.admin + proxy.PathMetrics)
	if err != nil {
		t.Fatal(err)
	}
	metrics, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if want := regexp.MustCompile(`spillgate_workflow_requests_total{decision="admit",gate="[^"]+",reason="none",workflow="default"} 50\n`); !want.Match(metrics) || strings.Contains(string(metrics), "stranger") {
		t.Errorf("metrics:\n%s", metrics)
	}
	p.write(upstream, tenants("1", "1")+"names: 3\n")
	p.taken(1)
	for i := range 50 {
		p.get(c, fmt.Sprint("stranger-", i))
	}
	if all := p.status().Workflows; len(all) != 5 || all["stranger-2"].Served != 1 || all["default"].Served != 97 {
		t.Errorf("workflows %+v, want three strangers and the default one", all)
	}
}

// A file that changes is taken as a whole or not at all, and the log says which
// and why, while a connection stays open and its requests are answered.
func TestReloadedWorkflows(t *testing.T) {
	upstream := workers(t, 4, 0)
	p := startProcess(t, upstream, "")
	c := newClient(t)
	c.Transport.(*http.Transport).MaxConnsPerHost = 1
	dials := 0
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	get := func(tenant string) {
		t.Helper()
		if code := p.get(c, tenant); code != 200 {
			t.Errorf("status %d", code)
		}
	}
	get("calm")
	p.write(upstream, tenants("1", "1"))
	p.taken(1)
	get("calm")
	if all := p.status().Workflows; all["calm"].Served != 1 {
		t.Errorf("after new rules: %+v", all)
	}

	// Every mistake with its line, and nothing of the file.
	p.write(upstream, "mode: off\nworkflows:\n  calm: {wieght: 3}\nrules:\n  - match: {path: shop}\n    set: {workflow: gold}\nslo: fast\n")
	for _, want := range []string{"mistakes=4", `c.yaml:7:10: workflows.calm.wieght: unknown key`, `c.yaml:9:19: rules\[0\].match.path\[0\]`, `c.yaml:10:21: rules\[0\].set.workflow`, `c.yaml:11:1: slo: the key comes twice`} {
		p.waitFor(want)
	}
	get("calm")
	if s := p.status(); s.Workflows["calm"].Served != 2 {
		t.Errorf("after a bad file: %+v", s.Workflows)
	}

	// What needs a restart is said and left as it was; the rest is taken.
	p.write(upstream, tenants("1", "1")+"limits: {streams: 3}\nlog: {format: json, level: warn}\nrates: {enabled: true}\n")
	if keys := p.waitFor(`changes that need a restart" keys="([^"]+)"`)[1]; keys != "limits, log.format" {
		t.Errorf("need a restart: %s", keys)
	}
	get("calm")
	p.write(upstream, tenants("1", "1")+"rates: {enabled: true}\n")
	p.taken(2)
	get("calm")
	if s := p.status(); s.Workflows["calm"].Served != 2 {
		t.Errorf("the gate that came with rates: %+v", s.Workflows)
	}

	// Weights and guarantees need no new gate, with rates neither.
	gates := strings.Count(p.log.String(), "upstream has a new gate")
	p.write(upstream, "workflows: {calm: {weight: 4, guarantee: 20}, new: {guarantee: 3}}\n"+
		"rules: [{match: {header: X-Tenant}, set: {workflow_header: X-Tenant}}]\nschedule: {fair: true}\nrates: {enabled: true}\n")
	p.taken(3)
	get("calm")
	get("new")
	if s := p.status(); s.Workflows["calm"].Served != 3 || s.Workflows["new"].Served != 1 {
		t.Errorf("after new guarantees: %+v", s.Workflows)
	}
	if n := strings.Count(p.log.String(), "upstream has a new gate"); n != gates {
		t.Errorf("guarantees made a new gate:\n%s", p.log.String())
	}
	if dials != 1 {
		t.Errorf("%d connections, want one for all", dials)
	}
}
