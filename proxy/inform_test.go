package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/internal/await"
)

// Answers 1xx pass without what is for the next hop alone, and not to clients of HTTP/1.0, which would take the first for
// the answer and the answer for that of the next request.
func TestInformation(t *testing.T) {
	hints := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Link", "</a>")
		h.Set("X-Mine", "1")
		h.Set("Keep-Alive", "5")
		h.Set("Connection", "X-Mine")
		w.WriteHeader(http.StatusEarlyHints)
		clear(h)
		fmt.Fprint(w, "answer")
	})
	_, addr := serve(t, hints)
	secure := httptest.NewTLSServer(hints) // of HTTP/1
	defer secure.Close()
	for _, url := range []string{"http://" + addr, "h2c://" + addr, secure.URL} {
		cfg := Config{Upstreams: []Upstream{{URL: url, Insecure: url == secure.URL}}}
		cfg.Egress = []Egress{{Address: "127.0.0.1:0", URL: url, Insecure: url == secure.URL}}
		p := start(t, cfg)
		informs(t, p.addr, url)
		informs(t, p.EgressAddrs()[0].String(), url+" by egress")
	}
}

// informs looks at what comes of an upstream's 1xx at an address.
func informs(t *testing.T, addr, upstream string) {
	t.Helper()
	c := connectTo(t, addr)
	for range 2 {
		fmt.Fprint(c, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := read(t, resp); resp.StatusCode != 200 || text != "answer" {
			t.Fatalf("%s: HTTP/1.0 got %s %q", upstream, resp.Status, text)
		}
	}
	for _, version := range []int{1, 2} {
		var got []textproto.MIMEHeader
		trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			got = append(got, h)
			return nil
		}}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "GET", "http://"+addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client(t, version, nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if len(got) != 1 || got[0].Get("Link") != "</a>" {
			t.Errorf("%s, HTTP/%d: 1xx %v", upstream, version, got)
		}
		for _, h := range got {
			if len(h) != 1 {
				t.Errorf("%s, HTTP/%d: 1xx with %v", upstream, version, h)
			}
		}
	}
}

// Trailers say no more than headers may: nothing of what a proxy takes off those, and nothing that cannot come after a
// body, announced or not.
func TestTrailersSayNoMore(t *testing.T) {
	const strange = "Authorization: a\r\nHost: y\r\nProxy: z\r\nX-Forwarded-For: 1.1.1.1\r\nX_Real_IP: 1.1.1.1\r\nForwarded: for=1.1.1.1\r\n"
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		names := make([]string, 0, len(r.Trailer))
		for name := range r.Trailer {
			names = append(names, name)
		}
		slices.Sort(names)
		fmt.Fprint(w, names)
	}))
	for _, scheme := range []string{"http", "h2c"} {
		for _, trusted := range []bool{false, true} {
			cfg := to(scheme + "://" + addr)
			want := "[X-A X-B]"
			if trusted {
				cfg.Trust = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				want = "[Forwarded X-A X-B X-Forwarded-For X_real_ip]"
			}
			p := start(t, cfg)
			for _, announced := range []string{"X-A, X-B, Authorization, X-Forwarded-For, Proxy, Forwarded, X_Real_IP", "X-A"} {
				if scheme == "h2c" && announced == "X-A" {
					continue // the rest is then no part of a request of HTTP/2
				}
				c := connectTo(t, p.addr)
				fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: %s\r\n\r\n1\r\nx\r\n0\r\nX-A: 1\r\nX-B: 2\r\n%s\r\n", announced, strange)
				resp, err := http.ReadResponse(c.r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if text := read(t, resp); resp.StatusCode != 200 || text != want {
					t.Errorf("%s, trusted %v, announced %s: %s %q, expected %q", scheme, trusted, announced, resp.Status, text, want)
				}
			}
		}
	}
}

// Trailers of an answer pass if they may be trailers. Where none is left, and where one was announced and does not come,
// the answer ends all the same: an HTTP/2 server that is to send trailers and has none leaves the stream open.
func TestTrailersOfAnswers(t *testing.T) {
	authority := newAuthority(t, "ca")
	certificate, err := tls.LoadX509KeyPair(authority.issue("server"))
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"http", "https"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := scheme + "://" + l.Addr().String()
		if scheme == "https" {
			l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}})
		}
		trailersOfAnswers(t, l, Config{Upstreams: []Upstream{{URL: url, Insecure: scheme == "https"}}})
	}
}

// trailersOfAnswers serves at l, the upstream in cfg.
func trailersOfAnswers(t *testing.T, l net.Listener, cfg Config) {
	t.Helper()
	var served sync.WaitGroup
	t.Cleanup(func() { l.Close(); await.All(t, &served, "the upstream to end") })
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				for br := bufio.NewReader(c); ; {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					announced, trailers, _ := strings.Cut(r.URL.Query().Get("t"), "|")
					if announced != "" {
						announced = "Trailer: " + announced + "\r\n"
					}
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n%s\r\n", announced, trailers)
				}
			})
		}
	})
	p := start(t, cfg)
	for _, version := range []int{1, 2} {
		c := client(t, version, nil)
		for _, test := range [][3]string{ // announced, sent, passed on
			{"", "X-A: 1\r\nSet-Cookie: a\r\nContent-Length: 1\r\nConnection: close\r\nHost: y\r\n", "Set-Cookie X-A"},
			{"X-A, X-B", "X-A: 1\r\nX-B: 2\r\n", "X-A X-B"},
			{"X-A", "X-A: 1\r\nX-B: 2\r\n", "X-A X-B"},
			{"X-A", "", ""},
			{"X-A, X-B", "X-B: 2\r\n", "X-B"},
			{"a b", "", ""},
			{"", "a b: 1\r\n", ""},
			{"a b", "a b: 1\r\n", ""},
			{"Connection", "Connection: close\r\n", ""},
		} {
			resp, err := c.Get(p.url + "/?t=" + url.QueryEscape(test[0]+"|"+test[1]))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			var names []string
			for name, values := range resp.Trailer {
				if len(values) > 0 {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); string(text) != "ok" || err != nil || got != test[2] {
				t.Errorf("%s, HTTP/%d, %q: %q with the trailers %q and %v, expected ok with %q", cfg.Upstreams[0].URL, version, test, text, got, err, test[2])
			}
		}
	}
}

// An answer without a body has no length that an HTTP/2 client would wait for.
func TestAnswersWithoutBody(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 %s No\r\nContent-Length: 7\r\nX-A: 1\r\n\r\n", r.URL.Path[1:])
	}))
	cfg := to("http://" + addr)
	cfg.Egress = []Egress{{Address: "127.0.0.1:0", URL: "http://" + addr}}
	p := start(t, cfg)
	for _, version := range []int{1, 2} {
		for _, at := range []string{p.addr, p.EgressAddrs()[0].String()} {
			for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
				resp, text := get(t, client(t, version, nil), fmt.Sprint("http://", at, "/", status))
				if resp.StatusCode != status || text != "" || resp.Header.Get("X-A") != "1" {
					t.Errorf("HTTP/%d: %s %q %v, expected %d", version, resp.Status, text, resp.Header, status)
				}
			}
		}
	}
}
