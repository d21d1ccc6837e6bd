package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/work"
)

// A client that waits for "100 Continue" is refused without a look at its body,
// and the upstream hears nothing.
func TestExpectContinueRefused(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the upstream was asked") }))
	p := start(t, to("http://"+addr))
	p.state.Load().upstreams[0].gate.Drain()
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 503 {
		t.Fatalf("%v, %v", resp, err)
	}
	read(t, resp)
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("%v: a connection whose body was not read cannot go on", err)
	}
}

// A refused HEAD has no body and leaves the connection usable.
func TestHeadRefused(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	p := start(t, to("http://"+addr))
	for _, major := range []int{1, 2} {
		r, _ := http.NewRequest("HEAD", p.url, nil)
		r.Header.Set("Spillgate", "AQEIAAAAAAAAAAE") // a budget of 1 ns
		resp, err := client(t, major, nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if body := read(t, resp); resp.StatusCode != 504 || body != "" || resp.ContentLength <= 0 {
			t.Errorf("HTTP/%d: %d %q, length %d", major, resp.StatusCode, body, resp.ContentLength)
		}
	}
}

// A client that vanishes in the middle of its upload leaves nothing behind, here
// or at the upstream.
func TestClientLeavesDuringUpload(t *testing.T) {
	for _, scheme := range []string{"http://", "h2c://"} {
		reading, left := make(chan struct{}), make(chan struct{})
		_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body.Read(make([]byte, 1))
			close(reading)
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			close(left)
		}))
		p := start(t, to(scheme+addr))
		before := runtime.NumGoroutine()
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n%s", strings.Repeat("x", 80_000))
		await.Value(t, reading, "the server to read the body")
		c.Close()
		await.Value(t, left, "the server to hear that the client left")
		eventually(t, "the request to leave", func() bool { st := p.Status(); return st.Inside == 0 && st.Upstreams[0].Running == 0 })
		if st := p.Status().Upstreams[0]; st.Served["ignored"] != 1 || st.Out || p.state.Load().upstreams[0].health.failed != 0 {
			t.Errorf("%s: %+v: the client's doing is no failure of the upstream", scheme, st)
		}
		eventually(t, "its goroutines to end", func() bool {
			p.state.Load().upstreams[0].base.CloseIdleConnections() // idle is one only when its stream has ended
			return runtime.NumGoroutine() <= before
		})
	}
}

// Two-way streams that never speak, and that were answered, hold no slot.
func TestQuietStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("streams give their slots back after a second")
	}
	_, addr := serveGRPC(t)
	p := start(t, to("h2c://"+addr))
	c := dial(t, p.addr)
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	var open []grpc.ClientStream
	for i := range 20 {
		s, err := c.NewStream(ctx, &describe().Streams[0], "/test.Echo/Stream")
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if err := s.SendMsg(wrapperspb.String("x")); err != nil {
				t.Fatal(err)
			}
		}
		open = append(open, s)
	}
	eventually(t, "the streams to be there without slots", func() bool {
		st := p.Status()
		return st.Inside == 20 && st.Upstreams[0].Running == 0 && st.Upstreams[0].Served[work.Released.String()] == 20 && len(st.Upstreams[0].Served) == 1
	})
	for i, s := range open {
		if i%2 == 1 {
			if err := s.SendMsg(wrapperspb.String("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
			t.Errorf("a stream that spoke late: %v", err)
		}
		s.CloseSend()
		s.RecvMsg(new(wrapperspb.StringValue))
	}
	eventually(t, "all to leave", func() bool { return p.Status().Inside == 0 })
}

// The proxy's processor is not the server that its gates stand for.
func TestNoNetworkDelay(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	p := start(t, to("http://"+addr))
	get(t, client(t, 1, nil), p.url)
	stacks := make([]byte, 1<<20)
	if s := string(stacks[:runtime.Stack(stacks, true)]); strings.Contains(s, "live.(*lag)") {
		t.Error("a gate of the proxy watches the network")
	}
}
