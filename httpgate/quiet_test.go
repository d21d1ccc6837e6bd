package httpgate

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/work"
)

// Two-way streams whose clients have nothing to say hold no slot, are no samples,
// and work when they speak.
func TestQuietStreamsHoldNoSlot(t *testing.T) {
	var seen events
	gate := newGate(t, oneSlot(), seen.observe)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 1)
		for {
			if _, err := io.ReadFull(r.Body, b); err != nil {
				return
			}
			w.Write(b)
			w.(http.Flusher).Flush()
		}
	}), HoldStreams(5*time.Millisecond)))
	rt := base(t, 2)
	type stream struct {
		in   *io.PipeWriter
		resp chan *http.Response
	}
	var open []stream
	for i := range 5 { // of one slot
		pr, pw := io.Pipe()
		r, _ := http.NewRequestWithContext(t.Context(), "POST", s.url, pr)
		st := stream{pw, make(chan *http.Response, 1)}
		go func() {
			resp, err := rt.RoundTrip(r)
			if err != nil {
				t.Error(err)
			}
			st.resp <- resp
		}()
		open = append(open, st)
		eventually(t, "the slot to be back", func() bool { return len(seen.list()) == i+1 && gate.Stats().Running == 0 })
	}
	for _, st := range open {
		st.in.Write([]byte("x"))
		resp := await.Value(t, st.resp, "the answer")
		if resp == nil {
			continue
		}
		b := make([]byte, 1)
		if _, err := io.ReadFull(resp.Body, b); err != nil || b[0] != 'x' {
			t.Errorf("%q, %v", b, err)
		}
		st.in.Close()
		if rest, err := io.ReadAll(resp.Body); len(rest) != 0 || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
		resp.Body.Close()
	}
	for _, e := range seen.list() {
		if e.Outcome != work.Released {
			t.Errorf("%+v: a quiet stream is no sample", e)
		}
	}
}
