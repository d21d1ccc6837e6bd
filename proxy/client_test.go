package proxy

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// What a client does wrong in the middle of its request is answered as its own mistake,
// and puts no upstream out, however often it does it.
func TestClientsMistakesAreNotTheUpstreams(t *testing.T) {
	for _, scheme := range []string{"http://", "h2c://"} {
		var upstreams []Upstream
		for i := range 2 {
			_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					io.WriteString(w, "ok")
				}
			}))
			upstreams = append(upstreams, Upstream{Name: fmt.Sprint(i), URL: scheme + addr})
		}
		p := start(t, Config{Upstreams: upstreams, Health: Health{Failures: 2, Pause: 30 * time.Second}})
		for _, tt := range []struct {
			name, request string
			half          bool // the client says no more
			want          int
		}{
			{"no chunk size", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n", false, 400},
			{"a chunk longer than it says", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n", false, 400},
			{"a chunk size out of range", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", false, 400},
			{"half of a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello", true, 400},
			{"half of a long body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhello", true, 400},
			{"half of a longer body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 80_000), true, 499},
			{"half of a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", true, 499},
		} {
			for range 6 {
				c, err := net.Dial("tcp", p.addr)
				if err != nil {
					t.Fatal(err)
				}
				c.SetDeadline(time.Now().Add(time.Minute))
				io.WriteString(c, tt.request)
				if tt.half {
					c.(*net.TCPConn).CloseWrite()
				}
				if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != tt.want {
					t.Errorf("%s, %s: %v, %v, expected %d", scheme, tt.name, resp, err, tt.want)
				}
				c.Close()
			}
		}
		for i, u := range p.Status().Upstreams {
			if p.state.Load().upstreams[i].health.failed > 0 || p.state.Load().upstreams[i].health.isOut.Load() {
				t.Errorf("%s upstream %s: %d failures, out %v, expected none: its clients made the mistakes", scheme, u.Name, p.state.Load().upstreams[i].health.failed, p.state.Load().upstreams[i].health.isOut.Load())
			}
		}
		if resp, _ := get(t, client(t, 1, nil), p.url); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", scheme, resp.Status)
		}
		if strings.Contains(p.log.String(), "upstream failed") {
			t.Errorf("%s: the log blames the upstream:\n%s", scheme, p.log)
		}
	}
}

// Slow senders and slow readers hold no slot of an upstream, and the log says what they did.
func TestSlowClientsHoldNoSlot(t *testing.T) {
	// A machine that stands still may not see slow readers before they are cut off.
	for patience := 2 * time.Second; !slowClients(t, patience); patience *= 4 {
		if patience > await.Patience {
			t.Fatal("slow readers hold slots until they are cut off")
		}
	}
}

// slowClients cuts slow readers off after patience, and reports whether they were seen to hold no slot before.
func slowClients(t *testing.T, patience time.Duration) (seen bool) {
	answer := make([]byte, 16<<20)
	var begun atomic.Int64 // long answers
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/large" {
			begun.Add(1)
			w.Write(answer)
		}
	}))
	cfg := to("http://" + addr)
	cfg.Objective = time.Minute // in which the slowest machine finds a free slot
	cfg.Slots = Slots{Min: 2, Max: 2}
	cfg.Limits.BodyRate = 1 << 20
	cfg.Limits.SendTimeout = patience
	p := start(t, cfg)
	const many = 8
	dial := func(request string) net.Conn {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, request)
		return c
	}
	for range many {
		dial("GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	eventually(t, "slow readers to hold no slot", func() bool {
		if begun.Load() < many {
			return false
		}
		free := p.Status().Upstreams[0].Running == 0
		left := p.active.Load() < many // some were cut off
		seen = free && !left
		return seen || left
	})
	if !seen {
		return false
	}
	var slow []net.Conn
	for range many {
		slow = append(slow, dial("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nh"))
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: await.Patience}
	defer client.CloseIdleConnections()
	for range 20 {
		if resp, _ := get(t, client, p.url); resp.StatusCode != http.StatusOK {
			t.Fatalf("beside slow clients: %d", resp.StatusCode)
		}
	}
	for _, c := range slow {
		c.SetDeadline(time.Now().Add(time.Minute))
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusRequestTimeout {
			t.Errorf("a slow sender: %v, %v, expected 408", resp, err)
		}
	}
	eventually(t, "slow readers to be cut off", func() bool { return p.Status().Inside == 0 })
	says(t, p, "kind=client_slow")
	_, metrics := get(t, client, p.admin+"/metrics")
	if !strings.Contains(string(metrics), `spillgate_client_errors_total{kind="client_slow"} 8`) {
		t.Error("the metrics do not count slow senders")
	}
	return true
}

// A proxy that can open no more sockets does not blame the upstream.
func TestNoFilesIsNotTheUpstreams(t *testing.T) {
	dial := func() error {
		return fmt.Errorf("http: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)})
	}
	if got := meaning(t.Context(), dial()); got != noFiles {
		t.Errorf("%v means %q, expected %q", dial(), got, noFiles)
	}
	r, _ := http.NewRequest("GET", "http://x", nil)
	if got := judge(r, nil, dial()); got != saysNothing {
		t.Errorf("%v says %v of the upstream, expected nothing", dial(), got)
	}
	for what, e := range endings {
		if e.code == 0 || e.grpc == 0 || e.title == "" {
			t.Errorf("%s has no answer: %+v", what, e)
		}
	}
}

// Fewer connections than configured are said in the log.
func TestConnectionsThatFilesAllow(t *testing.T) {
	for exits, want := range []int{300, 150} {
		var out safeBuffer
		p := &Proxy{log: slog.New(slog.NewTextHandler(&out, nil)), exits: make([]*exit, exits)}
		const files = ownDescriptors + 400
		if got := p.connections(want, files); got != want || out.String() != "" {
			t.Errorf("%d connections, with %d calls of upstreams: %d, %s", want, exits, got, &out)
		}
		if got := p.connections(want+1, files); got != want || !strings.Contains(out.String(), "LimitNOFILE") {
			t.Errorf("%d connections: %d, %s, expected %d", want+1, got, &out, want)
		}
		if got := p.connections(1000, 0); got != 1000 {
			t.Errorf("%d connections without a limit of files that is known, expected all", got)
		}
	}
}

// A connection that cannot be accepted is said in the log, once a second.
func TestUnacceptedConnections(t *testing.T) {
	var out safeBuffer
	p := &Proxy{log: slog.New(slog.NewTextHandler(&out, nil))}
	var asked atomic.Int64
	l := p.newRoom(1).in(refusing{&asked}, nil)
	for range 5 {
		if _, err := l.Accept(); err == nil {
			t.Fatal("accepted")
		}
	}
	if n := strings.Count(out.String(), "too many open files"); n != 1 || asked.Load() != 5 {
		t.Errorf("said %d times, expected once, of %d: %s", n, asked.Load(), &out)
	}
}

// refusing is a listener of a process without files to spare.
type refusing struct{ asked *atomic.Int64 }

func (l refusing) Accept() (net.Conn, error) {
	l.asked.Add(1)
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
}
func (refusing) Close() error   { return nil }
func (refusing) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
