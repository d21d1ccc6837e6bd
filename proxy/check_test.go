package proxy

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/spillgate/spillgate/internal/await"
)

// An upstream that fails its checks is put out without one request lost to it, and is back
// when they are good; readiness follows where it is told to.
func TestChecks(t *testing.T) {
	var ill [2]atomic.Bool
	var lost [2]atomic.Int64
	var urls []string
	for i := range ill {
		_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/base/well" && r.URL.RawQuery == "q=1" && ill[i].Load():
				w.WriteHeader(503)
			case r.URL.Path != "/base/well" && ill[i].Load():
				lost[i].Add(1)
			}
		}))
		urls = append(urls, "http://"+addr+"/base")
	}
	ill[0].Store(true)
	ill[1].Store(true)
	cfg := to(urls...)
	cfg.Health = Health{Ready: 2, Check: Check{Path: "/well?q=1", Interval: 10 * time.Millisecond, Timeout: 5 * time.Second, Bad: 2, Good: 2}}
	p := start(t, cfg)
	c := client(t, 1, nil)
	ready := func() bool {
		resp, _ := get(t, c, p.admin+PathReady)
		return resp.StatusCode == 200
	}
	out := func(i int) bool { return p.state.Load().upstreams[i].health.isOut.Load() }
	eventually(t, "a bad check of each", func() bool {
		s := p.state.Load()
		return s.upstreams[0].badChecks.Load() > 0 && s.upstreams[1].badChecks.Load() > 0
	})
	if ready() {
		t.Error("ready before an upstream has passed a check")
	}
	ill[0].Store(false)
	ill[1].Store(false)
	eventually(t, "readiness", ready)
	ill[1].Store(true)
	eventually(t, "the upstream to be put out", func() bool { return out(1) })
	before := lost[1].Load()
	for range 50 {
		get(t, c, p.url)
	}
	if n := lost[1].Load() - before; n != 0 {
		t.Errorf("%d requests went to an upstream that fails its checks", n)
	}
	if ready() {
		t.Error("ready with one upstream of two")
	}
	ill[0].Store(true)
	eventually(t, "both to be out", func() bool { return out(0) && out(1) })
	if resp, _ := get(t, c, p.url); resp.StatusCode != 200 {
		t.Errorf("status %d with all upstreams out, expected that one is tried", resp.StatusCode)
	}
	ill[0].Store(false)
	ill[1].Store(false)
	eventually(t, "both to be back", func() bool { return !out(0) && !out(1) })
	if !ready() {
		t.Error("not ready with both upstreams")
	}
	if got := metrics(t, p); !strings.Contains(got, `spillgate_upstream_checks_total{result="bad",upstream=`) || !strings.Contains(got, `spillgate_upstream_checks_total{result="good",upstream=`) {
		t.Errorf("no checks in the metrics:\n%s", got)
	}
}

// An upstream that answered requests with failures is back by its checks too, and one that
// fails its checks is not by an answer.
func TestChecksAndAnswers(t *testing.T) {
	h := &health{rule: Health{Failures: 1, Check: Check{Path: "/"}}.withDefaults()}
	yes := func(result) bool { return true }
	h.checked(0, true)
	h.checked(0, true) // good checks of the time before say nothing
	if left, _ := h.note(1, 0, failed, yes); !left {
		t.Fatal("not put out")
	}
	if _, back := h.checked(2, true); back {
		t.Error("back after one good check, expected two")
	}
	if _, back := h.checked(3, true); !back {
		t.Error("not back after two good checks")
	}
	for i := range 3 {
		if left, _ := h.checked(4, false); left != (i == 2) {
			t.Errorf("check %d: put out %v", i, left)
		}
	}
	if _, back := h.note(9, 8, wellDone, yes); back {
		t.Error("an answer brought back what fails its checks")
	}
	if _, due, _ := h.look(1<<60, false); due || h.take(1<<60, false) != nothingElse {
		t.Error("a probe of an upstream that fails its checks")
	}
}

// An upstream that nobody answers at is said at the start, with its address and why, and is
// no reason not to start.
func TestUnreachableUpstreamIsSaidAtTheStart(t *testing.T) {
	addr := closedPort(t)
	_, well := serve(t, http.NotFoundHandler())
	p := start(t, to("http://"+well, "http://"+addr))
	eventually(t, "the warning", func() bool { return strings.Contains(p.log.String(), "upstream cannot be reached") })
	line := p.log.String()[strings.Index(p.log.String(), "upstream cannot be reached"):]
	if !strings.Contains(line, "address="+addr) || !strings.Contains(line, "connection refused") {
		t.Errorf("the warning is %q", line)
	}
	if strings.Contains(line, "address="+well) {
		t.Errorf("a warning of an upstream that is there: %q", line)
	}
}

func TestMistakesInChecks(t *testing.T) {
	for _, c := range []struct {
		health Health
		want   string
	}{
		{Health{Ready: 1}, "health.ready"},
		{Health{Ready: -1}, "health.ready"},
		{Health{Check: Check{Interval: time.Second}}, "health.check.path"},
		{Health{Check: Check{Path: "well"}}, "health.check.path"},
		{Health{Check: Check{Path: "/a%zz"}}, "health.check.path"},
		{Health{Check: Check{Path: "/", GRPC: true}}, "health.check.path"},
		{Health{Check: Check{Path: "/", Service: "x"}}, "health.check.service"},
		{Health{Ready: 1, Check: Check{GRPC: true, Service: "x"}}, ""},
		{Health{Check: Check{Path: "/", Interval: time.Millisecond, Timeout: 2 * time.Hour, Bad: -1, Good: 101}}, "health.check.interval health.check.timeout health.check.bad health.check.good"},
		{Health{Ready: 1, Check: Check{Path: "/"}}, ""},
	} {
		var got []string
		c.health.check(func(field, _, _ string) { got = append(got, field) }, "health")
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: mistakes in %v, expected %s", c.health, got, c.want)
		}
	}
}

// An answer whose header is too large is the upstream's failure, and costs no memory.
func TestLargeAnswerHeader(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			for i := range 16 {
				w.Header().Set(fmt.Sprint("X-Large-", i), strings.Repeat("x", 1<<10))
			}
		}
	}))
	for _, scheme := range []string{"http", "h2c"} {
		cfg := to(scheme + "://" + addr)
		cfg.Limits.AnswerHeader, cfg.Health.Failures = 8<<10, 1
		p := start(t, cfg)
		c := client(t, 1, nil)
		if resp, _ := get(t, c, p.url); resp.StatusCode != 200 {
			t.Errorf("%s: status %d of a small header", scheme, resp.StatusCode)
		}
		if resp, _ := get(t, c, p.url+"/large"); resp.StatusCode != 502 {
			t.Errorf("%s: status %d of a header beyond the limit, expected 502", scheme, resp.StatusCode)
		}
		u := p.state.Load().upstreams[0]
		if kinds := u.failed.all(allKinds[:]...); kinds["large_header"] != 1 || kinds["reset"] != 0 {
			t.Errorf("%s: failures %v, expected one large_header", scheme, kinds)
		}
		if u.health.failed != 0 {
			t.Errorf("%s: a large header counts against the upstream", scheme)
		}
	}
}

// A gRPC server is asked by its health service, about one of its services.
func TestChecksOfGRPC(t *testing.T) {
	for _, service := range []string{"", "shop.Orders"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server, well := grpc.NewServer(), grpchealth.NewServer()
		grpc_health_v1.RegisterHealthServer(server, well)
		well.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_SERVING)
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(l) }()
		_, other := serve(t, http.NotFoundHandler()) // knows no such method
		cfg := to("h2c://"+l.Addr().String(), "h2c://"+other)
		cfg.Health.Check = Check{GRPC: true, Service: service, Interval: 10 * time.Millisecond, Timeout: 5 * time.Second, Bad: 1, Good: 1}
		p := start(t, cfg)
		ups := p.state.Load().upstreams
		eventually(t, "the server without health to be out", func() bool { return ups[1].health.isOut.Load() && ups[0].goodChecks.Load() > 0 })
		if ups[0].health.isOut.Load() {
			t.Error("a server that is well is out")
		}
		well.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		eventually(t, "the server to be out", ups[0].health.isOut.Load)
		well.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_SERVING)
		eventually(t, "the server to be back", func() bool { return !ups[0].health.isOut.Load() })
		server.Stop()
		await.Value(t, done, "the server to stop")
	}
}

// What is asked for is the path as it is configured, with what is encoded in it.
func TestCheckPathsAreAskedForAsTheyAre(t *testing.T) {
	const path = "/well/a%20b%2Fc?q=%20d"
	asked := make(chan string, 100)
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.RequestURI:
		default:
		}
	}))
	cfg := to("http://" + addr + "/base/")
	cfg.Health.Check = Check{Path: path, Interval: 10 * time.Millisecond}
	start(t, cfg)
	if got := await.Value(t, asked, "a check"); got != "/base"+path {
		t.Errorf("%s is asked for, expected /base%s", got, path)
	}
}
