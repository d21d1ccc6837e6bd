package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/await"
)

// serveOn serves HTTP/1.1 and cleartext HTTP/2 at an address until the test ends.
func serveOn(t testing.TB, address string, h http.Handler) {
	t.Helper()
	l, err := listenOn(address)
	if err != nil {
		t.Fatal(err)
	}
	serveAt(t, l, h)
}

// serveAt is serveOn for a listener.
func serveAt(t testing.TB, l net.Listener, h http.Handler) {
	t.Helper()
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	httpgate.Track(s)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); await.Value(t, done, "the server to stop") })
}

// leaveSocket leaves a socket at path on which nobody listens.
func leaveSocket(t testing.TB, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
}

// register answers lookups.
type register struct {
	mu    sync.Mutex
	addrs []netip.Addr
	err   error
	asked atomic.Int64
}

func (r *register) set(err error, addrs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs, r.err = nil, err
	for _, a := range addrs {
		r.addrs = append(r.addrs, netip.MustParseAddr(a))
	}
}

func (r *register) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked.Add(1)
	if host != "app.example" {
		return nil, errors.New("unknown host")
	}
	return slices.Clone(r.addrs), r.err
}

// onePort listens on one port of several addresses.
func onePort(t *testing.T, ips ...string) (all map[string]net.Listener, port string) {
	t.Helper()
	for range 100 { // one that the system gives for the first address may be taken on another
		all, port = map[string]net.Listener{}, "0"
		for _, ip := range ips {
			l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
			if errors.Is(err, syscall.EADDRNOTAVAIL) {
				t.Skip("this system has one loopback address only")
			} else if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
				t.Fatal(err)
			} else if err != nil {
				break
			}
			all[ip] = l
			_, port, _ = net.SplitHostPort(l.Addr().String())
		}
		if len(all) == len(ips) {
			return all, port
		}
		for _, l := range all {
			_ = l.Close()
		}
	}
	t.Fatal("no port is free on all addresses")
	return nil, ""
}

// Each address of a name is an upstream of its own; those that come join, those that go
// finish what they have, and a lookup that fails changes nothing.
func TestNamesAreResolvedAgain(t *testing.T) {
	all, port := onePort(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	held := make(chan struct{})
	for ip, l := range all {
		serveAt(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-held
			}
			_, _ = w.Write([]byte(ip))
		}))
	}
	var names register
	names.set(nil, "127.0.0.2", "127.0.0.1", "127.0.0.2")
	cfg := to("http://app.example:" + port)
	cfg.Upstreams[0].Resolve = time.Second
	p := startWith(t, cfg, func(p *Proxy) { p.names.lookup = names.lookup })
	labels := func() string {
		var all []string
		for _, u := range p.state.Load().upstreams {
			all = append(all, strings.TrimPrefix(u.name, "app.example:"+port+"@"))
		}
		return strings.ReplaceAll(strings.Join(all, " "), ":"+port, "")
	}
	if got := labels(); got != "127.0.0.1 127.0.0.2" {
		t.Fatalf("upstreams %q", got)
	}
	c := client(t, 1, nil)
	met := map[string]bool{}
	eventually(t, "both addresses to serve", func() bool {
		_, who := get(t, c, p.url)
		met[who] = true
		return met["127.0.0.1"] && met["127.0.0.2"]
	})

	// One request stays at an address that goes.
	slow := make(chan string, 1)
	first := p.state.Load().upstreams[0]
	go func() {
		resp, err := c.Get(p.url + "/slow")
		if err != nil {
			slow <- err.Error()
			return
		}
		slow <- read(t, resp)
	}()
	eventually(t, "the request to run", func() bool {
		return first.gate.Stats().Running+p.state.Load().upstreams[1].gate.Stats().Running == 1
	})
	if first.gate.Stats().Running == 0 {
		first = p.state.Load().upstreams[1]
	}
	gone, stays := "127.0.0.1", "127.0.0.2"
	if strings.Contains(first.name, "@127.0.0.2") {
		gone, stays = stays, gone
	}
	names.set(nil, stays, "127.0.0.3")
	eventually(t, "the addresses to change", func() bool { return strings.Contains(labels(), "127.0.0.3") && !strings.Contains(labels(), gone) })
	asked := names.asked.Load()
	names.set(errors.New("no answer"))
	eventually(t, "another lookup", func() bool { return names.asked.Load() > asked })
	eventually(t, "the failure to be counted", func() bool {
		return strings.Contains(metrics(t, p), `spillgate_name_errors_total{name="app.example"} `)
	})
	if got := labels(); !strings.Contains(got, "127.0.0.3") || !strings.Contains(got, stays) {
		t.Errorf("upstreams %q after a lookup that failed", got)
	}
	for range 20 {
		if resp, who := get(t, c, p.url); resp.StatusCode != 200 || who == gone {
			t.Fatalf("status %d from %s, which is gone", resp.StatusCode, who)
		}
	}
	close(held)
	if got := await.Value(t, slow, "the answer"); got != gone {
		t.Errorf("the request that was at %s got %q", gone, got)
	}
}

// An address that a name has no more leaves no histograms and counters behind: in a cluster, addresses come
// and go for as long as the proxy runs.
func TestNamesLeaveNoMetrics(t *testing.T) {
	var names register
	names.set(nil, "127.0.0.1", "127.0.0.2")
	cfg := to("http://app.example:9")
	cfg.Upstreams[0].Resolve = time.Second
	p := startWith(t, cfg, func(p *Proxy) { p.names.lookup = names.lookup })
	c := client(t, 1, nil) // the admin listener has few connections
	metrics := func() string {
		_, text := get(t, c, p.admin+PathMetrics)
		return text
	}
	if text := metrics(); !strings.Contains(text, `gate="app.example:9@127.0.0.1:9"`) || !strings.Contains(text, `gate="app.example:9@127.0.0.2:9"`) {
		t.Fatal("the metrics do not have both addresses")
	}
	for _, u := range p.state.Load().upstreams { // nothing listens there
		r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
		u.fail(httptest.NewRecorder(), r, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	}
	if failed := `spillgate_upstream_errors_total{kind="connect",upstream="app.example:9@127.0.0.1:9"} 1`; !strings.Contains(metrics(), failed) {
		t.Fatalf("the metrics have no %s", failed)
	}
	names.set(nil, "127.0.0.2")
	eventually(t, "the metrics of the first address to go", func() bool { return !strings.Contains(metrics(), `app.example:9@127.0.0.1:9"`) })
	names.set(nil, "127.0.0.1", "127.0.0.2")
	eventually(t, "the metrics of both addresses", func() bool {
		text := metrics()
		return strings.Contains(text, `spillgate_service_seconds_count{gate="app.example:9@127.0.0.1:9"}`) && strings.Contains(text, `spillgate_service_seconds_count{gate="app.example:9@127.0.0.2:9"}`)
	})
}

// A name that cannot be looked up is said once, and again if it fails in another way or after it was
// well: a name is looked up as often as each second.
func TestFailedLookupsAreSaidOnce(t *testing.T) {
	var names register
	names.set(nil, "127.0.0.1")
	cfg := to("http://app.example:9")
	cfg.Upstreams[0].Resolve = time.Hour
	p := startWith(t, cfg, func(p *Proxy) { p.names.lookup = names.lookup })
	said := func() int { return strings.Count(p.log.String(), "lookup of an upstream's name failed") }
	late := func(port int) error {
		return &net.DNSError{Err: fmt.Sprintf("read udp 127.0.0.1:%d->127.0.0.1:53: i/o timeout", port), Name: "app.example", IsTimeout: true}
	}
	for i, step := range []struct {
		err  error
		want int
	}{
		{errors.New("a"), 1}, {errors.New("a"), 1}, {errors.New("b"), 2}, {errors.New("b"), 2}, {nil, 2}, {errors.New("b"), 3},
		{late(40001), 4}, {late(40002), 4}, {&net.DNSError{Err: "no such host", IsNotFound: true}, 5},
	} {
		names.set(step.err, "127.0.0.1")
		if addrs := p.lookUp(t.Context(), "app.example"); addrs != nil {
			p.addressed(map[string][]netip.Addr{"app.example": addrs})
		}
		if got := said(); got != step.want {
			t.Errorf("step %d: said %d times, expected %d", i, got, step.want)
		}
	}
}
