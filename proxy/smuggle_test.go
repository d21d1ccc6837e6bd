package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A request to go on as HTTP/2 in the clear, or as TLS, is served as one of HTTP/1: an upstream
// that agreed would take any number of requests on the connection, past the rules and the gate.
func TestNoUpgradeToHTTPOrTLS(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			if r.Header["Http2-Settings"] != nil || r.Header["Connection"] != nil {
				t.Errorf("the upstream got %v", r.Header)
			}
			fmt.Fprint(w, "as HTTP/1")
			return
		}
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nbehind the gate", r.Header.Get("Upgrade"))
		_ = rw.Flush()
	}))
	p := start(t, to("http://"+addr))
	for upgrade, want := range map[string]int{"h2c": 200, "H2C": 200, "HTTP/2.0": 200, "TLS/1.3, HTTP/1.1": 200, "websocket, h2c": 200, "websocket": 101, "h2cx": 101} {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n", upgrade)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("Upgrade: %s: %v", upgrade, err)
		} else if resp.StatusCode != want {
			t.Errorf("Upgrade: %s: answered %d, expected %d", upgrade, resp.StatusCode, want)
		}
	}
}

// A WebSocket passes to an upstream of TLS that offers HTTP/2, which knows no upgrades, and other
// requests use HTTP/2 beside it.
func TestUpgradeOverTLS(t *testing.T) {
	a := newAuthority(t, "ca")
	cert, key := a.issue("server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	back := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, r.Proto)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
	}))
	back.EnableHTTP2 = true
	back.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	back.StartTLS()
	defer back.Close()
	_, port, _ := net.SplitHostPort(back.Listener.Addr().String())
	p := start(t, Config{Upstreams: []Upstream{{URL: "https://localhost:" + port, CA: a.write("ca", "CERTIFICATE", a.cert.Raw)}}})
	for range 2 {
		if _, text := get(t, client(t, 1, nil), p.url); text != "HTTP/2.0" {
			t.Errorf("a request by %s, expected HTTP/2.0", text)
		}
		c := connectTo(t, p.addr)
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 101 {
			t.Errorf("WebSocket: %v, %v", resp, err)
		}
	}
}

// What is left of a request's body is never taken for the next request: not where the upstream answers
// or breaks off before the body came to its end, and not behind a body that is malformed; of a server's own calls
// neither.
func TestBodiesAreNoRequests(t *testing.T) {
	const hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/early":
			_ = http.NewResponseController(w).EnableFullDuplex()
			fmt.Fprint(w, "early")
		case "/dies":
			panic(http.ErrAbortHandler)
		case "/hidden":
			t.Error("a part of a body was served as a request")
		default:
			_, _ = io.Copy(io.Discard, r.Body)
		}
	}))
	cfg := to("h2c://" + addr)
	cfg.Egress = []Egress{{Address: "127.0.0.1:0", URL: "h2c://" + addr}}
	p := start(t, cfg)
	bodiesAreNoRequests(t, p.addr, hidden)
	bodiesAreNoRequests(t, p.EgressAddrs()[0].String(), hidden)
}

func bodiesAreNoRequests(t *testing.T, addr, hidden string) {
	t.Helper()
	part := fmt.Sprintf("%x\r\nx", len(hidden)+1)
	for _, test := range []struct{ path, content, before, after string }{
		{"/early", "text/plain", part, hidden},
		{"/early", "application/grpc", part, hidden},
		{"/dies", "text/plain", part, hidden},
		{"/dies", "application/grpc", part, hidden},
		{"/", "text/plain", "no chunk\r\n" + hidden, ""},
		{"/", "application/grpc", "no chunk\r\n" + hidden, ""},
	} {
		c := connectTo(t, addr)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%s", test.path, test.content, test.before)
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Errorf("%s of %s: %v", test.path, test.content, err)
			continue
		}
		read(t, resp)
		if !resp.Close {
			t.Errorf("%s of %s: answered %s, and the connection goes on", test.path, test.content, resp.Status)
		}
		fmt.Fprint(c, test.after)
		if resp, err := http.ReadResponse(c.r, nil); err == nil {
			t.Errorf("%s of %s: what is left of the body was answered with %s", test.path, test.content, resp.Status)
		}
	}
}

// A body that is in memory before the request goes on leaves nothing behind: the connection goes on,
// also where the upstream answers without reading the body.
func TestBodiesInMemoryKeepTheConnection(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "unread") }))
	p := start(t, to("h2c://"+addr))
	c := client(t, 1, nil)
	for range 100 {
		resp, err := c.Post(p.url, "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if read(t, resp); resp.Close {
			t.Fatal("the connection ends with the answer")
		}
	}
}

// A connection ends with the answer to a request whose body is framed twice, whatever answers it, and no other does.
func TestConnectionsEndAfterTwoLengths(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			w.WriteHeader(http.StatusEarlyHints)
		}
		_, _ = io.Copy(w, r.Body)
	}))
	cert, key := newAuthority(t, "ca").issue("front")
	for _, url := range []string{"http://" + addr, "h2c://" + addr, "over TLS"} {
		cfg := to(url)
		secure := url == "over TLS"
		if secure {
			cfg = to("http://" + addr)
			cfg.Listen = []Listener{{Address: "127.0.0.1:0", Cert: cert, Key: key}}
		}
		p := start(t, cfg)
		for name, tt := range map[string]struct {
			head string
			last bool
		}{
			"both":          {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", true},
			"the other":     {"POST / HTTP/1.1\r\nHost: x\r\ntransfer-encoding: chunked\r\nX: y\r\nCONTENT-LENGTH:5\r\n\r\n", true},
			"with 1xx":      {"POST /hints HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", true},
			"not proxied":   {"POST x:y HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", true},
			"chunked":       {"POST / HTTP/1.1\r\nHost: x\r\nX-Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", false},
			"after a plain": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nokPOST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", false},
		} {
			c := connectTo(t, p.addr)
			if secure {
				c.Conn = tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
				c.r.Reset(c)
			}
			for _, piece := range []string{tt.head[:len(tt.head)/2], tt.head[len(tt.head)/2:], "2\r\nhi\r\n0\r\n\r\n"} {
				fmt.Fprint(c, piece)
				time.Sleep(time.Millisecond) // not needed; in several reads, mostly
			}
			answers := 1 + strings.Count(name, "after")
			for n := range answers {
				resp, err := http.ReadResponse(c.r, nil)
				for err == nil && resp.StatusCode < 200 {
					resp, err = http.ReadResponse(c.r, nil)
				}
				if err != nil {
					t.Fatalf("%s, %s: %v", url, name, err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				if n == answers-1 && resp.Close != tt.last {
					t.Errorf("%s, %s: the answer %d is the last one: %v, expected %v", url, name, resp.StatusCode, resp.Close, tt.last)
				}
			}
			if tt.last && !t.Failed() { // else it may never end
				if _, err := c.r.ReadByte(); err != io.EOF {
					t.Errorf("%s, %s: after the answer: %v, expected the end", url, name, err)
				}
			}
		}
	}
}

// However its bytes come, a header that frames a body twice is one header.
func TestTwoLengthsInPieces(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	p := start(t, to("http://"+addr))
	const plain, body = "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "2\r\nhi\r\n0\r\n\r\n"
	for name, tt := range map[string]struct {
		pieces []string // each but the first after an answer to what came before
		last   bool     // the last answer ends the connection
	}{
		"half with the request before": {[]string{plain + "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n", "Transfer-Encoding: chunked\r\n\r\n" + body}, true},
		"all but the end with it":      {[]string{plain + "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", "\r\n" + body}, true},
		"the body later":               {[]string{plain + "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", body}, true},
		"like HTTP/2":                  {[]string{"PRINT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + body}, true},
		"HTTP/1.0":                     {[]string{"POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nhi"}, true},
		"for the proxy itself":         {[]string{"OPTIONS * HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + body}, true},
		"two requests":                 {[]string{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nokPOST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", body}, false},
	} {
		c := connectTo(t, p.addr)
		answers := strings.Count(strings.Join(tt.pieces, ""), " HTTP/1.")
		for n := range answers {
			if n < len(tt.pieces) {
				fmt.Fprint(c, tt.pieces[n])
			}
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if want := tt.last && n == answers-1; resp.Close != want {
				t.Errorf("%s: answer %d of %d is the last one: %v, expected %v", name, n+1, answers, resp.Close, want)
			}
		}
	}
}
