package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/credit"
)

// closedPort returns an address at which nobody listens, nor can until the test ends: a socket has it.
func closedPort(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	own, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", own.(*syscall.SockaddrInet4).Port)
}

// hangup accepts connections, reads a little of what comes, and hangs up.
func hangup(t testing.TB) (addr string, met *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	met = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(await.Patience))
			if n, _ := c.Read(make([]byte, 1024)); n > 0 {
				met.Add(1)
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); await.Value(t, done, "the server to stop") })
	return l.Addr().String(), met
}

// mirror answers with the body of the request.
var mirror = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Method", r.Method)
	body, _ := io.ReadAll(r.Body) // a server of HTTP/1 reads nothing once it has answered
	_, _ = w.Write(body)
})

// Where no connection can be made, every request is answered by the other upstream, with
// its body, of whatever method and size.
func TestRefusedConnectionGoesToAnotherUpstream(t *testing.T) {
	for _, scheme := range []string{"http", "h2c"} {
		t.Run(scheme, func(t *testing.T) {
			_, well := serve(t, mirror)
			cfg := to(scheme+"://"+closedPort(t), scheme+"://"+well)
			cfg.Health.Failures = -1 // the one that is down is chosen again and again
			p := start(t, cfg)
			c := client(t, 1, nil)
			for _, size := range []int{0, 10, 200 << 10} {
				for range 20 {
					body := strings.Repeat("x", size)
					resp, err := c.Post(p.url, "text/plain", strings.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					if got := read(t, resp); resp.StatusCode != 200 || got != body {
						t.Fatalf("body of %d bytes: status %d, %d bytes came back", size, resp.StatusCode, len(got))
					}
					// Pays for the retries, which are a tenth of what goes well.
					p.state.Load().groups[0].retries.spent.Store(0)
				}
			}
			if got := metrics(t, p); !regexp.MustCompile(`spillgate_upstream_retries_total\{decision="sent",.*\} [1-9]`).MatchString(got) {
				t.Errorf("no retry in the metrics:\n%s", got)
			}
		})
	}
}

// A connection that breaks off after the request went out is another upstream's turn only
// if the request may be executed twice.
func TestBrokenConnectionGoesOnOnlyIfItMay(t *testing.T) {
	for _, c := range []struct {
		method, body string
		goesOn       bool
	}{{"GET", "", true}, {"HEAD", "", true}, {"POST", "", false}, {"POST", "x", false}, {"PUT", "x", false}, {"DELETE", "", false}, {"GET", "x", false}} {
		t.Run(c.method+c.body, func(t *testing.T) {
			broken, met := hangup(t)
			var served atomic.Int64
			_, well := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { served.Add(1); mirror(w, r) }))
			cfg := to("http://"+broken, "http://"+well)
			cfg.Health.Failures = -1
			p := start(t, cfg)
			failed := 0
			for range 200 {
				var body io.Reader
				if c.body != "" {
					body = bytes.NewReader([]byte(c.body))
				}
				r, _ := http.NewRequest(c.method, p.url, body)
				resp, err := client(t, 1, nil).Do(r)
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
				if resp.StatusCode == 502 {
					failed++
				}
				p.state.Load().groups[0].retries.spent.Store(0)
				if met.Load() > 0 {
					break
				}
			}
			switch {
			case met.Load() == 0:
				t.Fatal("the upstream that hangs up was never chosen")
			case c.goesOn && failed > 0:
				t.Error("the request was not sent to the other upstream")
			case !c.goesOn && failed != 1:
				t.Errorf("%d requests were answered 502, expected 1: it may have been executed", failed)
			}
		})
	}
}

func TestRetriesHaveABudget(t *testing.T) {
	r := &retries{}
	n := 0
	for ; r.spend(); n++ {
	}
	if n != credit.RetriesSaved {
		t.Errorf("%d retries at the start, expected %d", n, credit.RetriesSaved)
	}
	for range credit.RetryCost - 1 {
		r.earn()
	}
	if r.spend() {
		t.Error("a retry before ten requests went well")
	}
	if r.earn(); !r.spend() {
		t.Error("no retry although ten requests went well")
	}
	for range 10_000 {
		r.earn()
	}
	n = 0
	for ; r.spend(); n++ {
	}
	if n != credit.RetriesSaved {
		t.Errorf("%d retries saved up, expected %d", n, credit.RetriesSaved)
	}
}

// With retries: never, or when the budget is spent, the answer is 502 as before.
func TestNoRetryBeyondBudgetAndLimit(t *testing.T) {
	for name, change := range map[string]func(*Config, *running){
		"never":  func(c *Config, _ *running) { c.Limits.Retries = -1 },
		"budget": func(_ *Config, p *running) {},
	} {
		t.Run(name, func(t *testing.T) {
			_, well := serve(t, mirror)
			cfg := to("http://"+closedPort(t), "http://"+well)
			cfg.Health.Failures = -1
			change(&cfg, nil)
			p := start(t, cfg)
			met := 0
			for range 200 {
				p.state.Load().groups[0].retries.spent.Store(credit.RetryCost * credit.RetriesSaved)
				resp, _ := get(t, client(t, 1, nil), p.url)
				if resp.StatusCode == 502 {
					met++
					break
				}
			}
			if met == 0 {
				t.Error("no 502 although nothing may be sent again")
			}
			got := metrics(t, p)
			if !regexp.MustCompile(`decision="sent",.*\} 0`).MatchString(got) {
				t.Errorf("a request was sent again:\n%s", got)
			}
			if name == "budget" && !regexp.MustCompile(`spillgate_upstream_retries_total\{decision="budget",.*\} [1-9]`).MatchString(got) {
				t.Errorf("the budget is not in the metrics:\n%s", got)
			}
		})
	}
}

// A handshake of TLS that fails, or does not end in time, is a connection that was not made: nothing
// of the request was sent, so another upstream gets it, whatever its method.
func TestRetryAfterHandshake(t *testing.T) {
	a := newAuthority(t, "ca")
	cert, key := a.issue("server")
	well := start(t, Config{Listen: []Listener{{Address: "127.0.0.1:0", Cert: cert, Key: key}}, Upstreams: []Upstream{{URL: "http://" + func() string { _, addr := serve(t, mirror); return addr }()}}})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	plain, _ := hangup(t)
	for name, broken := range map[string]string{"silent": silent.Addr().String(), "no TLS": plain} {
		_, port, _ := net.SplitHostPort(well.addr)
		cfg := Config{Upstreams: []Upstream{{URL: "https://" + broken, Insecure: true}, {URL: "https://localhost:" + port, CA: a.write("ca", "CERTIFICATE", a.cert.Raw)}}}
		// A busy machine makes no good connection in 50 ms. Only one that is silent is waited for.
		if cfg.Limits.Connect = 2 * time.Second; name != "silent" {
			cfg.Limits.Connect = time.Minute
		}
		cfg.Health.Failures = -1 // it is asked again and again
		p := start(t, cfg)
		c := client(t, 1, nil)
		var all sync.WaitGroup
		for range 8 { // at once, so that both get some
			all.Go(func() {
				resp, err := c.Post(p.url, "text/plain", bytes.NewReader([]byte("hello")))
				if err != nil {
					t.Error(err)
					return
				}
				if text := read(t, resp); resp.StatusCode != 200 || text != "hello" {
					t.Errorf("%s: %s %s", name, resp.Status, text)
				}
			})
		}
		await.All(t, &all, "the requests to end")
		if u := p.state.Load().upstreams[0]; !regexp.MustCompile(`kind="connect",upstream="` + regexp.QuoteMeta(u.name) + `"\} [1-9]`).MatchString(metrics(t, p)) {
			t.Errorf("%s: no failed connection in the metrics", name)
		}
	}
}
