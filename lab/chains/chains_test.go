package chains

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/spillgate/spillgate/config"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/needs"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/proxy"
)

// The test binary is also the program of the children, and as much of `spillgate
// proxy` as a bed calls.
func TestMain(m *testing.M) {
	Child()
	if len(os.Args) == 4 && os.Args[1] == "proxy" && os.Args[2] == "--config" {
		if err := runProxy(os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func runProxy(file string) error {
	f, err := config.Load(file)
	if err != nil {
		return err
	}
	options := &slog.HandlerOptions{Level: f.Log.Level}
	log := slog.New(slog.NewTextHandler(os.Stderr, options))
	if f.Log.JSON {
		log = slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	p, err := proxy.New(f.Proxy, log)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return p.Run(ctx)
}

func processes(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

const ms = time.Millisecond

// fetch sends a GET and returns the status and the body.
func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	return request(t, url, nil)
}

// ask sends a GET and returns the status and the length of the body.
func ask(t *testing.T, url string, header http.Header) (status, length int) {
	t.Helper()
	status, body := request(t, url, header)
	return status, len(body)
}

func request(t *testing.T, url string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// answers checks what both kinds of servers do with single requests.
func answers(t *testing.T, server string) {
	t.Helper()
	if status, n := ask(t, "http://"+server+"/step/page?size=123456", nil); status != 200 || n != 123456 {
		t.Errorf("status %d, %d bytes, want 123456", status, n)
	}
	for _, bad := range []string{"/step/page?size=-1", "/step/page?size=x", "/step/page?size=999999999", "/step/order?route=0", "/step/order?route=1,,2",
		"/step/order?route=a", "/step/UPPER?route=1", "/step/order?route=" + strings.Repeat("1,", 60) + "1"} {
		if status, _ := ask(t, "http://"+server+bad, nil); status != 400 {
			t.Errorf("%s: status %d, want 400", bad, status)
		}
	}

	// The next service of the chain is this test.
	calls := make(chan *http.Request, 1)
	status := 200
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls <- r
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "an answer")
	}))
	defer next.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(next.URL, "http://"), ":")
	route := "http://" + server + "/step/order?size=5&route=" + port
	parent := span("")
	sent := http.Header{"Traceparent": {parent}, "Tracestate": {"a=b"}, "Baggage": {"x=y,spillgate.class=interactive"}, "Spillgate": {"AQ"}, "Cookie": {"mine"}}
	if status, n := ask(t, route+",1,2", sent); status != 200 || n != 5 {
		t.Errorf("a chain: status %d, %d bytes, want 5", status, n)
	}
	got := <-calls
	if got.URL.RequestURI() != "/step/order?size=5&route=1,2" {
		t.Errorf("the next service was asked for %s", got.URL)
	}
	for _, name := range []string{"Tracestate", "Baggage", "Spillgate"} {
		if got.Header.Get(name) != sent.Get(name) {
			t.Errorf("%s: %q went on as %q", name, sent.Get(name), got.Header.Get(name))
		}
	}
	if child := got.Header.Get("Traceparent"); len(child) != 55 || child[:36] != parent[:36] || child == parent {
		t.Errorf("traceparent %q went on as %q, want another span of the same trace", parent, child)
	}
	if got.Header.Get("Cookie") != "" || !strings.HasPrefix(got.Header.Get("User-Agent"), "server") {
		t.Errorf("what else went on: %v", got.Header)
	}
	status = 429
	if status, _ := ask(t, route, nil); status != 429 {
		t.Errorf("the next service answered 429 and this one %d", status)
	}
	if got := <-calls; len(got.Header.Get("Traceparent")) != 55 {
		t.Errorf("no trace was begun: %v", got.Header)
	}
	next.Close()
	if status, _ := ask(t, route, nil); status != 502 {
		t.Errorf("without a next service: status %d, want 502", status)
	}
}

// A light load, so that a busy machine keeps up with it.
func lightLoad(d time.Duration) Load {
	return Load{Chains: openloop.Steady(40, d), Singles: openloop.Steady(160, d), Least: 1000, Most: 2000, Seed: 1}
}

// drive makes a run and checks that every server did what was asked of it.
func drive(t *testing.T, ctx context.Context, b *Bed, l Load) Counts {
	t.Helper()
	before, err := b.Counts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.Run(ctx, l)
	if err != nil {
		t.Fatal(err)
	}
	chains, singles := m.Class[work.Interactive], m.Class[work.Default]
	t.Logf("chains %v, singles %v, lag %v", chains.Mean, singles.Mean, m.Lag)
	if chains.Served == 0 || singles.Served == 0 || chains.Served != chains.Offered || singles.Served != singles.Offered {
		t.Errorf("served %d of %d chains, %d of %d singles", chains.Served, chains.Offered, singles.Served, singles.Offered)
	}
	after, err := b.Counts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	visits := uint64(singles.Offered + 4*chains.Offered)
	if got := after.Arrived - before.Arrived; got != visits || after.Finished != after.Arrived {
		t.Errorf("%d requests at the servers, %d of %d finished; want %d", got, after.Finished, after.Arrived, visits)
	}
	return after
}

func TestServices(t *testing.T) {
	ctx := processes(t)
	for _, d := range []Discipline{
		{Name: "fifo", Kind: FIFO}, {Name: "priority", Kind: Weighted, Weight: 1}, {Name: "lottery", Kind: Lottery, Weight: 0.9},
		{Name: "static", Kind: Static, Weight: 0.5}, {Name: "share", Kind: Share},
	} {
		t.Run(d.Name, func(t *testing.T) {
			b, err := StartServices(ctx, Setting{Mean: 2 * ms, Seed: 1}, d)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			c := drive(t, ctx, b, lightLoad(1500*time.Millisecond))
			chains, singles := c.Class[work.Interactive], c.Class[work.Default]
			if chains.FIFO <= 0 || chains.FIFO+singles.FIFO != c.FIFO || chains.Waited+singles.Waited != c.Waited {
				t.Errorf("by class %+v, all %+v", c.Class, c)
			}
			if law, ok := c.LawDistance(); !ok || d.Kind == FIFO && law != 0 || d.Kind == Static && law <= 0 {
				t.Errorf("from the law: %.3f, %v", law, ok)
			}
			answers(t, b.servers[0])
		})
	}
}

// Who gives up while waiting is counted on both sides and never served; a proxy in
// front makes no difference.
func TestServicesWithoutPatience(t *testing.T) {
	ctx := processes(t)
	b, err := StartServices(ctx, Setting{Mean: 50 * ms, Seed: 1}, Discipline{Kind: Weighted, Weight: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Front(ctx, "", Modes()[0]); err != nil {
		t.Fatal(err)
	}
	m, err := b.Run(ctx, Load{Chains: openloop.Steady(20, time.Second), Singles: openloop.Steady(100, time.Second), Patience: [work.NumClasses]time.Duration{20 * ms, 100 * ms}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for class, c := range m.Class {
		if c.Abandoned == 0 || c.Served+c.Abandoned != c.Offered {
			t.Errorf("%v: of %d requests %d were served and %d abandoned", work.Class(class), c.Offered, c.Served, c.Abandoned)
		}
	}
	var c Counts
	for range 100 { // what is in service ends
		if c, err = b.Counts(ctx); err != nil {
			t.Fatal(err)
		}
		if c.Finished+c.Abandoned == c.Arrived {
			break
		}
		time.Sleep(50 * ms)
	}
	if c.Abandoned == 0 || c.Finished+c.Abandoned != c.Arrived {
		t.Errorf("at the servers: %+v", c)
	}
}

// Tomcats answer as services do, behind proxies too, and Ctrl-C leaves nothing of
// either. All in one test, because Tomcats take a while to start.
func TestTomcats(t *testing.T) {
	ctx, interrupt := context.WithCancel(processes(t))
	defer interrupt()
	needsTomcat(t)
	b, err := StartTomcats(ctx, Setting{Mean: 2 * ms, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	answers(t, b.servers[0])
	for _, m := range Modes() {
		if err := b.Front(ctx, "", m); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(b.fronts, b.servers) {
			t.Error("nothing stands in front")
		}
		l := lightLoad(1500 * time.Millisecond)
		l.Least, l.Most = smallLeast, smallMost
		if m.Name == "plain" { // gates may refuse cold servers
			drive(t, ctx, b, l)
		} else if m, err := b.Run(ctx, l); err != nil || m.Class[work.Default].Served == 0 || m.Class[work.Default].Failed+m.Class[work.Interactive].Failed > 0 {
			t.Errorf("%+v, %v", m, err)
		}
	}
	// In the order of the proxies, which see for themselves who goes on.
	orderly := Ordered()
	if err := b.Front(ctx, "", orderly[len(orderly)-1]); err != nil {
		t.Fatal(err)
	}
	l := lightLoad(1500 * time.Millisecond)
	l.Silent = true
	before, err := b.Counts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	after := drive(t, ctx, b, l)
	_, page := fetch(t, "http://"+b.admins[0]+"/.spillgate/classes")
	var found []string
	for line := range strings.Lines(page) {
		if f := strings.Fields(line); len(f) > 5 && f[2] == "GET" {
			found = append(found, f[0]+" "+f[3]+" "+f[4])
		}
	}
	slices.Sort(found)
	if got, err := b.Replay(); err != nil || got.Arrived != after.Arrived-before.Arrived || got.Waited < 0 {
		t.Errorf("the proxies' logs have %+v, %v; expected the %d visits that the servers had", got, err, after.Arrived-before.Arrived)
	}
	if want := []string{"generator /step/order interactive", "generator /step/page default", "server3 /step/order interactive"}; !slices.Equal(found, want) {
		t.Errorf("the first proxy knows %q, want %q:\n%s", found, want, page)
	}
	if err := b.Front(ctx, "", orderly[0]); err != nil {
		t.Fatal(err)
	}
	interrupted(t, ctx, b, interrupt)
}

func TestInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(processes(t))
	defer interrupt()
	b, err := StartServices(ctx, Setting{Mean: 2 * ms}, Discipline{Kind: Share})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Front(ctx, "", Modes()[0]); err != nil {
		t.Fatal(err)
	}
	interrupted(t, ctx, b, interrupt)
}

// interrupted ends the context in the middle of a run, as Ctrl-C does, and checks
// that nothing is left.
func interrupted(t *testing.T, ctx context.Context, b *Bed, interrupt func()) {
	t.Helper()
	before, err := b.Counts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.Run(ctx, lightLoad(time.Minute))
		ended <- err
	}()
	for { // until the run is under way
		c, err := b.Counts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if c.Arrived > before.Arrived {
			break
		}
		time.Sleep(10 * ms)
	}
	gone(t, b, func() {
		interrupt()
		if err := <-ended; err == nil {
			t.Error("a run that was cut off has no error")
		}
		b.Close()
	})
}

func needsTomcat(t *testing.T) {
	t.Helper()
	if os.Getenv("CATALINA_HOME") == "" {
		needs.Dir(t, "/usr/share/tomcat10")
	}
	needs.Program(t, "java")
	needs.Program(t, "javac")
}

// gone checks that nothing of a bed is left after end.
func gone(t *testing.T, b *Bed, end func()) {
	t.Helper()
	children := append(slices.Clone(b.children), b.proxies...)
	if len(children) == 0 {
		t.Fatal("the bed has no processes")
	}
	end()
	for _, c := range children {
		select {
		case <-c.Exited():
		default:
			t.Errorf("process %d is still there", c.Pid())
		}
		if err := syscall.Kill(-c.Pid(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the group of process %d: %v, want none", c.Pid(), err)
		}
	}
	for _, addr := range append(slices.Clone(b.servers), b.fronts...) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Errorf("somebody listens on %s", addr)
		}
	}
	if _, err := os.Stat(b.dir); b.dir != "" && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files are left in %s: %v", b.dir, err)
	}
}

// What does not come up says why, and leaves nothing.
func TestStartFails(t *testing.T) {
	ctx := processes(t)
	b, err := StartServices(ctx, Setting{}, Discipline{Kind: FIFO})
	if err != nil {
		t.Fatal(err)
	}
	err = b.Front(ctx, "", Mode{Name: "broken", Config: "slo: fast\n"})
	expect(t, err, `slo: "fast"`)
	gone(t, b, b.Close)

	_, err = StartServices(ctx, Setting{Servers: 99}, Discipline{Kind: "lifo"})
	expect(t, err, "Servers is 99", `Kind is "lifo"`)

	t.Setenv("CATALINA_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err = StartTomcats(ctx, Setting{})
	expect(t, err, "Tomcat 10 in ", "java: ", "javac: ", "scripts/deps.sh")
	if !errors.Is(err, ErrNoTomcat) {
		t.Error("the error is not ErrNoTomcat")
	}
}

func TestExperimentsAreComplete(t *testing.T) {
	for _, e := range Experiments() {
		if e.Name == "" || e.Title == "" || e.About == "" || !e.Live || e.Run == nil {
			t.Errorf("%q is not complete", e.Name)
		}
	}
}
