package proxy

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// passed is what an upstream got of a request and a client of its answer.
type passed struct {
	Method, Target, Host, Body string
	Header, Trailer            http.Header

	Before         []string
	Status, Answer string
	AnswerErr      bool
	Length         int64
	Encoding       []string
	AnswerHeader   http.Header
	AnswerTrailer  http.Header
}

// scripted serves requests with a raw answer that is set before each, and keeps what it got.
type scripted struct {
	mu  sync.Mutex
	raw string
	got passed
}

func (s *scripted) serve(c net.Conn) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Header.Del("Spillgate") // which differs with time
	s.mu.Lock()
	s.got = passed{Method: r.Method, Target: r.RequestURI, Host: r.Host, Body: string(body), Header: r.Header, Trailer: r.Trailer}
	raw := s.raw
	s.mu.Unlock()
	_, _ = io.WriteString(c, raw)
}

// A request that asks for no upgrade, and its answer, pass as they do through httputil.ReverseProxy.
func TestPassAsReverseProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); await.All(t, &all, "the upstream to end") })
	p := start(t, to("http://"+l.Addr().String()))
	u := p.state.Load().upstreams[0]
	reverse := &httputil.ReverseProxy{Rewrite: u.rewrite, Transport: u.sends, ErrorHandler: u.fail, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: func(r *http.Response) error { u.answered(r); return nil }}
	var sides [2]string
	for i, h := range []http.Handler{http.HandlerFunc(u.pass), reverse} {
		front := httptest.NewUnstartedServer(h)
		front.Config.ErrorLog = log.New(io.Discard, "", 0)
		front.Start()
		t.Cleanup(front.Close)
		sides[i] = front.Listener.Addr().String()
	}
	const ok = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
	requests := []string{
		"GET / HTTP/1.1\r\nHost: x\r\n",
		"GET /a%20b//c?d=e&f HTTP/1.1\r\nHost: x.example:81\r\nUser-Agent: y\r\n",
		"GET /?a=b;c=d&e=%zz&f=%20 HTTP/1.1\r\nHost: x\r\n",
		"GET /?a=%2 HTTP/1.1\r\nHost: x\r\n",
		"GET /? HTTP/1.1\r\nHost: x\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n",
		"GET / HTTP/1.0\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Mine, te, Cookie\r\nX-Mine: 1\r\nCookie: a\r\nTE: trailers, deflate\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: x-mine\r\nConnection: accept, ,\r\nX-Mine: 1\r\nAccept: a\r\nAccept: b\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: a\r\nTrailer: X-A\r\nProxy: evil\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Host: y\r\nX-Forwarded-Proto: z\r\nForwarded: for=1.1.1.1\r\nX_Forwarded_For: 2\r\nX-Real-IP: 3\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Forwarded-For\r\nX-Forwarded-For: 1.1.1.1\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent:\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n5\r\nhello\r\n0\r\nX-A: 1\r\n\r\n",
		"HEAD / HTTP/1.1\r\nHost: x\r\n",
	}
	answers := []string{ // those of unknown length say of what type they are: else that depends on when the header is flushed
		ok,
		"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nX-A: 1\r\nX-A: 2\r\nConnection: X-B\r\nX-B: 3\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\n\r\nno",
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\nTrailer: X-A, X-B\r\n\r\n5\r\nhello\r\n0\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n5\r\nhello\r\n0\r\nX-A: 1\r\nX-C: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\nuntil the end",
		"HTTP/1.0 200 OK\r\nDate: then\r\nServer: x\r\nContent-Type: a/b\r\n\r\nuntil the end",
		"HTTP/1.1 204 No\r\nX-A: 1\r\n\r\n",
		"HTTP/1.1 304 No\r\nEtag: a\r\nContent-Length: 7\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n" + ok,
		"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"",
	}
	both := func(request, answer string) {
		var got [2]passed
		for i, addr := range sides {
			s.mu.Lock()
			s.raw, s.got = answer, passed{}
			s.mu.Unlock()
			got[i] = s.asked(t, addr, request)
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%q, %q:\nhere         %+v\nReverseProxy %+v", request, answer, got[0], got[1])
		}
	}
	for _, request := range requests {
		both(request, ok)
	}
	for _, answer := range answers {
		both(requests[0], answer)
		both("HEAD / HTTP/1.1\r\nHost: x\r\n", answer)
	}
}

// asked sends a raw request to addr and returns what came of it.
func (s *scripted) asked(t *testing.T, addr, request string) passed {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(await.Patience))
	if !strings.Contains(request, "\r\n\r\n") {
		request += "\r\n"
	}
	fmt.Fprint(c, request)
	method, _, _ := strings.Cut(request, " ")
	var before []string
	for br := bufio.NewReader(c); ; {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return passed{Before: before, AnswerErr: true}
		}
		if resp.StatusCode < 200 {
			before = append(before, fmt.Sprint(resp.Status, resp.Header))
			continue
		}
		body, err := io.ReadAll(resp.Body)
		s.mu.Lock()
		got := s.got
		s.mu.Unlock()
		if resp.Header.Get("Date") != "then" {
			resp.Header.Del("Date")
		}
		got.Before, got.Status, got.Answer, got.AnswerErr, got.Length, got.Encoding = before, resp.Status, string(body), err != nil, resp.ContentLength, resp.TransferEncoding
		if names := strings.Split(resp.Header.Get("Trailer"), ", "); len(names) > 1 { // in any order
			slices.Sort(names)
			resp.Header["Trailer"] = names
		}
		got.AnswerHeader, got.AnswerTrailer = resp.Header, resp.Trailer
		return got
	}
}
