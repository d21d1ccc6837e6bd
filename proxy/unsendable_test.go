package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A request that HTTP/1 cannot say is its client's fault: it is answered 400, and does not put the upstream out.
func TestUnsendableRequests(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI, r.Proto) }))
	p := start(t, to("http://"+addr))
	for _, test := range []struct{ path, status, body string }{
		{"/a?b HTTP/1.0", "200", "/a?b+HTTP%2F1.0=HTTP/1.1"},
		{"a:b HTTP/1.0", "400", ""},
	} {
		status, body := askedRaw(t, p.addr, test.path, "x")
		if status != test.status || test.body != "" && body != test.body {
			t.Errorf("%q: %s %q", test.path, status, body)
		}
	}
	wantNoFailure(t, p)
}

// What a client asks for that an upstream of HTTP/2 cannot be told is no failure of the upstream.
func TestUnsendableRequestsOverHTTP2(t *testing.T) {
	seen := make(chan string, 10)
	back := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Upgrade") }))
	back.Config.MaxHeaderBytes, back.Config.Protocols = 8<<10, new(http.Protocols)
	back.Config.Protocols.SetUnencryptedHTTP2(true)
	back.Start()
	defer back.Close()
	p := start(t, to("h2c://"+back.Listener.Addr().String()))
	if _, text := get(t, client(t, 1, nil), p.url); text != "" { // and with it comes how much the server takes
		t.Errorf("%q", text)
	}
	<-seen
	if status, _ := askedRaw(t, p.addr, "/", "x", [2]string{":method", "GET /"}); status != "400" {
		t.Errorf("a method that is none: answered %s", status)
	}
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n": "200 ",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n":    "431",
	} {
		c := connectTo(t, p.addr)
		fmt.Fprint(c, request)
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(resp.StatusCode)
		if resp.StatusCode == http.StatusOK {
			got += " " + <-seen
		}
		if got != want {
			t.Errorf("%.60q: %s, expected %s", request, got, want)
		}
	}
	wantNoFailure(t, p)
}

// A request of HTTP/2 whose length is none would go on without its body.
func TestLengthsThatAreNone(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	p := start(t, to("http://"+addr))
	for lengths, want := range map[string]string{"0": "200", "0,0": "200", "+5": "400", "-1": "400", "": "400", "0x5": "400", "5 ": "400", "5,6": "400", "0,+0": "400", "9223372036854775808": "400"} {
		var fields [][2]string
		for v := range strings.SplitSeq(lengths, ",") {
			fields = append(fields, [2]string{"content-length", v})
		}
		if status, _ := askedRaw(t, p.addr, "/", "x", fields...); status != want {
			t.Errorf("Content-Length %q: answered %s, expected %s", lengths, status, want)
		}
	}
}

// Trailers of an answer over HTTP/2 that cannot be among them are left out, also where the answer did not announce them:
// a client of HTTP/1 would take them for fields of the header.
func TestTrailersThatAreNone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go trailerServer(l, "content-length", "transfer-encoding", "x-a")
	cfg := to("h2c://" + l.Addr().String())
	cfg.Egress = []Egress{{Address: "127.0.0.1:0", URL: "h2c://" + l.Addr().String()}}
	p := start(t, cfg)
	for _, addr := range []string{p.addr, p.EgressAddrs()[0].String()} {
		c := connectTo(t, addr)
		c.ask("/")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := read(t, resp); text != "hello" || len(resp.Trailer) != 1 || resp.Trailer.Get("X-A") != "1" {
			t.Errorf("%q, trailers %v, expected X-A alone", text, resp.Trailer)
		}
	}
}

// trailerServer answers each connection's first request over HTTP/2, with these trailers, until l is closed.
func trailerServer(l net.Listener, names ...string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			answerWithTrailers(c, names)
			_, _ = io.Copy(io.Discard, c)
		}()
	}
}

func answerWithTrailers(c net.Conn, names []string) {
	f := http2.NewFramer(c, c)
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return // it was looked whether there is a server
	}
	_ = f.WriteSettings()
	stream := uint32(0)
	for stream == 0 {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if frame.Header().Type == http2.FrameHeaders {
			stream = frame.Header().StreamID
		}
	}
	write := func(ends bool, fields ...string) {
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		for i := 0; i < len(fields); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndStream: ends, EndHeaders: true})
	}
	write(false, ":status", "200", "content-type", "a/b")
	_ = f.WriteData(stream, false, []byte("hello"))
	var fields []string
	for _, name := range names {
		fields = append(fields, name, "1")
	}
	write(true, fields...)
}

// A trailer that is announced by what is no name is left out: no upstream has to take it.
func TestTrailersWithoutNames(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Trailer)
	}))
	for _, scheme := range []string{"http", "h2c"} {
		p := start(t, to(scheme+"://"+addr))
		c := connectTo(t, p.addr)
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: a b, X-A\r\n\r\n0\r\nX-A: 1\r\n\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := read(t, resp); resp.StatusCode != 200 || text != "map[X-A:[1]]" {
			t.Errorf("%s: %s %q", scheme, resp.Status, text)
		}
		wantNoFailure(t, p)
	}
}

func wantNoFailure(t *testing.T, p *running) {
	t.Helper()
	h := &p.state.Load().upstreams[0].health
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed != 0 {
		t.Errorf("%d failures of the upstream", h.failed)
	}
}

// askedRaw sends one request over HTTP/2 as it is, and returns the status and the body of its answer.
func askedRaw(t *testing.T, addr, path, host string, more ...[2]string) (status, body string) {
	t.Helper()
	c := connectTo(t, addr)
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	fields := [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", path}, {":authority", host}}
	if len(more) > 0 && more[0][0] == ":method" {
		fields[0], more = more[0], more[1:]
	}
	for _, f := range append(fields, more...) {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c.r)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	var text strings.Builder
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			status = frame.PseudoValue("status")
		case *http2.DataFrame:
			text.Write(frame.Data())
		case *http2.RSTStreamFrame:
			return frame.ErrCode.String(), ""
		}
		if frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			return status, text.String()
		}
	}
}
