package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/guard/etcd/keyrange"
	"github.com/spillgate/spillgate/internal/await"
)

// begun sends the header of a POST over HTTP/1 and a part of its body, and nothing more.
func begun(t *testing.T, addr, path string, fields string) *bufio.Reader {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(await.Patience))
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\nabc", path, fields); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(c)
}

// A client that stops in the middle of a body that nobody wants has its answer and is disconnected, after BodyTimeout.
func TestRestOfABodyThatNobodyReads(t *testing.T) {
	_, addr := serve(t, mirror)
	cfg := Config{Groups: []Group{{Name: "some", Paths: []string{"/some/"}, Upstreams: []Upstream{{URL: "http://" + addr}}}}}
	cfg.Limits.BodyTimeout = 50 * time.Millisecond
	p := start(t, cfg)
	for _, fields := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
		in := begun(t, p.addr, "/other", fields)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", fields, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); resp.StatusCode != http.StatusNotFound || err != nil {
			t.Errorf("%s: %s, %v", fields, resp.Status, err)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("%s: %v, expected the end of the connection", fields, err)
		}
	}
}

// A call over HTTP/1 whose message never comes keeps its connection no longer than any body may.
func TestMessagesThatNeverCome(t *testing.T) {
	_, addr := serve(t, mirror)
	cfg := to("h2c://" + addr)
	cfg.Rules = []classify.Rule{{Match: classify.Match{EtcdRange: []string{""}}, Set: classify.Set{Use: classify.Use{Kind: "wide"}}}}
	cfg.Limits.BodyTimeout = 50 * time.Millisecond
	p := start(t, cfg)
	resp, err := http.ReadResponse(begun(t, p.addr, keyrange.MethodRange, "Content-Type: application/grpc\r\nContent-Length: 1000"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Grpc-Message"); !strings.Contains(got, "too slowly") {
		t.Errorf("%s %q, expected that the body came too slowly", resp.Status, got)
	}
	eventually(t, "nothing to be left of it", func() bool { return p.active.Load() == 0 })
}
