package httpgate

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/work"
)

// silentStream starts a request of unknown length and returns what sends its body, and its
// answer.
func silentStream(t *testing.T, rt http.RoundTripper, url string) (*io.PipeWriter, chan *http.Response) {
	t.Helper()
	pr, pw := io.Pipe()
	t.Cleanup(func() { pw.Close() })
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, pr)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan *http.Response, 1)
	go func() {
		resp, err := rt.RoundTrip(r)
		if err != nil {
			t.Error(err)
		}
		answer <- resp
	}()
	return pw, answer
}

// A stream that was silent has a slot again when the handler works on what its client sent
// next, as often as that happens, and waits for one where none is free.
func TestStreamsTakeAnotherSlot(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	saw, holds, free := make(chan int, 1), make(chan struct{}), make(chan struct{})
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			close(holds)
			select {
			case <-free:
			case <-r.Context().Done():
			}
			return
		}
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(r.Body, b); err != nil {
				return
			}
			saw <- gate.Stats().Running
		}
	}), HoldStreams(5*time.Millisecond)))
	rt := base(t, 2)
	in, answer := silentStream(t, rt, s.url)
	lent := func(n uint64) {
		t.Helper()
		eventually(t, "the slot to be lent", func() bool { return gate.Stats().Served[work.Released] == n && gate.Stats().Running == 0 })
	}
	for n := range 3 {
		lent(uint64(n + 1))
		in.Write([]byte("x"))
		if running := await.Value(t, saw, "what the handler saw"); running != 1 {
			t.Errorf("%d slots are in use while the handler works, expected its own", running)
		}
	}
	lent(4)

	// Another request has the only slot.
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := (&http.Client{Transport: rt}).Get(s.url)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}()
	await.Value(t, holds, "the other request to have the slot")
	in.Write([]byte("x"))
	eventually(t, "the stream to wait for a slot", func() bool { return gate.Stats().Waiting == 1 })
	close(free) // the other one ends
	if running := await.Value(t, saw, "what the handler saw"); running != 1 {
		t.Errorf("%d slots are in use while the handler works, expected its own", running)
	}
	await.Value(t, done, "the request to end")
	in.Close()
	if resp := await.Value(t, answer, "the answer"); resp == nil || resp.StatusCode != 200 {
		t.Errorf("the stream ended with %+v", resp)
	}
	eventually(t, "all slots to be back", func() bool { return gate.Stats().Running == 0 })
}

// Where the gate has no slot for a stream that goes on, the answer is its refusal; once the
// answer has begun, the stream goes on without one.
func TestStreamsAreRefusedWhenTheyGoOn(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/answers" {
			w.(http.Flusher).Flush()
		}
		if _, err := io.Copy(w, r.Body); err != nil {
			http.Error(w, "the body failed", http.StatusBadGateway)
		}
	}), HoldStreams(5*time.Millisecond)))
	rt := base(t, 2)
	silent, refused := silentStream(t, rt, s.url+"/silent")
	speaks, answered := silentStream(t, rt, s.url+"/answers")
	eventually(t, "the slots to be lent", func() bool { return gate.Stats().Served[work.Released] == 2 && gate.Stats().Running == 0 })
	gate.Drain()
	go silent.Write([]byte("x"))
	if resp := await.Value(t, refused, "the refusal"); resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a stream without a slot was answered %+v", resp)
	} else {
		var problem struct{ Reason, Refusal string }
		if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil || problem.Reason != "draining" || problem.Refusal == "" {
			t.Errorf("the refusal is %+v, %v", problem, err)
		}
		resp.Body.Close()
	}
	go func() {
		speaks.Write([]byte("x"))
		speaks.Close()
	}()
	resp := await.Value(t, answered, "the answer")
	if resp == nil {
		return
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); string(b) != "x" || err != nil {
		t.Errorf("a stream whose answer had begun: %q, %v", b, err)
	}
}

// A caller that ends an answer which has been flushed says nothing about the server: its work was to begin the answer. One
// that leaves before that gave up, and what a handler says of its work stands.
func TestStreamsThatTheirCallerEnds(t *testing.T) {
	for _, tt := range []struct {
		flushes bool
		says    func(w http.ResponseWriter, r *http.Request) // may be nil
		want    work.Outcome
	}{
		{true, nil, work.Released},
		{false, nil, work.Ignored},
		{true, func(_ http.ResponseWriter, r *http.Request) { Ignore(r.Context()) }, work.Ignored},
		{true, func(w http.ResponseWriter, _ *http.Request) { SetOutcome(w, work.Dropped) }, work.Dropped},
	} {
		for _, major := range []int{1, 2} {
			gate := newGate(t, oneSlot(), nil)
			began := make(chan struct{})
			s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.says != nil {
					tt.says(w, r)
				}
				if tt.flushes {
					_, _ = io.WriteString(w, "token")
					_ = http.NewResponseController(w).Flush()
				}
				close(began)
				<-r.Context().Done()
			}), HoldStreams(time.Hour)))
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, "GET", s.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-began
				if !tt.flushes {
					leave()
				}
			}()
			resp, err := (&http.Client{Transport: base(t, major)}).Do(r)
			if err == nil {
				if _, err := io.ReadFull(resp.Body, make([]byte, len("token"))); err != nil {
					t.Error(err)
				}
				leave()
				resp.Body.Close()
			}
			leave()
			eventually(t, "the request to leave", func() bool { return gate.Stats().Running == 0 })
			if served := gate.Stats().Served; served[tt.want] != 1 {
				t.Errorf("HTTP/%d, flushed %v: outcomes %v, expected one %v", major, tt.flushes, served, tt.want)
			}
		}
	}
}

// Frameworks that ask the writer, and not the context, learn that a client has gone.
func TestTheWriterTellsThatTheClientLeft(t *testing.T) {
	began, told := make(chan struct{}), make(chan struct{})
	gate := newGate(t, oneSlot(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		gone := w.(interface{ CloseNotify() <-chan bool }).CloseNotify()
		close(began)
		<-gone
		close(told)
	})))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	r, err := http.NewRequestWithContext(ctx, "GET", s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := (&http.Client{Transport: base(t, 1)}).Do(r); err == nil {
		resp.Body.Close()
		t.Error("an answer of a handler that waits for the client to go")
	}
	await.Value(t, told, "the handler to hear that its client left")
}
