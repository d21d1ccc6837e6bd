package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// dialFrom connects from an address of the loopback network.
func dialFrom(t testing.TB, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Patience))
	return c
}

// askBy sends a request by a connection and returns the status, 0 if it was closed.
func askBy(c net.Conn, path string) int {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// A client has as many connections and requests as it may, others are not concerned, and
// what ends makes room.
func TestLimitsOfOneClient(t *testing.T) {
	held, entered := make(chan struct{}), make(chan struct{}, 8)
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/held" {
			entered <- struct{}{}
			<-held
		}
	}))
	cfg := to("http://" + addr)
	cfg.Limits.ClientConnections, cfg.Limits.ClientRequests = 3, 1
	cfg.Trust = []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
	p := start(t, cfg)
	one, two, three := dialFrom(t, "127.0.0.2", p.addr), dialFrom(t, "127.0.0.2", p.addr), dialFrom(t, "127.0.0.2", p.addr)
	for _, c := range []net.Conn{one, two, three} {
		if status := askBy(c, "/"); status != 200 {
			t.Fatalf("status %d of a connection within the limit", status)
		}
	}
	if status := askBy(dialFrom(t, "127.0.0.2", p.addr), "/"); status != 0 {
		t.Errorf("status %d of one connection too many, expected that it is closed", status)
	}
	done := make(chan int, 1)
	go func() { done <- askBy(one, "/held") }()
	await.Value(t, entered, "a request to reach the handler")
	if status := askBy(two, "/"); status != 429 {
		t.Errorf("status %d of one request too many, expected 429", status)
	}
	for _, from := range []string{"127.0.0.3", "127.0.0.9", "127.0.0.9", "127.0.0.9", "127.0.0.9"} {
		if status := askBy(dialFrom(t, from, p.addr), "/"); status != 200 {
			t.Errorf("status %d of another client, %s", status, from)
		}
	}
	close(held)
	if status := await.Value(t, done, "the request to end"); status != 200 {
		t.Errorf("status %d of the first request", status)
	}
	three.Close()
	eventually(t, "the connection to make room", func() bool { return askBy(dialFrom(t, "127.0.0.2", p.addr), "/") == 200 })
	got := metrics(t, p)
	for _, want := range []string{`spillgate_client_limited_total{limit="connections"}`, `spillgate_client_limited_total{limit="requests"} 1`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// A client has as many requests inside as there is room left for, so no client fills the proxy.
func TestRequestsOfAllClients(t *testing.T) {
	held, entered := make(chan struct{}), make(chan struct{}, 8)
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-held
	}))
	cfg := to("http://" + addr)
	cfg.Limits.Requests = 6
	p := start(t, cfg)
	for _, test := range []struct {
		from string
		most int
	}{{"127.0.0.2", 3}, {"127.0.0.3", 2}, {"127.0.0.4", 1}} {
		for range test.most {
			c := dialFrom(t, test.from, p.addr)
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			await.Value(t, entered, "a request of "+test.from)
		}
		if status := askBy(dialFrom(t, test.from, p.addr), "/"); status != http.StatusTooManyRequests {
			t.Errorf("request %d of %s was answered %d, expected 429", test.most+1, test.from, status)
		}
	}
	close(held)
	eventually(t, "the requests to end", func() bool { return p.active.Load() == 0 })
	if status := askBy(dialFrom(t, "127.0.0.2", p.addr), "/"); status != http.StatusOK {
		t.Errorf("status %d when the others have ended, expected 200", status)
	}
}
