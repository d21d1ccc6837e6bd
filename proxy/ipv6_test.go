package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// serveSix is a server at the loopback address of IPv6, which says where its requests come from.
func serveSix(t *testing.T, h2c bool) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("X-Forwarded-For"))
	})}
	s.Protocols.SetHTTP1(!h2c)
	s.Protocols.SetUnencryptedHTTP2(h2c)
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); await.Value(t, done, "the server to stop") })
	return l.Addr().String()
}

// Addresses of IPv6 go wherever those of IPv4 do: listeners, the admin address, upstreams, groups by host, networks
// that are trusted, balancers, the header for the upstream, the access log.
func TestIPv6Everywhere(t *testing.T) {
	one, two := serveSix(t, false), serveSix(t, true)
	log := filepath.Join(t.TempDir(), "access.log")
	const loopback = "::1/128"
	p := start(t, Config{
		Listen:    []Listener{{Address: "[::1]:0"}, {Address: "[::1]:0", Balancers: []netip.Prefix{netip.MustParsePrefix(loopback)}}},
		Admin:     "[::1]:0",
		Upstreams: []Upstream{{URL: "http://" + one}},
		Groups:    []Group{{Name: "by-address", Hosts: []string{"2001:db8::5"}, Upstreams: []Upstream{{URL: "h2c://" + two}}}},
		Access:    Access{Path: log},
		Limits:    Limits{ClientConnections: 2},
	})
	fronts, _ := p.Addrs()
	ask := func(front int, header, host string) (*http.Response, string, net.Conn) {
		t.Helper()
		c, err := net.Dial("tcp", fronts[front].String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(await.Patience))
		fmt.Fprintf(c, "%sGET / HTTP/1.1\r\nHost: %s\r\n\r\n", header, host)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return nil, "", c
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return resp, string(body), c
	}
	for _, test := range []struct {
		what, header, host, from, upstream string
		front                              int
	}{
		{"a client at ::1", "", "[::1]:8080", "::1", one, 0},
		{"a client behind a balancer, version 1", "PROXY TCP6 2001:db8:0:1::7 2001:db8::2 5000 443\r\n", "x", "2001:db8:0:1::7", one, 1},
		{"an IPv4 client in the form of IPv6", "PROXY TCP6 ::ffff:192.0.2.9 ::1 5000 443\r\n", "x", "192.0.2.9", one, 1},
		{"a group by the address in Host", "PROXY TCP6 2001:db8:0:2::7 2001:db8::2 5000 443\r\n", "[2001:db8::5]:80", "2001:db8:0:2::7", two, 1},
		{"a group by the address in Host, without a port", "PROXY TCP6 2001:db8:0:3::7 2001:db8::2 5000 443\r\n", "[2001:db8::5]", "2001:db8:0:3::7", two, 1},
	} {
		resp, body, c := ask(test.front, test.header, test.host)
		c.Close()
		if resp == nil || resp.StatusCode != http.StatusOK || body != test.from {
			t.Errorf("%s: %v, X-Forwarded-For %q, expected %q", test.what, resp, body, test.from)
			continue
		}
		eventually(t, "a line of the access log about "+test.what, func() bool {
			text, _ := os.ReadFile(log)
			for line := range strings.Lines(string(text)) {
				var said struct{ Client, Upstream string }
				err := json.Unmarshal([]byte(line), &said)
				if client, _ := netip.ParseAddrPort(said.Client); err == nil && client.Addr().String() == test.from && said.Upstream == test.upstream {
					return true
				}
			}
			return false
		})
	}
	// A subscriber has a network of 64 bits: its third connection is one too many, whatever its address is.
	var last *http.Response
	for i := range 3 {
		last, _, _ = ask(1, fmt.Sprintf("PROXY TCP6 2001:db8:0:9::%x 2001:db8::2 5000 443\r\n", i+1), "x")
		if (last != nil) != (i < 2) {
			t.Errorf("connection %d of one network: %v, expected two to be answered", i+1, last)
		}
	}
	if last, _, _ = ask(1, "PROXY TCP6 2001:db8:0:a::1 2001:db8::2 5000 443\r\n", "x"); last == nil {
		t.Error("another network of 64 bits was refused")
	}
	if resp, text := get(t, client(t, 1, nil), p.admin+PathMetrics); resp.StatusCode != http.StatusOK || !strings.Contains(text, `gate="`+one+`"`) {
		t.Errorf("metrics at an admin address of IPv6: %d, without a gate called %s", resp.StatusCode, one)
	}
}

// An address without the brackets that it needs is a mistake that says so.
func TestIPv6WithoutBrackets(t *testing.T) {
	// Each has to say how it is done, by an example in brackets.
	for field, cfg := range map[string]Config{
		"listen[0].address": {Listen: []Listener{{Address: "::1:8080"}}},
		"admin":             {Admin: "::1:9090"},
		"upstreams[0].url":  {Upstreams: []Upstream{{URL: "http://::1:9000"}}},
	} {
		found := false
		for _, m := range cfg.Check() {
			found = found || m.Field == field && strings.Contains(m.Want, "[::1]")
		}
		if !found {
			t.Errorf("%s: no mistake found in %v", field, cfg.Check())
		}
	}
	for _, m := range (Config{Listen: []Listener{{Address: "[::1]:8080"}}, Admin: "[::1]:9090", Upstreams: []Upstream{{URL: "http://[::1]:9000"}, {URL: "h2c://[fe80::1%25lo]:9000"}}}).Check() {
		if m.Field != "slo" {
			t.Errorf("with brackets: %v", m)
		}
	}
}
