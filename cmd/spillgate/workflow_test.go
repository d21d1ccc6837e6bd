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
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
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
	for end := time.Now().Add(time.Minute); strings.Count(p.log.String(), "configuration taken") < n; time.Sleep(5 * time.Millisecond) {
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

// served waits until that many requests of a workflow are counted, which is after their
// clients have the answers, and returns the status.
func (p *process) served(workflow string, n int64) proxy.UpstreamStatus {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s := p.status()
		if got := s.Workflows[workflow].Served; got >= n || time.Now().After(end) {
			if got != n {
				p.t.Errorf("%d requests of %s were served, want %d: %+v", got, workflow, n, s.Workflows)
			}
			return s
		}
	}
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

// load has that many clients of a tenant make requests, in the background, until ctx
// ends. A client that was served waits for pause, one that was refused for a second. Clients rather than a rate, because
// however slow the machine is, as many of them want to be served; and few requests a second,
// because a busy machine is to be slowed down by the upstream alone.
func (p *process) load(ctx context.Context, wg *sync.WaitGroup, c *http.Client, tenant string, clients int, pause time.Duration) {
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				wait := pause
				if p.get(c, tenant) != http.StatusOK {
					wait = time.Second
				}
				select {
				case <-ctx.Done():
				case <-time.After(wait):
				}
			}
		})
	}
}

// full waits until requests wait for a slot.
func (p *process) full() {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); p.status().Waiting == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) { // which only ends a hang
			p.t.Fatalf("nothing waits: %+v", p.status())
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
		if time.Now().After(end) { // which only ends a hang
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

// Of two tenants one wants far more than the upstream can do. The refusals are
// its own; and weights that change while the proxy runs change who gets how much,
// with the same gate.
func TestTenants(t *testing.T) {
	upstream := workers(t, 4, 50*time.Millisecond) // 80 requests/s
	// The limit is given, because on a busy machine the gate may find one at which the upstream
	// has the queue, and weights count in the gate's.
	const slots = "slots: 4\n"
	p := startProcess(t, upstream, tenants("1", "1")+slots)
	c := newClient(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.load(ctx, &wg, c, "loud", 60, 0)
	p.full()
	calmly, calmed := context.WithCancel(ctx)
	p.load(calmly, &wg, c, "calm", 1, 100*time.Millisecond) // within its share
	calm, loud := p.watch(func(calm, loud counts) bool { return calm.served+calm.refused >= 40 && loud.refused >= 40 })
	calmed()
	if calm.share() > loud.share()/2 || loud.refused < 10*calm.refused {
		t.Errorf("the tenant within its share: %+v, the one that floods: %+v", calm, loud)
	}

	// Both want too much now: as many to each, then four times as many to one.
	p.load(ctx, &wg, c, "calm", 60, 0)
	ratio := func() float64 {
		calm, loud := p.watch(func(calm, loud counts) bool { return calm.served+loud.served >= 200 })
		return float64(calm.served) / float64(max(loud.served, 1))
	}
	ratio() // of requests that came when one of them had all of the queue as well
	even := ratio()
	p.write(upstream, tenants("4", "1")+slots)
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
	p.served("default", 50)
	if all := p.served("calm", 1).Workflows; len(all) != 2 {
		t.Errorf("workflows %+v, want the default one and one more", all)
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
	p.served("default", 97)
	if all := p.served("stranger-2", 1).Workflows; len(all) != 5 {
		t.Errorf("workflows %+v, want three strangers and two more", all)
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
	p.served("calm", 1) // after new rules

	// Every mistake with its line, and nothing of the file.
	p.write(upstream, "mode: off\nworkflows:\n  calm: {wieght: 3}\nrules:\n  - match: {path: shop}\n    set: {workflow: gold}\nslo: fast\n")
	for _, want := range []string{"mistakes=4", `c.yaml:7:10: workflows.calm.wieght: unknown key`, `c.yaml:9:19: rules\[0\].match.path\[0\]`, `c.yaml:10:21: rules\[0\].set.workflow`, `c.yaml:11:1: slo: the key comes twice`} {
		p.waitFor(want)
	}
	get("calm")
	p.served("calm", 2) // after a bad file

	// What needs a restart is said and left as it was; the rest is taken.
	p.write(upstream, tenants("1", "1")+"limits: {streams: 3}\nlog: {format: json, level: warn}\nrates: {enabled: true}\n")
	if keys := p.waitFor(`changes that need a restart" keys="([^"]+)"`)[1]; keys != "limits, log.format" {
		t.Errorf("need a restart: %s", keys)
	}
	get("calm")
	p.write(upstream, tenants("1", "1")+"rates: {enabled: true}\n")
	p.taken(2)
	get("calm")
	p.served("calm", 2) // of the gate that came with rates

	// Weights and guarantees need no new gate, with rates neither.
	gates := strings.Count(p.log.String(), "upstream has a new gate")
	p.write(upstream, "workflows: {calm: {weight: 4, guarantee: 20}, new: {guarantee: 3}}\n"+
		"rules: [{match: {header: X-Tenant}, set: {workflow_header: X-Tenant}}]\nschedule: {fair: true}\nrates: {enabled: true}\n")
	p.taken(3)
	get("calm")
	get("new")
	p.served("calm", 3) // after new guarantees
	p.served("new", 1)
	if n := strings.Count(p.log.String(), "upstream has a new gate"); n != gates {
		t.Errorf("guarantees made a new gate:\n%s", p.log.String())
	}
	if dials != 1 {
		t.Errorf("%d connections, want one for all", dials)
	}
}
