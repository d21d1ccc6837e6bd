package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
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
func askedRaw(t *testing.T, addr, path, host string) (status, body string) {
	t.Helper()
	c := connectTo(t, addr)
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", path}, {":authority", host}} {
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
