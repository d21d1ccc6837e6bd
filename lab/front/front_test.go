package front

import (
	"bufio"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/leaks"
)

// The test binary is also the children's program.
func TestMain(m *testing.M) {
	Child()
	leaks.Verify(m)
}

// Beside every attack, every normal request is served. The objective is beyond what a busy
// machine takes, and a slot that an attacker kept would be missed: there are as many attackers
// as slots and more.
func TestNormalRequestsAreServed(t *testing.T) {
	p := play{objective: time.Minute, perSecond: 50, pause: 20 * time.Millisecond, before: 100 * time.Millisecond, beside: 400 * time.Millisecond}
	for i, s := range slices.Concat(scenes(), strange()) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.many = min(s.many, 3*workers*10)
			if i >= len(scenes()) {
				s.many = min(s.many, workers)
			}
			switch s.kind {
			case "silent stream", "no window", "one byte", "pipeline", "trailers", "leaves", "half closed", "table sizes":
				s.many = 1 // what they ask for is work, and pauses are short here
			}
			out, err := p.scene(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []*seen{out.alone, out.beside} {
				if n.sent == 0 || n.served != n.sent {
					t.Errorf("%d of %d normal requests were served, %d refused, %d failed", n.served, n.sent, n.refused, n.failed)
				}
			}
		})
	}
}

func TestAttacks(t *testing.T) {
	for _, s := range slices.Concat(scenes(), strange()) {
		if ways[s.kind] == nil {
			t.Errorf("%s: no attack of the kind %q, there are %s", s.name, s.kind, kinds())
		}
	}
	err := (&Attack{Kind: "polite", Connections: 1}).begin(t.Context())
	if err == nil || !strings.Contains(err.Error(), "polite") {
		t.Errorf("an unknown attack: %v", err)
	}
}

// The client and the server of the proxies understand each other, and the client tells what is no answer.
func TestLean(t *testing.T) {
	back, err := role.Start(t.Context(), order{Lean: true}, proc.Spec{Name: "server"})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Stop(0)
	client := newLean(t.Context(), back.Addr(), 8)
	for range 3 {
		if status, err := client.get(); status != http.StatusOK || err != nil {
			t.Errorf("answered %d, %v", status, err)
		}
	}
	if len(client.all) != 1 || len(client.idle) != 1 {
		t.Errorf("%d connections, %d of them idle, expected one", len(client.all), len(client.idle))
	}
	for _, answer := range []string{"", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"} {
		c := leanConn{in: bufio.NewReader(strings.NewReader(answer))}
		if status, err := c.answer(); err == nil {
			t.Errorf("%q passes for an answer with status %d", answer, status)
		}
	}
}

func TestWhatNormalClientsSee(t *testing.T) {
	s := seen{sent: 200, served: 100, refused: 60, failed: 40}
	for n := range 100 {
		s.took = append(s.took, time.Duration(100-n)*time.Millisecond)
	}
	if s.bad() != 0.5 || s.p99() != 99*time.Millisecond || (&seen{}).p99() != 0 {
		t.Errorf("%v not served, p99 %v", s.bad(), s.p99())
	}
}
