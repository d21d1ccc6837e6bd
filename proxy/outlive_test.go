package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/await"
)

// An upstream of HTTP/2 that answers before the end of the body lets nothing more of it come. The client of HTTP/1, which
// sends on, gets the whole answer all the same.
func TestEarlyAnswersArriveWhole(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		io.WriteString(w, long)
	}))
	for _, scheme := range []string{"http", "h2c"} {
		p := start(t, to(scheme+"://"+addr))
		for n := range 40 {
			c, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(await.Patience))
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n%s", strings.Repeat("b", 1000*n))
			var sender sync.WaitGroup
			sender.Go(func() {
				for range 100 {
					if _, err := c.Write(make([]byte, 10_000)); err != nil {
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatalf("%s, request %d: %v", scheme, n, err)
			}
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusRequestEntityTooLarge || err != nil || len(body) != len(long) {
				t.Fatalf("%s, request %d: %d, %d bytes, %v", scheme, n, resp.StatusCode, len(body), err)
			}
			c.Close()
			sender.Wait()
		}
	}
}

// A request's context ends with its client's, its deadline or its gate, and not because its body was broken off.
func TestOutliveOnlyTheBody(t *testing.T) {
	gate := fmt.Errorf("cancelled by the gate")
	for _, test := range []struct {
		name   string
		broken bool
		cause  error
		ends   bool
	}{
		{"the client leaves", false, context.Canceled, true},
		{"the body is broken off", true, context.Canceled, false},
		{"the gate cancels it then", true, gate, true},
		{"its time is over then", true, context.DeadlineExceeded, true},
	} {
		parent, cancel := context.WithCancelCause(context.Background())
		r, _ := http.NewRequestWithContext(parent, http.MethodPost, "http://x/", nil)
		b := &requestBody{control: &http.ResponseController{}}
		b.broken.Store(test.broken)
		out, end := b.outlive(r)
		cancel(test.cause)
		if !test.ends {
			time.Sleep(10 * time.Millisecond)
			if out.Context().Err() != nil {
				t.Errorf("%s: %v", test.name, out.Context().Err())
			}
		} else {
			await.Value(t, out.Context().Done(), test.name)
			if context.Cause(out.Context()) != test.cause {
				t.Errorf("%s: the cause is %v", test.name, context.Cause(out.Context()))
			}
		}
		if b.broken.Store(true); test.ends && out.Context().Err() == nil {
			t.Errorf("%s: it goes on after its end", test.name)
		}
		end()
	}
}

// The deadline of a request comes while its client sends a little now and then.
func TestDeadlinesOfSlowBodies(t *testing.T) {
	inside := make(chan struct{}, 2)
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	for _, scheme := range []string{"http", "h2c"} {
		cfg := to(scheme + "://" + addr)
		cfg.Workflows = map[string]Workflow{"x": {Deadline: time.Second}}
		cfg.Rules = []classify.Rule{{Set: classify.Set{Workflow: "x"}}}
		p := start(t, cfg)
		var code int
		eventually(t, "a request that came to its server in time", func() bool {
			code = trickles(t, p.addr)
			return len(inside) > 0
		})
		<-inside
		if code != http.StatusGatewayTimeout {
			t.Errorf("%s: answered %d", scheme, code)
		}
	}
}

// trickles sends a request whose body has no end, a byte each 50 ms, and returns the status of the answer.
func trickles(t *testing.T, addr string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(await.Patience))
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nf4240\r\n")
	var sender sync.WaitGroup
	defer sender.Wait()
	defer c.Close()
	sender.Go(func() {
		for {
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// A request whose body was broken off ends at its deadline all the same, for which the context that ended cannot end again.
func TestDeadlinesComeAfterBrokenBodies(t *testing.T) {
	for _, answered := range []bool{false, true} {
		client, leave := context.WithCancel(context.Background())
		deadline := time.Now().Add(20 * time.Millisecond)
		if answered {
			deadline = deadline.Add(time.Hour)
		}
		parent, cancel := context.WithDeadline(client, deadline)
		r, _ := http.NewRequestWithContext(parent, http.MethodPost, "http://x/", nil)
		b := &requestBody{control: &http.ResponseController{}}
		out, end := b.outlive(r)
		b.broken.Store(true)
		leave()
		if !answered {
			await.Value(t, out.Context().Done(), "the deadline")
			if err := out.Context().Err(); err != context.DeadlineExceeded {
				t.Errorf("it ends with %v", err)
			}
		}
		end() // nobody waits for the deadline any more: leaks are looked for
		cancel()
	}
}

// What is left of a body that was broken off is not answered with a reset before the client has the answer.
func TestBrokenBodiesLinger(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // else it reads first what may be a short rest
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	p := start(t, to("http://"+addr))
	for name, first := range map[string]string{
		"a long body":           "Content-Length: 10000000\r\n\r\n",
		"one of unknown length": "Transfer-Encoding: chunked\r\n\r\n989680\r\n",
	} {
		eventually(t, name+" that is sent on in time", func() bool { // a busy machine may take longer than the connection is kept
			began := time.Now()
			err := sendsOn(t, p.addr, first)
			if err != nil && time.Since(began) < lingerFor {
				t.Fatal(name, err)
			}
			return err == nil
		})
	}
	eventually(t, "the connections to be closed", func() bool { open, _ := p.places.Load().load(); return open == 0 })
}

// sendsOn sends a request that is answered before the end of its body, goes on to send after the answer, and returns how
// the connection ended, nil if as it should.
func sendsOn(t *testing.T, addr, first string) error {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(await.Patience))
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\n%s%s", first, strings.Repeat("b", 100_000))
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatal(resp.Status)
	}
	for range 10 { // what the client sends on its way
		if _, err := c.Write(make([]byte, 10_000)); err != nil {
			return fmt.Errorf("the client is reset: %w", err)
		}
	}
	if _, err := br.ReadByte(); err != io.EOF {
		return fmt.Errorf("the answer ends with %v, want the end", err)
	}
	return nil
}

// A client of HTTP/1 whose body was broken off by an early answer ends its request by leaving, also while the upstream says
// nothing more.
func TestClientLeavesAfterEarlyAnswer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not tell")
	}
	left := make(chan struct{}, 1)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge) // an answer of HTTP/2 beyond 299 ends the body
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	}))
	cfg := to("h2c://" + addr)
	cfg.Listen = []Listener{{Address: "127.0.0.1:0"}, {Address: "127.0.0.1:0", Balancers: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}}
	p := start(t, cfg)
	front, _ := p.Addrs()
	for i, line := range []string{"", "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n"} {
		c := connectTo(t, front[i].String())
		fmt.Fprintf(c, "%sPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n%s", line, strings.Repeat("b", 100_000))
		if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatal(resp, err)
		}
		c.Close()
		await.Value(t, left, "the upstream to hear that its client left")
	}
}
