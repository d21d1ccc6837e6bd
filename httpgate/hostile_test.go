package httpgate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// raw is a connection on which a test writes what it likes.
func raw(t *testing.T, s *server) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c, bufio.NewReader(c)
}

// A client that waits for "100 Continue" is refused without being asked for its
// body; one that is admitted is asked.
func TestExpectContinue(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })))
	ask := func() *http.Response {
		t.Helper()
		c, br := raw(t, s)
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == 100 {
			fmt.Fprint(c, "hello")
			if resp, err = http.ReadResponse(br, nil); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
		}
		return resp
	}
	if resp := ask(); resp.StatusCode != 200 {
		t.Errorf("admitted: %d", resp.StatusCode)
	}
	gate.Drain()
	if resp := ask(); resp.StatusCode != 503 || !resp.Close {
		t.Errorf("refused: %d, close %v; its body is not read, so the connection cannot go on", resp.StatusCode, resp.Close)
	}
}

// A client that lets nothing of a refusal come does not keep its stream.
func TestRefusalThatNobodyTakes(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	gate.Drain()
	s := serve(t, Handler(gate, text("x"), Patient(Patience{Write: 50 * time.Millisecond})))
	c, br := raw(t, s)
	var block bytes.Buffer
	coder := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/"}, {":authority", "x"}} {
		if err := coder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprint(c, http2.ClientPreface)
	framer := http2.NewFramer(c, br)
	if err := errors.Join(framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}),
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}), framer.WriteData(1, false, []byte("half"))); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("the stream is not ended: %v", err)
		}
		if end, ok := frame.(*http2.RSTStreamFrame); ok {
			if end.ErrCode == http2.ErrCodeNo {
				t.Error("the stream ended as if the client had taken the answer")
			}
			return
		}
	}
}

// A refused HEAD has the header of the refusal and no body.
func TestHeadRefused(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	s := serve(t, Handler(gate, text("x")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, major := range []int{1, 2} {
		r, _ := http.NewRequestWithContext(ctx, "HEAD", s.url, nil)
		r.Header.Set(field, wire.Header(wire.Tags{Budget: 1}.Append(nil)))
		resp, body := send(t, base(t, major), r)
		if resp.StatusCode != 504 || body != "" || resp.ContentLength <= 0 || replyIn(t, resp.Header) == nil {
			t.Errorf("HTTP/%d: %d %q, length %d, %v", major, resp.StatusCode, body, resp.ContentLength, resp.Header)
		}
	}
}

// A refused gRPC request is answered by a header that ends the stream.
func TestRefusedGRPCIsTrailersOnly(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	gate.Drain()
	s := serve(t, Handler(gate, text("x")))
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader("\x00\x00\x00\x00\x00"))
	r.Header.Set("Content-Type", "application/grpc+proto")
	resp, body := send(t, base(t, 2), r)
	h := resp.Header
	if resp.StatusCode != 200 || body != "" || len(resp.Trailer) != 0 || h.Get("Grpc-Status") != "14" || h.Get("Grpc-Retry-Pushback-Ms") == "" || h.Get("Grpc-Status-Details-Bin") == "" {
		t.Errorf("%d %q, header %v, trailer %v", resp.StatusCode, body, h, resp.Trailer)
	}
}

// A client that vanishes in the middle of its upload takes its ticket with it,
// and teaches nothing.
func TestClientLeavesDuringUpload(t *testing.T) {
	var seen events
	gate := newGate(t, oneSlot(), seen.observe)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			<-r.Context().Done() // as who passes the body on does
		}
	})))
	c, _ := raw(t, s)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n%s", strings.Repeat("x", 80_000))
	eventually(t, "it runs", func() bool { return gate.Stats().Running == 1 })
	c.Close()
	eventually(t, "it left", func() bool { return gate.Stats().Running == 0 })

	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	defer pw.Close()
	r, _ := http.NewRequestWithContext(ctx, "POST", s.url, pr)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := base(t, 2).RoundTrip(r); err == nil {
			resp.Body.Close()
		}
	}()
	pw.Write([]byte("half"))
	eventually(t, "it runs", func() bool { return gate.Stats().Running == 1 })
	cancel()
	await.Value(t, done, "the request to end")
	eventually(t, "it left", func() bool { return gate.Stats().Running == 0 && len(seen.list()) == 2 })
	for _, e := range seen.list() {
		if e.Outcome != work.Ignored {
			t.Errorf("%+v", e)
		}
	}
}

// What comes twice, is too long or is no time says nothing.
func TestHostileHeaders(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	var tags atomic.Pointer[wire.Tags]
	var malformed atomic.Int32
	s := serve(t, Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got := live.TagsFrom(r.Context())
		if _, ok := r.Context().Deadline(); ok {
			got.Budget = 1
		}
		tags.Store(&got)
	}), Trust(func(*http.Request) bool { return true }), OnMalformed(func(*http.Request, error) { malformed.Add(1) })))
	good := encodeField(wire.Tags{Workflow: "w", Budget: time.Minute}.Append(nil), true)
	for _, tt := range []struct {
		name string
		h    http.Header
		want wire.Tags
		bad  int32
	}{
		{"good", http.Header{grpcField: {good}}, wire.Tags{Workflow: "w", Budget: 1}, 0},
		{"padded", http.Header{grpcField: {good + "=="}}, wire.Tags{Workflow: "w", Budget: 1}, 0},
		{"twice", http.Header{grpcField: {good, good}}, wire.Tags{}, 1},
		{"two in one", http.Header{grpcField: {good + "," + good}}, wire.Tags{}, 1},
		{"overlong", http.Header{grpcField: {strings.Repeat("A", 10_000)}}, wire.Tags{}, 1},
		{"nothing but padding", http.Header{grpcField: {strings.Repeat("=", 10_000)}}, wire.Tags{}, 1},
		{"timeout twice", http.Header{"Grpc-Timeout": {"1S", "1H"}}, wire.Tags{}, 0},
		{"timeout negative", http.Header{"Grpc-Timeout": {"-1S"}}, wire.Tags{}, 0},
		{"timeout overlong", http.Header{"Grpc-Timeout": {"111111111S"}}, wire.Tags{}, 0},
		{"timeout without number", http.Header{"Grpc-Timeout": {"S"}}, wire.Tags{}, 0},
		{"baggage in two", http.Header{baggage: {"spillgate.workflow=a", "spillgate.priority=3"}}, wire.Tags{Workflow: "a", Priority: 3}, 0},
		{"baggage twice", http.Header{baggage: {"spillgate.workflow=a", "spillgate.workflow=b"}}, wire.Tags{}, 1},
		{"baggage overlong", http.Header{baggage: {"spillgate.workflow=a", strings.Repeat("x=y,", 3000)}}, wire.Tags{}, 1},
		{"baggage negative", http.Header{baggage: {"spillgate.priority=-1"}}, wire.Tags{}, 1},
	} {
		before := malformed.Load()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, nil)
		r.Header = tt.h.Clone()
		r.Header.Set("Content-Type", "application/grpc")
		if resp, _ := send(t, base(t, 2), r); resp.StatusCode != 200 {
			t.Errorf("%s: %d", tt.name, resp.StatusCode)
		}
		if got := *tags.Load(); got != tt.want {
			t.Errorf("%s: %+v, expected %+v", tt.name, got, tt.want)
		}
		if got := malformed.Load() - before; got != tt.bad {
			t.Errorf("%s: %d counted, expected %d", tt.name, got, tt.bad)
		}
	}
	if got := shortest(-time.Second, false, nil); got != math.MaxInt64 {
		t.Errorf("a negative budget is %v", got)
	}
}
