package proxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/httpgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Bodies far beyond any buffer stream both ways at once, with trailers, over
// every pair of protocols.
func TestStreaming(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, sum), r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("X-Sum", fmt.Sprintf("%x", sum.Sum(nil)))
		w.Header().Set(http.TrailerPrefix+"X-Got", r.Trailer.Get("X-Sent"))
	}))
	const size = 8 << 20
	for _, upstream := range []string{"http://", "h2c://"} {
		p := start(t, to(upstream+addr))
		for _, major := range []int{1, 2} {
			t.Run(fmt.Sprintf("HTTP/%d to %s", major, upstream), func(t *testing.T) {
				sum := sha256.New()
				random := rand.NewChaCha8([32]byte{})
				r, _ := http.NewRequest("POST", p.url, io.TeeReader(io.LimitReader(random, size), sum))
				r.ContentLength = -1
				r.Trailer = http.Header{"X-Sent": {"yes"}}
				resp, err := client(t, major, nil).Do(r)
				if err != nil {
					t.Fatal(err)
				}
				if resp.ProtoMajor != major {
					t.Errorf("HTTP/%d, want HTTP/%d", resp.ProtoMajor, major)
				}
				if got := read(t, resp); len(got) != size || sha256.Sum256([]byte(got)) != [32]byte(sum.Sum(nil)) {
					t.Errorf("%d bytes came back, want the %d sent", len(got), size)
				}
				if resp.Trailer.Get("X-Sum") != fmt.Sprintf("%x", sum.Sum(nil)) || resp.Trailer.Get("X-Got") != "yes" {
					t.Errorf("trailer %v", resp.Trailer)
				}
			})
		}
	}
}

// Single writes arrive while the answer goes on: nothing waits for a buffer.
func TestFlush(t *testing.T) {
	step := make(chan struct{}, 3)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			<-step
			io.WriteString(w, "data\n")
			w.(http.Flusher).Flush()
		}
	}))
	p := start(t, to("http://"+addr))
	for _, major := range []int{1, 2} {
		c := client(t, major, nil)
		go func() { step <- struct{}{} }()
		resp, err := c.Get(p.url)
		if err != nil {
			t.Fatal(err)
		}
		br := bufio.NewReader(resp.Body)
		for i := range 3 {
			if line, err := br.ReadString('\n'); line != "data\n" {
				t.Fatalf("line %d: %q, %v", i, line, err)
			}
			if i < 2 {
				step <- struct{}{}
			}
		}
		resp.Body.Close()
	}
}

func TestUpgrade(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			t.Errorf("header %v", r.Header)
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		io.Copy(c, rw)
	}))
	p := start(t, Config{Upstreams: to("http://" + addr).Upstreams, Drain: Drain{Timeout: 50 * time.Millisecond}})
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(await.Patience))
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v %v", resp, err)
	}
	fmt.Fprintf(c, "ping\n")
	if line, err := br.ReadString('\n'); line != "ping\n" {
		t.Fatalf("%q, %v", line, err)
	}
	s := p.Status()
	if s.Inside != 1 || s.Upstreams[0].Running != 0 {
		t.Errorf("an upgraded connection: %d inside, %d in slots; want 1 and 0", s.Inside, s.Upstreams[0].Running)
	}
	// A drain does not wait for it for ever.
	p.stop()
	if err := p.wait(t); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.log.String(), "requests are cut off") {
		t.Errorf("log:\n%s", p.log)
	}
}

// Who the client is and what it may claim, as the upstream sees it.
func TestForwarding(t *testing.T) {
	got := make(chan *http.Request, 1)
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	claims := map[string]string{
		"Proxy": "http://6.6.6.6", "X_Forwarded_For": "6.6.6.6", "x-forwarded_for": "6.6.6.6", "X_Real_IP": "6.6.6.6",
		"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Host": "evil", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "1",
		"X-Real-IP": "1.2.3.4", "Forwarded": "for=1.2.3.4", "Connection": "X-Hop", "X-Hop": "1", "Keep-Alive": "1",
		"Baggage": "spillgate.class=interactive,a=b", "Spillgate": wire.Header(wire.Tags{Class: work.Interactive, Workflow: "pay"}.Append(nil)),
	}
	for _, trusted := range []bool{false, true} {
		cfg := to("http://" + addr + "/base")
		if trusted {
			cfg.Trust = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}
		p := start(t, cfg)
		r, _ := http.NewRequest("GET", p.url+"/path?q=1", nil)
		r.Host = "shop.example"
		for k, v := range claims {
			r.Header.Set(k, v)
		}
		resp, err := client(t, 1, nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		in := await.Value(t, got, "the request that the server got")
		want := map[string]string{
			"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "shop.example", "X-Forwarded-Proto": "http", "X-Forwarded-Port": "",
			"X-Real-Ip": "", "Forwarded": "", "Baggage": "a=b",
		}
		tags := wire.Tags{}
		if trusted {
			want = map[string]string{
				"X-Forwarded-For": "1.2.3.4, 127.0.0.1", "X-Forwarded-Host": "evil", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "1",
				"X-Real-Ip": "1.2.3.4", "Forwarded": "for=1.2.3.4, for=127.0.0.1;proto=http", "Baggage": "a=b,spillgate.workflow=pay,spillgate.class=interactive",
			}
			tags = wire.Tags{Class: work.Interactive, Workflow: "pay"}
		}
		for name := range in.Header {
			if strings.Contains(name, "_") && !trusted { // which CGI and its like take for X-Forwarded-For
				t.Errorf("%s comes from a stranger", name)
			}
		}
		want["X-Hop"], want["Keep-Alive"], want["Proxy"] = "", "", ""
		for k, v := range want {
			if g := strings.Join(in.Header[k], "|"); g != v {
				t.Errorf("trusted %v: %s is %q, want %q", trusted, k, g, v)
			}
		}
		if in.Host != "shop.example" || in.URL.String() != "/base/path?q=1" {
			t.Errorf("host %q, URL %q", in.Host, in.URL)
		}
		msg, err := wire.FromHeader(in.Header.Get("Spillgate"))
		if err != nil {
			t.Fatal(err)
		}
		sent, err := wire.ParseTags(msg)
		if err != nil || sent.Class != tags.Class || sent.Workflow != tags.Workflow || !sent.Credits {
			t.Errorf("trusted %v: tags %+v, %v, want %+v and the proxy's own credits", trusted, sent, err, tags)
		}
	}
}

// A server that speaks Spillgate behind the proxy and a client in front: the
// proxy is one client to the one, and a server to the other.
func TestCredits(t *testing.T) {
	gate, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	_, addr := serve(t, httpgate.Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })))
	for _, scheme := range []string{"http://", "h2c://"} {
		p := start(t, to(scheme+addr))
		for _, major := range []int{1, 2} {
			rt := httpgate.Transport(client(t, major, nil).Transport)
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					r, _ := http.NewRequest("GET", p.url, nil)
					resp, err := rt.RoundTrip(r)
					if err != nil {
						t.Error(err)
						return
					}
					if got := read(t, resp); got != "ok" || resp.Header.Get("Spillgate") != "" {
						t.Errorf("%q %v", got, resp.Header)
					}
				})
			}
			await.All(t, &wg, "the clients to end")
			st := p.Status().Upstreams[0]
			if st.Clients == 0 || st.Issued == 0 {
				t.Errorf("the proxy's client has no account: %+v", st)
			}
			rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		}
		if got := gate.Stats().Clients; got != 1 {
			t.Errorf("the upstream sees %d clients, want the proxy alone", got)
		}
		// What the upstream refuses is a refusal to the client, and no work done.
		p.stop()
		p.wait(t)
		eventually(t, "the proxy's account to close", func() bool { return gate.Stats().Clients == 0 })
	}
	gate.Drain()
	p := start(t, to("http://"+addr))
	resp, _ := get(t, client(t, 1, nil), p.url)
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("refused by the upstream: %d %v", resp.StatusCode, resp.Header)
	}
	eventually(t, "the outcome", func() bool { return p.Status().Upstreams[0].Served["dropped"] == 1 })
}

func TestMonitorAndOff(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	cfg := to("http://" + addr)
	p := start(t, cfg)
	request := func() int {
		r, _ := http.NewRequest("GET", p.url, nil)
		r.Header.Set("Spillgate", wire.Header(wire.Tags{Budget: 1}.Append(nil)))
		resp, err := client(t, 1, nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		return resp.StatusCode
	}
	if got := request(); got != 504 {
		t.Errorf("enforced: %d, want 504", got)
	}
	if err := p.SetMode(live.Monitor); err != nil {
		t.Fatal(err)
	}
	// Its budget is over, so the upstream is not asked; but it was not the gate.
	request()
	if s := p.Status(); s.Mode != "monitor" || s.Upstreams[0].WouldRefuse["expired"] != 1 || s.Upstreams[0].Refused["expired"] != 1 {
		t.Errorf("monitored: %+v", s)
	}
	if err := p.SetMode(live.Off); err != nil {
		t.Fatal(err)
	}
	if resp, body := get(t, client(t, 1, nil), p.url); resp.StatusCode != 200 || body != "ok" {
		t.Errorf("off: %d %q", resp.StatusCode, body)
	}
	if err := p.SetMode(9); err == nil {
		t.Error("mode 9 was taken")
	}
	if !strings.Contains(p.log.String(), "from=enforce to=monitor") {
		t.Errorf("log:\n%s", p.log)
	}
}

// What goes wrong behind the proxy is not a refusal.
func TestFailures(t *testing.T) {
	begun := make(chan struct{})
	s, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/reset":
			panic(http.ErrAbortHandler)
		case "/cut":
			w.Header().Set("Content-Length", "1000000")
			w.Write(make([]byte, 100_000))
			panic(http.ErrAbortHandler)
		case "/left":
			close(begun)
			<-r.Context().Done()
		case "/slow":
			<-r.Context().Done()
		}
	}))
	cfg := to("http://" + addr)
	cfg.Limits.Response = 200 * time.Millisecond
	p := start(t, cfg)
	c := client(t, 1, nil)
	for path, want := range map[string]int{"/reset": 502, "/slow": 504} {
		resp, body := get(t, c, p.url+path)
		if resp.StatusCode != want || !json.Valid([]byte(body)) || resp.Header.Get("Retry-After") != "" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
		if strings.Contains(body, addr) {
			t.Errorf("%s tells the client what is behind: %s", path, body)
		}
	}
	resp, err := c.Get(p.url + "/cut")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("a body that was cut off ended well after %d bytes", n)
	}
	resp.Body.Close()
	// A client that leaves takes its request with it.
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := http.NewRequestWithContext(ctx, "GET", p.url+"/left", nil)
	go func() {
		<-begun
		cancel()
	}()
	if _, err := c.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	s.Close()
	if resp, _ := get(t, c, p.url); resp.StatusCode != 502 {
		t.Errorf("upstream gone: %d", resp.StatusCode)
	}
	eventually(t, "all to leave", func() bool { return p.Status().Inside == 0 })
	st := p.Status().Upstreams[0]
	if len(st.Refused) != 0 || st.Served["ignored"] != 5 || len(st.Served) != 1 || st.Running != 0 || st.Reachable {
		t.Errorf("status %+v, want 5 ignored, none refused, unreachable", st)
	}
	_, metrics := get(t, c, p.admin+"/metrics")
	for _, want := range []string{`kind="connect"`, `kind="reset"`, `kind="timeout"`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if !strings.Contains(p.log.String(), "upstream failed") {
		t.Errorf("log:\n%s", p.log)
	}
}

// A client that is silent in the middle of its upload learns that the upstream
// died: at once behind HTTP/2, when its silence has lasted too long behind
// HTTP/1.
func TestUpstreamDiesDuringUpload(t *testing.T) {
	for _, scheme := range []string{"http://", "h2c://"} {
		reading := make(chan struct{})
		s, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body.Read(make([]byte, 1))
			close(reading)
			io.Copy(io.Discard, r.Body)
		}))
		cfg := to(scheme + addr)
		if scheme == "http://" {
			cfg.Limits.BodyTimeout = 200 * time.Millisecond
		}
		p := start(t, cfg)
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		await.Value(t, reading, "the server to read the body")
		s.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		want := map[string]int{"http://": 408, "h2c://": 502}[scheme]
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %v %v, want %d", scheme, resp, err, want)
		}
		c.Close()
		eventually(t, "the request to leave", func() bool { st := p.Status(); return st.Inside == 0 && st.Upstreams[0].Running == 0 })
	}
}

// Connections are kept after every kind of body.
func TestKeptConnections(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	for _, scheme := range []string{"http://", "h2c://"} {
		p := start(t, to(scheme+addr))
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		br := bufio.NewReader(c)
		for i, raw := range []string{
			"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
			"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
			"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			fmt.Fprint(c, raw)
			for {
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatalf("%s: request %d: %v", scheme, i, err)
				}
				body := read(t, resp)
				if resp.StatusCode == 100 {
					continue
				}
				if resp.StatusCode != 200 || resp.Close || body != "" && body != "hello" {
					t.Errorf("%s: request %d: %d %q, close %v", scheme, i, resp.StatusCode, body, resp.Close)
				}
				break
			}
		}
	}
}

func TestChoice(t *testing.T) {
	var urls []string
	var hits [3]atomic.Int32
	hold := make(chan struct{})
	for i := range 3 {
		_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hits[i].Add(1)
			if r.URL.Path == "/hold" {
				<-hold
			}
		}))
		urls = append(urls, "http://"+addr)
	}
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	p := start(t, to(append(urls, "http://"+dead.Addr().String())...))
	c := client(t, 1, nil)
	// Find the dead one, which is then passed over.
	eventually(t, "the dead upstream to be found", func() bool {
		get(t, c, p.url)
		for _, u := range p.Status().Upstreams {
			if !u.Reachable {
				return true
			}
		}
		return false
	})
	for i := range hits {
		hits[i].Store(0)
	}
	// Of requests that stay, each goes where fewest are. On a slow machine the
	// dead one may be tried again in between.
	var wg sync.WaitGroup
	arrived := func() int { return int(hits[0].Load() + hits[1].Load() + hits[2].Load()) }
	for arrived() < 9 {
		before, failed := arrived(), make(chan struct{}, 1)
		wg.Go(func() {
			resp, err := c.Get(p.url + "/hold")
			if err != nil {
				t.Error(err)
			} else {
				read(t, resp)
			}
			failed <- struct{}{}
		})
		eventually(t, "the request to arrive, or to fail", func() bool { return arrived() > before || len(failed) > 0 })
	}
	for i := range hits {
		if n := hits[i].Load(); n < 2 || n > 4 {
			t.Errorf("upstream %d has %d of 9 requests", i, n)
		}
	}
	close(hold)
	await.All(t, &wg, "the clients to end")
}

func TestTLS(t *testing.T) {
	servers, clients, strangers := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "strangers")
	upCert, upKey := servers.issue("upstream")
	frontCert, frontKey := servers.issue("front")
	proxyCert, proxyKey := clients.issue("proxy")
	userCert, userKey := clients.issue("user")

	pair, err := tls.LoadX509KeyPair(upCert, upKey)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients.pool(), ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ErrorLog: (&Proxy{log: discard()}).errorLog(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "HTTP/%d from %s by %s", r.ProtoMajor, r.TLS.PeerCertificates[0].Subject.CommonName, r.Header.Get("X-Forwarded-Proto"))
	})}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Close(); await.Value(t, done, "the server to stop") })

	listen := []Listener{{Address: "127.0.0.1:0", Cert: frontCert, Key: frontKey, ClientCA: clients.pem}}
	good := Upstream{URL: "https://" + l.Addr().String(), CA: servers.pem, Cert: proxyCert, Key: proxyKey}
	p := start(t, Config{Listen: listen, Upstreams: []Upstream{good}})
	user, err := tls.LoadX509KeyPair(userCert, userKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, major := range []int{1, 2} {
		c := client(t, major, &tls.Config{RootCAs: servers.pool(), Certificates: []tls.Certificate{user}})
		resp, body := get(t, c, p.url)
		if resp.ProtoMajor != major || body != "HTTP/2 from proxy by https" {
			t.Errorf("HTTP/%d: %q", resp.ProtoMajor, body)
		}
	}
	if _, err := client(t, 1, &tls.Config{RootCAs: servers.pool()}).Get(p.url); err == nil {
		t.Error("a client without a certificate was let in")
	}
	for name, test := range map[string]struct {
		change func(*Upstream)
		want   int
	}{
		"insecure by name":  {func(u *Upstream) { u.CA, u.Insecure = "", true }, 200},
		"another authority": {func(u *Upstream) { u.CA = strangers.pem }, 502},
		"the system's":      {func(u *Upstream) { u.CA = "" }, 502},
		"no certificate":    {func(u *Upstream) { u.Cert, u.Key = "", "" }, 502},
	} {
		u := good
		test.change(&u)
		p := start(t, Config{Upstreams: []Upstream{u}})
		if resp, body := get(t, client(t, 1, nil), p.url); resp.StatusCode != test.want {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
}

// waits starts a server that answers with a text, on a path only when leave is closed. entered
// hears of each request that waits there, of up to eight.
func waits(t *testing.T, path, text string) (addr string, entered, leave chan struct{}) {
	t.Helper()
	entered, leave = make(chan struct{}, 8), make(chan struct{})
	_, addr = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			entered <- struct{}{}
			<-leave
		}
		io.WriteString(w, text)
	}))
	return addr, entered, leave
}

// The way out: unready while still serving, then new requests are refused while
// those inside finish, then Run returns nil.
func TestDrain(t *testing.T) {
	addr, entered, leave := waits(t, "/long", "done")
	cfg := to("http://" + addr)
	cfg.Drain = Drain{Notice: 300 * time.Millisecond, Timeout: time.Minute}
	p := start(t, cfg)
	c, c2 := client(t, 1, nil), client(t, 2, nil)
	if resp, body := get(t, c, p.admin+PathReady); resp.StatusCode != 200 || body != "serving\n" {
		t.Errorf("ready: %d %s", resp.StatusCode, body)
	}
	result := make(chan string, 2)
	for _, c := range []*http.Client{c, c2} {
		go func() {
			resp, err := c.Get(p.url + "/long")
			if err != nil {
				result <- err.Error()
				return
			}
			result <- read(t, resp)
		}()
		await.Value(t, entered, "a request to reach the handler")
	}
	p.stop()
	eventually(t, "readiness to fail", func() bool {
		resp, _ := get(t, c, p.admin+PathReady)
		return resp.StatusCode == 503
	})
	if p.phase.Load() == noticing { // a slow machine may have come to its end
		if resp, body := get(t, c, p.url); resp.StatusCode != 200 && p.phase.Load() == noticing {
			t.Errorf("during the notice: %d %s", resp.StatusCode, body)
		}
	}
	eventually(t, "the drain", func() bool { return p.phase.Load() == draining })
	if resp, _ := get(t, c, p.admin+PathLive); resp.StatusCode != 200 {
		t.Errorf("alive while draining: %d", resp.StatusCode)
	}
	fresh := client(t, 1, nil)
	eventually(t, "new requests to be refused", func() bool {
		resp, err := fresh.Get(p.url)
		if err != nil {
			return true // the listener is closed
		}
		resp.Body.Close()
		return resp.StatusCode == 503
	})
	fresh.CloseIdleConnections()
	select {
	case err := <-p.done:
		t.Fatalf("Run returned %v with requests inside", err)
	default:
	}
	close(leave)
	for range 2 {
		if got := await.Value(t, result, "an answer"); got != "done" {
			t.Errorf("a request inside: %q", got)
		}
	}
	if err := p.wait(t); err != nil {
		t.Error(err)
	}
	if _, err := p.Reload(cfg); err == nil {
		t.Error("a drained proxy took a configuration")
	}
}

// What has not finished in time is cut off, and nothing is left.
func TestDrainCutsOff(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	cfg := to("http://" + addr)
	cfg.Drain.Timeout = 20 * time.Millisecond
	p := start(t, cfg)
	failed := make(chan error, 2)
	for _, major := range []int{1, 2} {
		c := client(t, major, nil)
		go func() {
			resp, err := c.Get(p.url)
			if err == nil {
				resp.Body.Close()
			}
			failed <- err
		}()
	}
	eventually(t, "both requests", func() bool { return p.Status().Inside == 2 })
	p.stop()
	if err := p.wait(t); err != nil {
		t.Error(err)
	}
	await.Value(t, failed, "the request to end")
	await.Value(t, failed, "the request to end")
}

func TestReload(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	upstream := func(name string) string {
		_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				entered <- struct{}{}
				<-leave
			}
			io.WriteString(w, name)
		}))
		return "http://" + addr
	}
	a, b, d := upstream("a"), upstream("b"), upstream("d")
	p := start(t, to(a, b))
	kept := p.state.Load().upstreams[1]
	c := client(t, 1, nil)
	// A request inside an upstream that leaves is not lost.
	first := to(a)
	if _, err := p.Reload(withRequired(first, p)); err != nil {
		t.Fatal(err)
	}
	result := make(chan string, 1)
	go func() {
		_, body := get(t, c, p.url+"/long")
		result <- body
	}()
	await.Value(t, entered, "a request to reach the handler")
	next := withRequired(to(b, d), p)
	next.Listen, next.Admin, next.Limits.Header = []Listener{{Address: ":1"}}, "127.0.0.1:2", 8192
	ignored, err := p.Reload(next)
	if err != nil || !reflect.DeepEqual(ignored, []string{"listen", "admin", "limits"}) {
		t.Errorf("ignored %v, %v", ignored, err)
	}
	seen := map[string]bool{}
	for range 20 {
		_, body := get(t, c, p.url)
		seen[body] = true
	}
	if !seen["b"] || !seen["d"] || seen["a"] {
		t.Errorf("answers from %v, want b and d", seen)
	}
	close(leave)
	if got := await.Value(t, result, "an answer"); got != "a" {
		t.Errorf("the request inside: %q", got)
	}
	// An upstream that stays keeps its gate.
	before := p.state.Load().upstreams[0]
	if _, err := p.Reload(withRequired(to(b), p)); err != nil || p.state.Load().upstreams[0] != before || before == kept {
		t.Errorf("the gate of an upstream that stayed changed, or that of one that came back did not: %v", err)
	}
	other := withRequired(to(b), p)
	other.Objective = time.Second
	if _, err := p.Reload(other); err != nil || p.state.Load().upstreams[0] != before || before.gate.Objective() != time.Second {
		t.Errorf("another objective changed the gate, or did not come there: %v, %v", err, before.gate.Objective())
	}
	// A mistake changes nothing.
	if _, err := p.Reload(withRequired(to("nonsense"), p)); err == nil || p.Status().Upstreams[0].URL != b {
		t.Errorf("a mistake: %v, %+v", err, p.Status())
	}
	eventually(t, "gates that left to leave the metrics too", func() bool {
		_, metrics := get(t, c, p.admin+PathMetrics)
		return strings.Count(metrics, "spillgate_slots_limit{") == 1
	})
}

// withRequired completes a configuration with what the running one has.
func withRequired(c Config, p *running) Config {
	have := p.state.Load().cfg
	c.Objective, c.Listen, c.Admin = have.Objective, have.Listen, have.Admin
	return c
}

// Requests come while configurations change; none is lost.
func TestReloadUnderLoad(t *testing.T) {
	var urls []string
	for range 3 {
		_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
		urls = append(urls, "http://"+addr)
	}
	p := start(t, to(urls...))
	rt := &http.Client{Transport: httpgate.Transport(client(t, 2, nil).Transport)}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if resp, body := get(t, rt, p.url); resp.StatusCode != 200 || body != "ok" {
					t.Errorf("%d %q", resp.StatusCode, body)
					return
				}
			}
		})
	}
	for i := range 10 {
		if _, err := p.Reload(withRequired(to(urls[i%3]), p)); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	await.All(t, &wg, "the clients to end")
}

func TestLimits(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	cfg := to("http://" + addr)
	cfg.Limits = Limits{Header: 8192, HeaderTimeout: 50 * time.Millisecond, Connections: 2}
	p := start(t, cfg)

	// A header that never ends is cut off.
	slow, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprintf(slow, "GET / HTTP/1.1\r\nHost: x\r\nX-A: ")
	slow.SetReadDeadline(time.Now().Add(time.Minute))
	if b, err := io.ReadAll(slow); err != nil {
		t.Errorf("a slow header: %q, %v", b, err)
	}
	// So is one that is too large.
	cfg.Limits.HeaderTimeout = time.Minute
	p = start(t, cfg)
	c := client(t, 1, nil)
	r, _ := http.NewRequest("GET", p.url, nil)
	r.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	if resp, err := c.Do(r); err != nil || resp.StatusCode != 431 {
		t.Errorf("a large header: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	r, _ = http.NewRequest("CONNECT", p.url, nil)
	if resp, err := c.Do(r); err != nil || resp.StatusCode != 405 {
		t.Errorf("CONNECT: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	c.CloseIdleConnections()
}

// Malformed tags never hurt, and are counted.
func TestMalformedTags(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	p := start(t, to("http://"+addr))
	values := []string{"!", strings.Repeat("A", 5000), wire.Header([]byte{1, 1}), wire.Header([]byte{200, 1})}
	for _, v := range values {
		r, _ := http.NewRequest("GET", p.url, nil)
		r.Header.Set("Spillgate", v)
		resp, err := client(t, 1, nil).Do(r)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		read(t, resp)
	}
	if got := p.Status().Malformed; int(got) != len(values) {
		t.Errorf("%d counted, want %d", got, len(values))
	}
}

func TestStartupFailures(t *testing.T) {
	_, err := New(Config{}, nil)
	var m *Mistake
	if !errors.As(err, &m) || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("an empty configuration: %v", err)
	}
	named := to("http://127.0.0.1:1")
	named.Objective, named.Listen, named.Upstreams[0].Name = time.Second, []Listener{{Address: "127.0.0.1:0"}}, "\xff"
	if _, err := New(named, nil); !errors.As(err, &m) || m.Field != "upstreams[0].name" {
		t.Errorf("a name that is no text: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cfg := to("http://127.0.0.1:1")
	cfg.Objective, cfg.Listen, cfg.Admin = time.Second, []Listener{{Address: l.Addr().String()}}, other.Addr().String()
	p, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || strings.Count(err.Error(), "listen on") != 2 {
		t.Errorf("addresses in use: %v", err)
	}
}
