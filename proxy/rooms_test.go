package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// asking is a connection on which a test asks.
type asking struct {
	net.Conn
	r *bufio.Reader
}

func connectTo(t *testing.T, addr string) *asking {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return &asking{c, bufio.NewReader(c)}
}

func (a *asking) ask(path string) { fmt.Fprintf(a, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path) }

func (a *asking) answer() (int, error) {
	resp, err := http.ReadResponse(a.r, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// sent returns how many connections of a room have nothing to send and nothing to read.
func sent(r *room) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.quiet.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*placed); !c.busy && !c.ended.IsZero() {
			n++
		}
	}
	return n
}

// Where all places are taken, the connection that has been idle for longest makes room;
// one on which a request runs does not.
func TestRoomForConnections(t *testing.T) {
	addr, running, release := waits(t, "/wait", "ok")
	cfg := to("http://" + addr)
	cfg.Limits.Connections = 2
	p := start(t, cfg)
	var conns [3]*asking
	for i := range conns {
		c := connectTo(t, p.addr)
		conns[i] = c
		c.ask("/")
		if code, err := c.answer(); code != http.StatusOK {
			t.Fatalf("%d, %v", code, err)
		}
		// The client may have its answer before the server knows that it is sent.
		eventually(t, "the connection to be idle", func() bool { return sent(p.places.Load()) == min(i+1, 2) })
	}
	first, second, third := conns[0], conns[1], conns[2]
	if _, err := first.r.ReadByte(); err != io.EOF {
		t.Errorf("the connection that was idle for longest: %v, expected it to be closed", err)
	}
	second.ask("/wait")
	third.ask("/wait")
	await.Value(t, running, "a request to reach the handler")
	await.Value(t, running, "a request to reach the handler")
	fourth := connectTo(t, p.addr)
	fourth.ask("/")
	fourth.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if code, err := fourth.answer(); err == nil {
		t.Errorf("%d on a third connection, beside two on which requests run", code)
	}
	close(release)
	for _, c := range []*asking{second, third} {
		if code, err := c.answer(); code != http.StatusOK {
			t.Errorf("a request that ran: %d, %v", code, err)
		}
	}
	fourth.SetDeadline(time.Now().Add(time.Minute))
	fourth.r.Reset(fourth.Conn)
	if code, err := fourth.answer(); code != http.StatusOK {
		t.Errorf("the connection that waited: %d, %v", code, err)
	}
}

// A connection makes no room for another one before the answer on it is sent, unless that never
// ends.
func TestNoRoomBeforeTheAnswer(t *testing.T) {
	for _, ends := range []bool{true, false} {
		addr, entered, leave := waits(t, "/wait", "ok")
		cfg := to("http://" + addr)
		cfg.Limits.Connections = 1
		cork := newCorked()
		p := startWith(t, cfg, func(p *Proxy) {
			cork.into(t)(p)
			if ends {
				p.sends = time.Hour // however long this machine stands still
			}
		})
		first := connectTo(t, p.addr)
		first.ask("/wait")
		await.Value(t, entered, "a request to reach the handler")
		second := connectTo(t, p.addr)
		second.ask("/")
		cork.close()
		close(leave)
		await.Value(t, cork.writing, "the answer to be written")
		eventually(t, "the handler to return", func() bool { return p.active.Load() == 0 })
		if !ends {
			if code, err := first.answer(); err == nil {
				t.Errorf("an answer that is not sent: %d", code)
			}
		}
		time.Sleep(50 * time.Millisecond) // in which the connection would be closed
		close(cork.free)
		if ends {
			if code, err := first.answer(); code != http.StatusOK {
				t.Errorf("an answer that is sent late: %d, %v", code, err)
			}
		}
		if code, err := second.answer(); code != http.StatusOK {
			t.Errorf("on the connection that waited: %d, %v", code, err)
		}
	}
}

// Any number of idle connections and of headers that never end leave room for requests,
// with and without TLS.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	cfg := to("http://" + addr)
	cfg.Limits.Connections = 8
	cfg.Limits.HeaderTimeout, cfg.Limits.IdleTimeout = time.Hour, time.Hour // no place becomes free by itself
	p := start(t, cfg)
	for i := range 60 {
		c := connectTo(t, p.addr)
		if i%2 == 0 {
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-")
		}
	}
	kept := client(t, 1, nil)
	for range 30 {
		if resp, _ := get(t, client(t, 1, nil), p.url); resp.StatusCode != http.StatusOK {
			t.Fatalf("beside idle connections: %d", resp.StatusCode)
		}
		if resp, _ := get(t, kept, p.url); resp.StatusCode != http.StatusOK {
			t.Fatalf("on a kept connection: %d", resp.StatusCode)
		}
	}
	_, metrics := get(t, client(t, 1, nil), p.admin+"/metrics")
	if !regexp.MustCompile("spillgate_connections_evicted_total [1-9]").MatchString(metrics) {
		t.Error("the metrics do not count connections that made room")
	}
}
