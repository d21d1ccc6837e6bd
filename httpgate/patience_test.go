package httpgate

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// few is a gate with that many slots.
func few(n int) admission.Config {
	return admission.Config{Objective: time.Minute, Slots: slots.Config{Min: n, Max: n, Initial: n}}
}

// Clients that send their bodies a byte at a time hold no slot, and are told when they
// are too slow.
func TestSlowSendersHoldNoSlot(t *testing.T) {
	gate := newGate(t, few(2), nil)
	var bad atomic.Int64
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }),
		Patient(Patience{Rate: 10, Grace: 2 * time.Second}), OnBadBody(func(_ *http.Request, err error) {
			if err == ErrSlowBody {
				bad.Add(1)
			}
		})))
	var slow []net.Conn
	for range 8 {
		c, _ := raw(t, s)
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nh")
		slow = append(slow, c)
	}
	// Over HTTP/2 too, where the streams share a connection.
	h2 := base(t, 2)
	for range 8 {
		silence, quiet := io.Pipe()
		defer quiet.Close()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, silence)
		r.ContentLength = 100
		go func() {
			if resp, err := h2.RoundTrip(r); err == nil {
				resp.Body.Close()
			}
		}()
	}
	rt := base(t, 1)
	for range 50 {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, strings.NewReader("hello"))
		if resp, body := send(t, rt, r); resp.StatusCode != http.StatusOK || body != "hello" {
			t.Fatalf("beside slow senders: %d %q", resp.StatusCode, body)
		}
	}
	if n := gate.Stats(); n.Running > 1 || n.Waiting > 0 {
		t.Errorf("%d run and %d wait, expected slow senders to be outside", n.Running, n.Waiting)
	}
	for _, c := range slow {
		b, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(b), " 408 ") {
			t.Errorf("a slow sender got %q, %v, expected 408", b, err)
		}
	}
	eventually(t, "all to be told", func() bool { return bad.Load() == 16 })
	for o, n := range gate.Stats().Served {
		if work.Outcome(o) != work.Done && n > 0 {
			t.Errorf("%d are %v, expected none", n, work.Outcome(o))
		}
	}
}

// Clients that read a large answer slowly give their slots to others, and are
// disconnected when they read next to nothing.
func TestSlowReadersHoldNoSlot(t *testing.T) {
	const large = 32 << 20
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, make([]byte, large), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, major := range []int{1, 2} {
		gate := newGate(t, few(2), nil)
		var cut atomic.Int64
		s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var err error
			switch r.URL.Path {
			case "/large":
				_, err = w.Write(make([]byte, large))
			case "/file":
				f, _ := os.Open(file)
				defer f.Close()
				_, err = io.Copy(w, f)
			}
			if err != nil {
				cut.Add(1)
			}
		}), Patient(Patience{Blocked: 50 * time.Millisecond, Write: 2 * time.Second})))
		rt := base(t, major)
		for i := range 8 {
			r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+[]string{"/large", "/file"}[i%2], nil)
			resp, err := rt.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
		}
		eventually(t, "the slots to be free", func() bool { return gate.Stats().Running == 0 })
		for range 20 {
			if resp, _ := send(t, base(t, 1), request(t, s.url, wire.Tags{})); resp.StatusCode != http.StatusOK {
				t.Fatalf("HTTP/%d, beside slow readers: %d", major, resp.StatusCode)
			}
		}
		eventually(t, "all to be cut off", func() bool { return cut.Load() == 8 })
	}
}

// What is gathered arrives whole, with its trailers, and the connection is kept.
func TestGatheredBodies(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || int64(len(b)) != r.ContentLength && r.ContentLength >= 0 {
			t.Errorf("%d bytes of %d, %v", len(b), r.ContentLength, err)
		}
		w.Header().Set("X-Trailer", r.Trailer.Get("X-Sum"))
		w.Write(b)
	})))
	for _, major := range []int{1, 2} {
		rt := base(t, major)
		for _, size := range []int{1, 100, 4095, 4096, 4097, 16 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20} {
			text := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, bytes.NewReader(text))
			if major == 2 {
				r.Trailer = http.Header{"X-Sum": {"7"}}
			}
			resp, body := send(t, rt, r)
			if resp.StatusCode != http.StatusOK || body != string(text) || resp.Header.Get("X-Trailer") != r.Trailer.Get("X-Sum") {
				t.Errorf("HTTP/%d, %d bytes: %d, %d bytes, trailer %q", major, size, resp.StatusCode, len(body), resp.Header.Get("X-Trailer"))
			}
		}
	}
	c, br := raw(t, s)
	for i := range 3 {
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
			t.Errorf("%d: %q, %v", i, b, err)
		}
	}
}

// A body that breaks off never asks for a slot.
func TestBrokenBodies(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("it was served") })))
	h2 := base(t, 2)
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, io.NopCloser(strings.NewReader("hello")))
	r.ContentLength = 10
	if resp, err := h2.RoundTrip(r); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%d for half of a body", resp.StatusCode)
		}
	}
	c, br := raw(t, s)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhello")
	c.(*net.TCPConn).CloseWrite()
	if resp, err := http.ReadResponse(br, nil); err == nil && resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%d for half of a body", resp.StatusCode)
	}
	if n := gate.Stats(); n.Served != [work.NumOutcomes]uint64{} {
		t.Errorf("%+v", n)
	}
}

// A client that is slow with a long body gets no slot before the first part of it is there.
func TestSlowLongBodiesAskForNoSlot(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}), Patient(Patience{Gather: 1000})))
	var slow []*slowly
	for range 3 {
		slow = append(slow, begin(t, s.url, 1998, false)) // of which 999 come
	}
	for range 20 { // requests beside them find the slot
		resp, err := (&http.Client{Transport: base(t, 1)}).Get(s.url)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	if got := gate.Stats(); got.Running != 0 || got.Waiting != 0 || got.Served[work.Released] != 0 || got.Served[work.Done] != 20 {
		t.Errorf("%+v: slow clients asked for a slot", got)
	}
	for _, one := range slow {
		if status, got := one.finish(); status != 200 || got != "1998 <nil>" {
			t.Errorf("status %d, %q", status, got)
		}
	}
}
