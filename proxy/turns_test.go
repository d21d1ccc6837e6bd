package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// oneByOne is a server that serves one request after the other, as it is told to, and says whose they were.
type oneByOne struct{ who, done chan string }

func (o *oneByOne) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	o.who <- r.Header.Get("Who")
	<-o.done
}

// asks sends a request of somebody by a connection from an address, and reads no answer.
func asks(t *testing.T, p *running, from, who, more string) {
	t.Helper()
	before := p.state.Load().upstreams[0].gate.Stats().Waiting
	c := dialFrom(t, from, p.addr)
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nWho: %s\r\n%s\r\n", who, more); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	if who == "first" {
		return
	}
	eventually(t, "a request to wait", func() bool { return p.state.Load().upstreams[0].gate.Stats().Waiting > before })
}

// TestAddressesTakeTurns: twenty requests of one address wait for the only slot when one of another comes, which is
// served second; likewise of two clients that a trusted proxy names. Without turns it is served last, and so it is where
// both are of one address, or the twenty of as many users of a balancer that says nothing of them.
func TestAddressesTakeTurns(t *testing.T) {
	const burst = 20
	trust := []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}
	for _, test := range []struct {
		name                     string
		noTurns                  bool
		from, polite             string // addresses
		fromHeader, politeHeader string
		want                     int // how many of the burst are served before
	}{
		{"two addresses", false, "127.0.0.2", "127.0.0.3", "", "", 1},
		{"no turns", true, "127.0.0.2", "127.0.0.3", "", "", burst},
		{"one address", false, "127.0.0.2", "127.0.0.2", "", "", burst},
		{"clients of a trusted proxy", false, "127.0.0.9", "127.0.0.9", "X-Forwarded-For: 10.0.0.1\r\n", "X-Forwarded-For: 10.0.0.2\r\n", 1},
		{"one client of a trusted proxy", false, "127.0.0.9", "127.0.0.9", "X-Forwarded-For: 10.0.0.1\r\n", "X-Forwarded-For: 10.0.0.2, 10.0.0.1, 127.0.0.9\r\n", burst},
		{"clients in Forwarded", false, "127.0.0.9", "127.0.0.9", "Forwarded: for=10.0.0.1\r\n", "Forwarded: for=10.0.0.1, proto=http;For=\"[2001:db8::1]:80\"\r\n", 1},
		{"connections of a trusted proxy that names nobody, and an address", false, "127.0.0.9", "127.0.0.3", "", "", burst},
		{"clients that a stranger names", false, "127.0.0.2", "127.0.0.2", "X-Forwarded-For: 10.0.0.1\r\n", "X-Forwarded-For: 10.0.0.2\r\n", burst},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &oneByOne{make(chan string, burst+2), make(chan string)}
			_, addr := serve(t, o)
			cfg := to("http://" + addr)
			cfg.Objective, cfg.Slots, cfg.Schedule.NoTurns, cfg.Trust = time.Minute, Slots{Min: 1, Max: 1}, test.noTurns, trust
			p := start(t, cfg)
			asks(t, p, "127.0.0.1", "first", "")
			if who := <-o.who; who != "first" {
				t.Fatalf("%q is served", who)
			}
			for range burst {
				asks(t, p, test.from, "burst", test.fromHeader)
			}
			asks(t, p, test.polite, "polite", test.politeHeader)
			var order []string
			for range p.state.Load().upstreams[0].gate.Stats().Waiting {
				o.done <- ""
				order = append(order, <-o.who)
			}
			close(o.done)
			if at := slices.Index(order, "polite"); at != test.want {
				t.Errorf("%d of the burst are served before, want %d", at, test.want)
			}
		})
	}
}
