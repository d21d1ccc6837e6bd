package httpgate

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/internal/await"
)

// A sender has as much of the memory for bodies as is left for others.
func TestMemoryIsShared(t *testing.T) {
	var m memory
	const piece = mostGathered / 64
	takes := func(by uint64) (n int) {
		for m.has(by, piece) && m.take(by, piece) {
			n++
		}
		if m.has(by, piece) != m.take(by, piece) {
			t.Error("what has says is not what take does")
		}
		return n
	}
	const first, second = 5, 5 << 32
	if n := takes(first); n != 32 {
		t.Errorf("one alone has %d of 64, expected half", n)
	}
	if n := takes(second); n != 16 {
		t.Errorf("a second one has %d of 64, expected half of what was left", n)
	}
	if n := takes(0); n != 16 {
		t.Errorf("those that are not known have %d of 64, expected all that was left", n)
	}
	m.give(first, 32*piece)
	m.give(second, 16*piece)
	m.give(0, 16*piece)
	for row := range m.by {
		for cell := range m.by[row] {
			if n := m.by[row][cell].Load(); n != 0 {
				t.Errorf("%d bytes are left in a cell", n)
			}
		}
	}
	if m.all.Load() != 0 {
		t.Errorf("%d bytes are left", m.all.Load())
	}
}

// A client that announces bodies and sends none has the bodies of others read before their requests ask for a slot all the
// same.
func TestBodiesOfOneClientLeaveMemoryForOthers(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}), Patient(Patience{Rate: -1})))
	h := s.Server.Handler.(*handler)
	rt := base(t, 2)
	rt.DialContext = nil
	var all sync.WaitGroup
	var bodies []*io.PipeWriter
	for range mostGathered / defaultGather {
		r, body := io.Pipe()
		bodies = append(bodies, body)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, r)
		req.ContentLength = defaultGather
		all.Go(func() {
			if resp, err := rt.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	eventually(t, "what one client may have", func() bool { return h.gathering.all.Load() >= mostGathered/2 })
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	c, err := d.DialContext(t.Context(), "tcp", s.url[len("http://"):])
	if err != nil {
		t.Skip("no second address:", err)
	}
	defer c.Close()
	before := h.gathering.all.Load()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nx", 10_000)
	eventually(t, "the other client's body to be read", func() bool { return h.gathering.all.Load() == before+10_000 })
	for _, b := range bodies {
		_ = b.CloseWithError(io.ErrUnexpectedEOF)
	}
	await.All(t, &all, "the clients to end")
}
