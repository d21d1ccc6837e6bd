package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

// slowBody is a body that is not in memory.
func slowBody(s string) io.ReadCloser { return io.NopCloser(io.MultiReader(strings.NewReader(s))) }

// requests are some that are sent by both sides.
func requests() map[string]func() *http.Request {
	with := func(method string, change func(*http.Request)) func() *http.Request {
		return func() *http.Request {
			r := &http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "server:80", Path: "/a b", RawQuery: "c=d"}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
				Header: http.Header{"User-Agent": {"x"}, "X-Two": {"a", "b"}, "x-odd": {"y"}}}
			change(r)
			return r
		}
	}
	body := func(length int64, text string) func(*http.Request) {
		return func(r *http.Request) { r.Body, r.ContentLength = slowBody(text), length }
	}
	return map[string]func() *http.Request{
		"GET":                          with("GET", func(*http.Request) {}),
		"no method":                    with("", func(*http.Request) {}),
		"POST without a body":          with("POST", func(*http.Request) {}),
		"POST with none":               with("POST", func(r *http.Request) { r.Body = http.NoBody }),
		"DELETE without a body":        with("DELETE", func(*http.Request) {}),
		"a length":                     with("POST", body(5, "hello")),
		"unknown length":               with("POST", body(-1, "hello")),
		"unknown and empty":            with("POST", body(-1, "")),
		"zero that means unknown":      with("POST", body(0, "hello")),
		"GET of unknown length":        with("GET", body(-1, "hello")),
		"GET of unknown length, empty": with("GET", body(-1, "")),
		"chunks that were asked for": with("GET", func(r *http.Request) {
			body(-1, "")(r)
			r.TransferEncoding = []string{"chunked"}
		}),
		"a long body": with("PUT", body(100_000, strings.Repeat("x", 100_000))),
		"long chunks": with("PUT", body(-1, strings.Repeat("x", 100_000))),
		"trailers": with("POST", func(r *http.Request) {
			body(-1, "hello")(r)
			r.Trailer = http.Header{"X-A": {"1"}, "x-b": nil}
		}),
		"trailers and a length": with("POST", func(r *http.Request) {
			body(5, "hello")(r)
			r.Trailer = http.Header{"X-A": {"1"}}
		}),
		"a host":                   with("GET", func(r *http.Request) { r.Host = "other.example:81" }),
		"a host with a zone":       with("GET", func(r *http.Request) { r.Host = "[fe80::1%eth0]:81" }),
		"a foul host":              with("GET", func(r *http.Request) { r.Host = "a\r\nX-Evil: b" }),
		"a host of another script": with("GET", func(r *http.Request) { r.Host = "b\u00fccher.example" }),
		"close":                    with("GET", func(r *http.Request) { r.Close = true }),
		"close twice": with("GET", func(r *http.Request) {
			r.Close = true
			r.Header["Connection"] = []string{"close"}
		}),
		"no agent": with("GET", func(r *http.Request) { r.Header["User-Agent"] = []string{""} }),
		"fields of framing": with("POST", func(r *http.Request) {
			body(5, "hello")(r)
			r.Header["Content-Length"], r.Header["Transfer-Encoding"], r.Header["Trailer"], r.Header["Host"] = []string{"7"}, []string{"chunked"}, []string{"X-A"}, []string{"evil"}
		}),
		"blanks":                with("GET", func(r *http.Request) { r.Header["X-B"] = []string{" \t a b \t", ""} }),
		"an empty key":          with("GET", func(r *http.Request) { r.Header["Idempotency-Key"] = nil }),
		"a long header":         with("POST", func(r *http.Request) { body(5, "hello")(r); r.Header.Set("X-Long", strings.Repeat("y", 40_000)) }),
		"a long header, alone":  with("GET", func(r *http.Request) { r.Header.Set("X-Long", strings.Repeat("y", 40_000)) }),
		"opaque":                with("GET", func(r *http.Request) { r.URL.Opaque = "//server/x" }),
		"a path of two slashes": with("GET", func(r *http.Request) { r.URL.Path = "//a" }),
	}
}

// sent returns what a server reads of a request, and an error if none came.
func sent(t *testing.T, side func(net.Conn) (http.RoundTripper, func()), r *http.Request) (got *http.Request, body string, err error) {
	t.Helper()
	near, far := net.Pipe()
	rt, end := side(near)
	defer end()
	type read struct {
		r    *http.Request
		body string
	}
	all := make(chan read, 1)
	go func() {
		defer far.Close()
		_ = far.SetDeadline(time.Now().Add(time.Minute))
		br := bufio.NewReader(far)
		in, err := http.ReadRequest(br)
		if err != nil {
			all <- read{}
			return
		}
		text, err := io.ReadAll(in.Body)
		if err != nil {
			all <- read{}
			return
		}
		all <- read{in, string(text)}
		_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}()
	resp, err := rt.RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	near.Close()
	in := <-all
	return in.r, in.body, err
}

// What a server reads of a request is what it reads of http.Transport's.
func TestRequestsAsHTTPTransport(t *testing.T) {
	for name, make := range requests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got [2]*http.Request
			var bodies [2]string
			for i, side := range [...]func(net.Conn) (http.RoundTripper, func()){ours, theirs} {
				var err error
				if got[i], bodies[i], err = sent(t, side, make()); err != nil {
					t.Fatal(i, err)
				}
			}
			a, b := got[0], got[1]
			if a.Method != b.Method || a.RequestURI != b.RequestURI || a.Host != b.Host || a.ContentLength != b.ContentLength || a.Close != b.Close ||
				!reflect.DeepEqual(a.Header, b.Header) || !reflect.DeepEqual(a.Trailer, b.Trailer) || !reflect.DeepEqual(a.TransferEncoding, b.TransferEncoding) || bodies[0] != bodies[1] {
				t.Errorf("here           %+v %q\nhttp.Transport %+v %q", a, bodies[0], b, bodies[1])
			}
		})
	}
}

// What would end a line is never sent, whoever put it there.
func TestForgedRequestsAreRefused(t *testing.T) {
	for _, evil := range []string{"a\r\nX-Evil: b", "a\nb", "a\rb", "a\x00b", "a\x7fb", "a\x1bb"} {
		for where, change := range map[string]func(*http.Request){
			"value":  func(r *http.Request) { r.Header.Set("X-A", evil) },
			"name":   func(r *http.Request) { r.Header[evil] = []string{"x"} },
			"agent":  func(r *http.Request) { r.Header["User-Agent"] = []string{evil} },
			"method": func(r *http.Request) { r.Method = evil },
			"target": func(r *http.Request) { r.URL.Opaque = evil },
			"query":  func(r *http.Request) { r.URL.RawQuery = evil },
			"trailer": func(r *http.Request) {
				r.Body, r.ContentLength, r.Trailer = slowBody("x"), -1, http.Header{evil: {"x"}}
			},
		} {
			r := &http.Request{Method: "POST", URL: &url.URL{Scheme: "http", Host: "server", Path: "/"}, Header: http.Header{}}
			change(r)
			if got, _, err := sent(t, ours, r); !errors.Is(err, ErrRequest) || got != nil {
				t.Errorf("%s %q is sent: %+v", where, evil, got)
			}
		}
	}
}

// A blank would end the target, and what follows would be taken for the version.
func TestNoBlankInTargets(t *testing.T) {
	for name, target := range map[string]url.URL{"opaque": {Opaque: "/a HTTP/1.0"}, "query": {Path: "/a", RawQuery: "b HTTP/1.0"}} {
		target.Scheme, target.Host = "http", "server"
		if got, _, err := sent(t, ours, &http.Request{Method: "GET", URL: &target, Header: http.Header{}}); !errors.Is(err, ErrRequest) || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A header and a body in memory go out in one write.
func TestOneWrite(t *testing.T) {
	p := play(false, []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	writes := 0
	nc := counted{played: p, writes: &writes}
	c := New(Config{Dial: func(context.Context) (net.Conn, error) { return nc, nil }})
	r, _ := http.NewRequest("POST", "http://server/", nil)
	r.Body, r.ContentLength = inMemory{strings.NewReader("hello")}, 5
	if _, err := c.RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	if writes != 1 || !bytes.HasSuffix(p.heard, []byte("\r\n\r\nhello")) {
		t.Errorf("%d writes, %q", writes, p.heard)
	}
}

type counted struct {
	*played
	writes *int
}

func (c counted) Write(b []byte) (int, error) { *c.writes++; return c.played.Write(b) }

// A body of which nobody knows whether there is one is waited for, but not for long.
func TestProbe(t *testing.T) {
	in, out := io.Pipe()
	r := &http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: "server", Path: "/"}, Header: http.Header{}, Body: in, ContentLength: -1}
	time.AfterFunc(2*probeFor, func() { _, _ = io.WriteString(out, "late"); out.Close() })
	if _, body, err := sent(t, ours, r); err != nil || body != "late" {
		t.Errorf("%q, %v", body, err)
	}
}

// Trailers that a client sent in the end are sent on, but none that says where a message ends.
func TestLateTrailers(t *testing.T) {
	r := &http.Request{Method: "POST", URL: &url.URL{Scheme: "http", Host: "server", Path: "/"}, Header: http.Header{}, ContentLength: -1,
		Trailer: http.Header{"X-A": nil}}
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("hello"), at(func() {
		r.Trailer["X-A"], r.Trailer["Content-Length"], r.Trailer["X-B"] = []string{"1\r\nX-Evil: 2"}, []string{"3"}, []string{"4"}
	})))
	got, body, err := sent(t, ours, r)
	if want := (http.Header{"X-A": {"1  X-Evil: 2"}, "X-B": {"4"}}); err != nil || body != "hello" || !reflect.DeepEqual(got.Trailer, want) {
		t.Errorf("%v %q, %v", got, body, err)
	}
}

// at is a reader that is at its end, where it does something.
type at func()

func (f at) Read([]byte) (int, error) { f(); return 0, io.EOF }

// Trailers that come while the header is written, behind a body of which nothing came for a while, are sent on (the race
// detector looks).
func TestTrailersBehindProbe(t *testing.T) {
	r := &http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: "server", Path: "/"}, Header: http.Header{}, ContentLength: -1,
		Trailer: http.Header{"X-A": nil}}
	r.Body = io.NopCloser(at(func() {
		time.Sleep(probeFor + 20*time.Millisecond)
		r.Trailer["X-A"] = []string{"1"}
	}))
	got, body, err := sent(t, ours, r)
	if want := (http.Header{"X-A": {"1"}}); err != nil || body != "" || !reflect.DeepEqual(got.Trailer, want) {
		t.Errorf("%v %q, %v", got, body, err)
	}
}
