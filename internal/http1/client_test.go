package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// server accepts connections and has each handled by a function.
type server struct {
	t        testing.TB
	addr     string
	accepted atomic.Int64
}

func serve(t testing.TB, handle func(c net.Conn, n int64)) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: l.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			n := s.accepted.Add(1)
			all.Go(func() { defer c.Close(); handle(c, n) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		await.All(t, &all, "the server to end")
	})
	return s
}

// client returns one of s.
func (s *server) client(change func(*Config)) *Client {
	cfg := Config{Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: await.Patience}).DialContext(ctx, "tcp", s.addr)
	}, Idle: 8, Continue: time.Minute}
	if change != nil {
		change(&cfg)
	}
	c := New(cfg)
	s.t.Cleanup(c.Close)
	return c
}

func request(t testing.TB, method string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://server/", body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// get makes a request and reads the answer's body.
func get(t testing.TB, c *Client, r *http.Request) (*http.Response, string, error) {
	t.Helper()
	resp, err := c.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(await.Patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

// echo answers requests with their bodies until one asks for the end.
func echo(c net.Conn, _ int64) {
	for br := bufio.NewReader(c); ; {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if r.Close {
			return
		}
	}
}

// Requests one after another take one connection, which idles as long as it may; those at once take one each.
func TestConnectionsAreUsedAgain(t *testing.T) {
	s := serve(t, echo)
	c := s.client(func(cfg *Config) { cfg.Idle = 2 })
	for range 20 {
		if _, body, err := get(t, c, request(t, "POST", strings.NewReader("hello"))); err != nil || body != "hello" {
			t.Fatal(body, err)
		}
	}
	if n := s.accepted.Load(); n != 1 {
		t.Errorf("%d connections for requests one after another", n)
	}
	var held []*http.Response
	for range 4 {
		resp, err := c.RoundTrip(request(t, "POST", strings.NewReader("hello")))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, resp)
	}
	if n := s.accepted.Load(); n != 4 {
		t.Errorf("%d connections for four answers that are read at once", n)
	}
	for _, resp := range held {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if n := len(c.idle); n != 2 {
		t.Errorf("%d idle connections, want 2", n)
	}
	r := request(t, "GET", nil)
	r.Close = true
	if _, _, err := get(t, c, r); err != nil {
		t.Fatal(err)
	}
	if n := len(c.idle); n != 1 {
		t.Errorf("%d idle connections after one that was to be closed, want 1", n)
	}
	c.CloseIdleConnections()
	if n := len(c.idle); n != 0 {
		t.Errorf("%d idle connections after all were closed", n)
	}
}

// Bytes after an answer are never taken for another one, whether they come with it or later.
func TestNoByteAfterAnAnswerIsRead(t *testing.T) {
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	for _, answer := range []struct{ name, method, raw string }{
		{"a length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"no body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		{"chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"204", "GET", "HTTP/1.1 204 No\r\n\r\n"},
		{"304", "GET", "HTTP/1.1 304 No\r\nContent-Length: 45\r\n\r\n"},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\n"},
		{"HEAD in chunks", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
	} {
		for _, later := range []bool{false, true} {
			read, sent := make(chan struct{}), make(chan struct{})
			s := serve(t, func(c net.Conn, n int64) {
				if n > 1 {
					echo(c, n)
					return
				}
				if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
					return
				}
				if later {
					fmt.Fprint(c, answer.raw)
					<-read
					fmt.Fprint(c, forged)
				} else {
					fmt.Fprint(c, answer.raw+forged)
				}
				close(sent)
				_, _ = io.Copy(io.Discard, c)
			})
			c := s.client(nil)
			if _, body, err := get(t, c, request(t, answer.method, nil)); err != nil || body != "" && body != "ok" {
				t.Fatal(answer.name, body, err)
			}
			close(read)
			await.Value(t, sent, "the rest")
			if _, body, err := get(t, c, request(t, "POST", strings.NewReader("mine"))); err != nil || body != "mine" {
				t.Errorf("%s, later %v: the next request gets %q, %v", answer.name, later, body, err)
			}
		}
	}
}

// Bytes after an answer that are in the memory of TLS, and no longer in the socket, are no answer either.
func TestNoByteThatTLSHoldsIsRead(t *testing.T) {
	var asked atomic.Int64
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			_, _ = io.Copy(w, r.Body)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		fmt.Fprint(c, long(8<<10)+forgery) // one record
		_, _ = io.Copy(io.Discard, c)
	}))
	h.TLS = &tls.Config{DynamicRecordSizingDisabled: true}
	h.StartTLS()
	c := secured(t, h)
	resp, err := c.RoundTrip(request(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	largeReads(t, resp.Body, 8<<10)
	if _, body, err := get(t, c, request(t, "POST", strings.NewReader("mine"))); err != nil || body != "mine" {
		t.Errorf("the next request gets %q, %v", body, err)
	}
}

// Nor are those on a connection that goes from one request to another that waits for one.
func TestNoByteOfAHandedConnectionIsRead(t *testing.T) {
	sent := make(chan struct{})
	s := serve(t, func(c net.Conn, n int64) {
		if n > 1 {
			echo(c, n)
			return
		}
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		fmt.Fprint(c, long(8<<10)+forgery)
		close(sent)
		_, _ = io.Copy(io.Discard, c)
	})
	release := make(chan struct{})
	var dials atomic.Int64
	c := s.client(func(cfg *Config) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context) (net.Conn, error) {
			if dials.Add(1) == 2 {
				<-release
			}
			return dial(ctx)
		}
	})
	defer close(release)
	resp, err := c.RoundTrip(request(t, "GET", nil))
	if err != nil {
		t.Fatal(err)
	}
	await.Value(t, sent, "the rest")
	done := make(chan string, 1)
	go func() {
		_, body, err := get(t, c, request(t, "POST", strings.NewReader("mine")))
		done <- fmt.Sprint(body, err)
	}()
	eventually(t, "second dial", func() bool { return dials.Load() == 2 })
	largeReads(t, resp.Body, 8<<10)
	if got := await.Value(t, done, "the answer"); got != "mine<nil>" {
		t.Errorf("the next request gets %q", got)
	}
}

const forgery = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"

// long returns an answer with a body of that length.
func long(n int) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
}

// largeReads reads a body of n bytes to its end, past the connection's own buffer.
func largeReads(t testing.TB, body io.Reader, n int) {
	t.Helper()
	buf := make([]byte, 32<<10)
	for {
		more, err := body.Read(buf)
		switch n -= more; {
		case err == io.EOF && n == 0:
			return
		case err != nil:
			t.Fatal(n, err)
		}
	}
}

// A connection that the server closed, or on which it said 408, is not used: even a request that may not be sent
// twice is answered.
func TestClosedConnectionsAreSeen(t *testing.T) {
	for _, last := range []string{"", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"} {
		closed := make(chan struct{}, 1)
		s := serve(t, func(c net.Conn, n int64) {
			br := bufio.NewReader(c)
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n%s", "")
			time.Sleep(5 * time.Millisecond)
			fmt.Fprint(c, last)
			c.Close()
			closed <- struct{}{}
		})
		c := s.client(nil)
		for range 10 {
			if _, _, err := get(t, c, request(t, "POST", nil)); err != nil {
				t.Fatal(err)
			}
			await.Value(t, closed, "the end of a connection")
		}
		if n := s.accepted.Load(); n != 10 {
			t.Errorf("%d connections, want 10", n)
		}
	}
}

// What the server closes while no request comes is closed here too, and so is what is idle for long.
func TestIdleConnectionsAreSwept(t *testing.T) {
	for _, closes := range []bool{false, true} {
		s := serve(t, func(c net.Conn, n int64) {
			if closes {
				_, _ = http.ReadRequest(bufio.NewReader(c))
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				return
			}
			echo(c, n)
		})
		c := s.client(func(cfg *Config) {
			if !closes {
				cfg.IdleTime = 10 * time.Millisecond
			}
		})
		if _, _, err := get(t, c, request(t, "GET", nil)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "end of the connection, and of looking", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.idle) == 0 && !c.swept
		})
	}
}

// A connection that is not to be kept is closed with the end of its answer.
func TestKeep(t *testing.T) {
	s := serve(t, echo)
	var keep atomic.Bool
	c := s.client(func(cfg *Config) { cfg.Keep = keep.Load })
	for _, kept := range []bool{false, true, false} {
		keep.Store(kept)
		if _, _, err := get(t, c, request(t, "GET", nil)); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		n := len(c.idle)
		c.mu.Unlock()
		if kept != (n == 1) {
			t.Errorf("%d connections are kept, expected one: %v", n, kept)
		}
	}
}

// What belongs to TLS alone, such as tickets after a handshake, ends no idle connection.
func TestTicketsAreSwept(t *testing.T) {
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	h.TLS = &tls.Config{ClientAuth: tls.RequestClientCert} // else tickets come with the handshake
	h.StartTLS()
	t.Cleanup(h.Close)
	secure := h.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	secure.ServerName = "example.com"
	secure.ClientSessionCache = tls.NewLRUClientSessionCache(1) // else no tickets come
	nc, err := tls.Dial("tcp", h.Listener.Addr().String(), secure)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Idle: 1, Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("one is enough") }})
	t.Cleanup(c.Close)
	cn := newConn(c, nc)
	eventually(t, "tickets", func() bool { return !cn.quiet() })
	c.put(cn)
	c.sweep()
	if _, body, err := get(t, c, request(t, "POST", strings.NewReader("hello"))); err != nil || body != "hello" {
		t.Errorf("%q, %v", body, err)
	}
}

// A request that the server did not answer on a kept connection is sent again if it may be executed twice.
func TestSentAgain(t *testing.T) {
	for _, test := range []struct {
		name  string
		r     func() *http.Request
		again bool
	}{
		{"GET", func() *http.Request { return request(t, "GET", nil) }, true},
		{"HEAD", func() *http.Request { return request(t, "HEAD", nil) }, true},
		{"POST", func() *http.Request { return request(t, "POST", nil) }, false},
		{"PUT", func() *http.Request { return request(t, "PUT", nil) }, false},
		{"DELETE", func() *http.Request { return request(t, "DELETE", nil) }, false},
		{"POST with a key", func() *http.Request {
			r := request(t, "POST", nil)
			r.Header.Set("Idempotency-Key", "1")
			return r
		}, true},
		{"GET with a body that can be had again", func() *http.Request { return request(t, "GET", strings.NewReader("x")) }, true},
		{"GET with a body that cannot", func() *http.Request { return request(t, "GET", io.MultiReader(strings.NewReader("x"))) }, false},
		{"POST with a key and a body", func() *http.Request {
			r := request(t, "POST", strings.NewReader("x"))
			r.GetBody = nil
			r.Header.Set("Idempotency-Key", "1")
			return r
		}, false},
	} {
		for _, reset := range []bool{false, true} {
			s := serve(t, func(c net.Conn, n int64) {
				if n > 1 {
					echo(c, n)
					return
				}
				br := bufio.NewReader(c)
				for range 2 {
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					if r.URL.Path == "/first" {
						fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				}
				if reset {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
			})
			c := s.client(nil)
			first := request(t, "GET", nil)
			first.URL.Path = "/first"
			if _, _, err := get(t, c, first); err != nil {
				t.Fatal(err)
			}
			resp, _, err := get(t, c, test.r())
			if test.again && (err != nil || resp.StatusCode != 200) {
				t.Errorf("%s: %v", test.name, err)
			}
			if !test.again && !errors.Is(err, ErrStale) {
				t.Errorf("%s: %v, want an error of a kept connection", test.name, err)
			}
			if n := s.accepted.Load(); (n == 2) != test.again {
				t.Errorf("%s: %d connections", test.name, n)
			}
		}
	}
}

// On a connection of its own no request is sent again, and none of which an answer began.
func TestNotSentAgain(t *testing.T) {
	for _, begun := range []string{"", "HTTP/1.1 200"} {
		s := serve(t, func(c net.Conn, _ int64) {
			br := bufio.NewReader(c)
			for first := begun != ""; ; first = false {
				if _, err := http.ReadRequest(br); err != nil {
					return
				}
				if !first {
					fmt.Fprint(c, begun)
					return
				}
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		c := s.client(nil)
		if begun != "" {
			if _, _, err := get(t, c, request(t, "GET", nil)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := get(t, c, request(t, "GET", nil)); err == nil || errors.Is(err, ErrStale) {
			t.Error(err)
		}
		if n := s.accepted.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	}
}

// An answer before the end of the body is returned at once, while the body goes on; the connection is used again only
// if all of it went out.
func TestEarlyAnswers(t *testing.T) {
	for _, whole := range []bool{false, true} {
		got := make(chan string, 1)
		s := serve(t, func(c net.Conn, n int64) {
			br := bufio.NewReader(c)
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n")
			body, _ := io.ReadAll(r.Body)
			got <- string(body)
			fmt.Fprint(c, "0\r\n\r\n")
			echo(c, n)
		})
		c := s.client(nil)
		in, out := io.Pipe()
		resp, err := c.RoundTrip(request(t, "POST", in))
		if err != nil {
			t.Fatal(err)
		}
		early := make([]byte, 5)
		if _, err := io.ReadFull(resp.Body, early); err != nil || string(early) != "early" {
			t.Fatal(string(early), err)
		}
		if whole {
			fmt.Fprint(out, "late")
			out.Close()
			if body := await.Value(t, got, "the body"); body != "late" {
				t.Error(body)
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Error(err)
			}
		}
		resp.Body.Close()
		out.Close()
		if n := len(c.idle); (n == 1) != whole {
			t.Errorf("whole: %v, and %d connections are kept", whole, n)
		}
	}
}

// A server that refuses a long body and closes is heard although the body cannot be written.
func TestRefusedBodiesAreAnswered(t *testing.T) {
	s := serve(t, func(c net.Conn, _ int64) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.CopyN(io.Discard, c, 1<<20)
	})
	c := s.client(nil)
	for range 10 {
		r := request(t, "POST", io.LimitReader(zeros{}, 1<<30))
		r.ContentLength = 1 << 30
		resp, body, err := get(t, c, r)
		if err != nil || resp.StatusCode != 413 || body != "no" {
			t.Fatal(resp, body, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A body for which 100 Continue is expected is held back until that comes, or a while; it is not sent to a server that
// closes the connection after another answer.
func TestContinue(t *testing.T) {
	for _, test := range []struct {
		name, first string
		after       time.Duration
		status      int
		sent        bool
	}{
		{"100", "HTTP/1.1 100 Continue\r\n\r\n", time.Hour, 200, true},
		{"silence", "", time.Millisecond, 200, true},
		{"an answer", "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", time.Hour, 403, true},
		{"an answer that closes", "HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", time.Hour, 403, false},
	} {
		got := make(chan string, 1)
		s := serve(t, func(c net.Conn, _ int64) {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			fmt.Fprint(c, test.first)
			body, _ := io.ReadAll(r.Body)
			got <- string(body)
			if test.status == 200 {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		c := s.client(func(cfg *Config) { cfg.Continue = test.after })
		r := request(t, "POST", strings.NewReader("hello"))
		r.Header.Set("Expect", "100-continue")
		resp, _, err := get(t, c, r)
		if err != nil || resp.StatusCode != test.status {
			t.Fatal(test.name, resp, err)
		}
		if body := await.Value(t, got, "the body"); (body == "hello") != test.sent {
			t.Errorf("%s: the server got %q", test.name, body)
		}
	}
}

// A body that is not as long as announced, or that fails, ends the connection and is the reason of the error.
func TestBrokenBodies(t *testing.T) {
	foul := errors.New("foul")
	for name, body := range map[string]io.Reader{
		"short":      strings.NewReader("hell"),
		"long":       strings.NewReader("hello!"),
		"failing":    io.MultiReader(strings.NewReader("he"), failing{foul}),
		"short, mem": inMemory{strings.NewReader("hell")},
		"long, mem":  inMemory{strings.NewReader("hello!")},
	} {
		heard := make(chan error, 1)
		s := serve(t, func(c net.Conn, _ int64) {
			r, err := http.ReadRequest(bufio.NewReader(c))
			if err == nil {
				_, err = io.ReadAll(r.Body)
			}
			if err == nil { // the body was long
				_, err = c.Read(make([]byte, 1))
			}
			heard <- err
		})
		c := s.client(nil)
		r := request(t, "POST", io.NopCloser(body))
		if m, ok := body.(inMemory); ok {
			r.Body = m
		}
		r.ContentLength = 5
		_, _, err := get(t, c, r)
		if err == nil || errors.Is(err, ErrStale) || name == "failing" && err != foul {
			t.Errorf("%s: %v", name, err)
		}
		if err := await.Value(t, heard, "the end of the connection"); err == nil {
			t.Errorf("%s: the server was told that all came", name)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// inMemory is a body in memory.
type inMemory struct{ *strings.Reader }

func (inMemory) Close() error   { return nil }
func (inMemory) InMemory() bool { return true }

// The end of a request's context ends it wherever it is, with the cause, and its connection is not used again.
func TestCancel(t *testing.T) {
	why := errors.New("why")
	for _, where := range []string{"dial", "header", "body", "upload"} {
		inside := make(chan struct{}, 1)
		gone := make(chan struct{}, 1)
		s := serve(t, func(c net.Conn, _ int64) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			if where == "body" {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
			}
			inside <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
			gone <- struct{}{}
		})
		c := s.client(func(cfg *Config) {
			if where == "dial" {
				cfg.Dial = func(context.Context) (net.Conn, error) {
					inside <- struct{}{}
					time.Sleep(20 * time.Millisecond)
					return nil, errors.New("late")
				}
			}
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		r := request(t, "POST", nil).WithContext(ctx)
		in, out := io.Pipe()
		if where == "upload" {
			r.Body, r.ContentLength = in, 10
		}
		failed := make(chan error, 1)
		go func() {
			_, _, err := get(t, c, r)
			failed <- err
		}()
		await.Value(t, inside, "the request to be inside")
		cancel(why)
		if where != "dial" {
			await.Value(t, gone, "the end of the connection")
		}
		out.Close() // RoundTrip waits for what reads the body
		if err := await.Value(t, failed, "the end of the request"); err != why {
			t.Errorf("%s: %v", where, err)
		}
		if n := len(c.idle); n != 0 {
			t.Errorf("%s: %d connections are kept", where, n)
		}
	}
}

// The time for an answer's header counts from the end of the request, anew for each request of a connection, and not for
// the body.
func TestResponseTime(t *testing.T) {
	const limit = 150 * time.Millisecond
	s := serve(t, func(c net.Conn, _ int64) {
		br := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			switch r.URL.Path {
			case "/late":
				_, _ = io.Copy(io.Discard, br)
				return
			case "/body":
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
				time.Sleep(2 * limit)
				fmt.Fprint(c, "ok")
			default:
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			}
		}
	})
	c := s.client(func(cfg *Config) { cfg.Response = limit })
	for _, path := range []string{"/", "/body", "/", "/body"} {
		r := request(t, "GET", nil)
		r.URL.Path = path
		var err error
		eventually(t, "answer in time", func() bool { // a busy machine may be late
			_, _, err = get(t, c, r)
			return err == nil || !isTimeout(err)
		})
		if err != nil {
			t.Fatal(path, err)
		}
	}
	r := request(t, "GET", nil)
	r.URL.Path = "/late"
	began := time.Now()
	if _, _, err := get(t, c, r); !isTimeout(err) || time.Since(began) < limit {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	in, out := io.Pipe()
	r = request(t, "POST", in)
	r.URL.Path = "/late"
	began = time.Now()
	time.AfterFunc(2*limit, func() { out.Close() })
	if _, _, err := get(t, c, r); !isTimeout(err) || time.Since(began) < 3*limit {
		t.Errorf("after a slow body: %v after %v", err, time.Since(began))
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// An answer 101 makes the connection the caller's, with what came behind it.
func TestUpgrade(t *testing.T) {
	s := serve(t, func(c net.Conn, _ int64) {
		br := bufio.NewReader(c)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ")
		_, _ = io.Copy(c, br)
		fmt.Fprint(c, " bye")
	})
	c := s.client(nil)
	ctx, cancel := context.WithCancel(t.Context())
	r := request(t, "GET", nil).WithContext(ctx)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := c.RoundTrip(r)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	cancel() // it is the caller's
	both := resp.Body.(io.ReadWriteCloser)
	defer both.Close()
	fmt.Fprint(both, "you")
	if err := both.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(both); err != nil || string(text) != "hello you bye" {
		t.Errorf("%q, %v", text, err)
	}
}

// Answers 1xx without end are bounded by the header's limit, unless somebody takes them.
func TestInformationWithoutEnd(t *testing.T) {
	s := serve(t, func(c net.Conn, _ int64) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		for range 10_000 {
			if _, err := fmt.Fprint(c, "HTTP/1.1 103 Early Hints\r\n\r\n"); err != nil {
				return
			}
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	})
	c := s.client(func(cfg *Config) { cfg.Header = 4096 })
	if _, _, err := get(t, c, request(t, "GET", nil)); err == nil {
		t.Error("no limit")
	}
	n := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { n++; return nil }})
	if _, body, err := get(t, c, request(t, "GET", nil).WithContext(ctx)); err != nil || body != "ok" || n != 10_000 {
		t.Errorf("%q, %v after %d", body, err, n)
	}
}

// A request takes a connection that is given back while its own is dialled, and the other is kept.
func TestWaitsForAnyConnection(t *testing.T) {
	s := serve(t, echo)
	release := make(chan struct{})
	dials := make(chan struct{}, 8)
	c := s.client(func(cfg *Config) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context) (net.Conn, error) {
			dials <- struct{}{}
			if len(dials) > 1 {
				<-release
			}
			return dial(ctx)
		}
	})
	resp, err := c.RoundTrip(request(t, "POST", strings.NewReader("hello")))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := get(t, c, request(t, "POST", strings.NewReader("hello")))
		done <- err
	}()
	eventually(t, "second dial", func() bool { return len(dials) == 2 })
	_, _ = io.Copy(io.Discard, resp.Body)
	if err := await.Value(t, done, "the answer"); err != nil {
		t.Error(err)
	}
	close(release)
	eventually(t, "two idle connections", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.idle) == 2 })
}

// A body may be closed while another goroutine reads from it.
func TestCloseDuringRead(t *testing.T) {
	s := serve(t, func(c net.Conn, _ int64) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
		_, _ = io.Copy(io.Discard, c)
	})
	c := s.client(nil)
	for range 20 {
		resp, err := c.RoundTrip(request(t, "GET", nil))
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(resp.Body)
			read <- err
		}()
		resp.Body.Close()
		if err := await.Value(t, read, "the end of the read"); err == nil {
			t.Error("a body that was closed came to its end")
		}
	}
}

// An error of a dial that says that the server speaks another version leaves the body as it is; any other closes it.
func TestOtherVersions(t *testing.T) {
	for _, cause := range []error{ErrOther, errors.New("refused")} {
		c := New(Config{Dial: func(context.Context) (net.Conn, error) { return nil, fmt.Errorf("no: %w", cause) }})
		body := &closable{Reader: strings.NewReader("x")}
		r := request(t, "GET", nil)
		r.Body, r.ContentLength = body, -1
		if _, err := c.RoundTrip(r); !errors.Is(err, cause) {
			t.Error(err)
		}
		if body.closed == (cause == ErrOther) || body.Len() != 1 {
			t.Errorf("%v: closed %v, %d bytes left", cause, body.closed, body.Len())
		}
	}
}

type closable struct {
	*strings.Reader
	closed bool
}

func (c *closable) Close() error { c.closed = true; return nil }

// Over TLS a connection is used again although tickets came on it, and not after the server ended it.
func TestTLS(t *testing.T) {
	for _, closes := range []bool{false, true} {
		var accepted atomic.Int64
		h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
		h.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				accepted.Add(1)
			}
		}
		h.StartTLS()
		c := secured(t, h)
		for n := range 4 {
			resp, body, err := get(t, c, request(t, "POST", strings.NewReader("hello")))
			if err != nil || body != "hello" || resp.TLS == nil {
				t.Fatal(n, resp, body, err)
			}
			if closes {
				h.CloseClientConnections()
			}
		}
		if n := accepted.Load(); (n == 4) != closes || (n == 1) == closes {
			t.Errorf("%d connections, and the server closes them: %v", n, closes)
		}
	}
}

// secured returns a client of a server with TLS, which it closes with the test.
func secured(t *testing.T, h *httptest.Server) *Client {
	t.Helper()
	t.Cleanup(h.Close)
	config := h.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	config.ClientSessionCache = tls.NewLRUClientSessionCache(1) // else no tickets come
	c := New(Config{Idle: 4, Dial: func(ctx context.Context) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", h.Listener.Addr().String())
	}})
	t.Cleanup(c.Close)
	return c
}
