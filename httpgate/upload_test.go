package httpgate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// slowly sends a request in two parts.
type slowly struct {
	t    *testing.T
	conn net.Conn
	rest string
}

// begin sends the header of a POST and half of its body of n bytes, of announced length or in
// chunks.
func begin(t *testing.T, url string, n int, chunked bool) *slowly {
	t.Helper()
	host := strings.TrimPrefix(url, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(await.Patience))
	half := strings.Repeat("x", n/2)
	s := &slowly{t: t, conn: c, rest: half}
	length := fmt.Sprintf("Content-Length: %d", n)
	first := half
	if chunked {
		length = "Transfer-Encoding: chunked"
		first = fmt.Sprintf("%x\r\n%s\r\n", len(half), half)
		s.rest = first + "0\r\n\r\n"
	}
	if _, err := fmt.Fprintf(c, "POST /upload HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n%s", host, length, first); err != nil {
		t.Fatal(err)
	}
	return s
}

// finish sends the rest and returns the answer.
func (s *slowly) finish() (status int, body string) {
	s.t.Helper()
	_, _ = io.WriteString(s.conn, s.rest) // a refusal may come before its end
	resp, err := http.ReadResponse(bufio.NewReader(s.conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// A client that is slow with a long body holds no slot meanwhile, and what is done with the
// body is done in one.
func TestSlowUploadsHoldNoSlot(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked=%v", chunked), func(t *testing.T) {
			gate := newGate(t, oneSlot(), nil)
			s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, err := io.ReadAll(r.Body)
				if err != nil {
					http.Error(w, "the body failed", http.StatusBadRequest)
					return
				}
				if n := gate.Stats().Running; n != 1 {
					t.Errorf("%d slots are in use while the handler works, expected its own", n)
				}
				fmt.Fprint(w, len(b))
			}), Patient(Patience{Blocked: 5 * time.Millisecond})))
			const size = 256 << 10
			var slow []*slowly
			for range 3 {
				slow = append(slow, begin(t, s.url, size, chunked))
			}
			eventually(t, "their slots to be given back", func() bool { return gate.Stats().Served[work.Released] == 3 })
			for range 3 { // nobody is in the way
				resp, err := (&http.Client{Transport: base(t, 1)}).Get(s.url)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
			}
			for _, one := range slow {
				if status, got := one.finish(); status != 200 || got != fmt.Sprint(size) {
					t.Errorf("status %d, %q", status, got)
				}
			}
			if n := gate.Stats().Running; n != 0 {
				t.Errorf("%d slots are in use at the end", n)
			}
			if n := gate.Stats().Served[work.Done]; n != 6 {
				t.Errorf("%d requests were done in a slot, expected 6", n)
			}
		})
	}
}

// Where the gate has no slot for what is done with the body, the answer is its refusal.
func TestUploadsAreRefusedAtTheirEnd(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	var ends atomic.Int64
	var end End
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Error("the body came to its end without a slot")
		}
		w.WriteHeader(http.StatusBadGateway)
		io.WriteString(w, "something else")
	}), Patient(Patience{Blocked: 5 * time.Millisecond}), OnEnd(func(*http.Request) func(End) {
		return func(e End) { end = e; ends.Add(1) }
	})))
	slow := begin(t, s.url, 256<<10, false)
	eventually(t, "the slot to be given back", func() bool { return gate.Stats().Served[work.Released] == 1 })
	gate.Drain()
	status, body := slow.finish()
	if status != 503 || !strings.Contains(body, `"reason":"draining"`) {
		t.Errorf("status %d, %s", status, body)
	}
	eventually(t, "the end to be told", func() bool { return ends.Load() == 1 })
	if end.Admitted || end.Reason != work.Draining {
		t.Errorf("told of %+v", end)
	}
}

// A body that comes as fast as it is read keeps its slot.
func TestFastUploadsKeepTheirSlot(t *testing.T) {
	gate := newGate(t, roomy(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}), Patient(Patience{Blocked: time.Minute})))
	resp, err := (&http.Client{Transport: base(t, 1)}).Post(s.url, "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); string(got) != "1048576" {
		t.Errorf("read %s", got)
	}
	eventually(t, "the request to end", func() bool { return gate.Stats().Running == 0 })
	if served := gate.Stats().Served; served[work.Done] != 1 || served[work.Released] != 0 {
		t.Errorf("served %v", served)
	}
}

// Streams that say nothing hold no slots of a gate that is in use, and are served once they
// have said something.
func TestSilentStreamsWaitOutside(t *testing.T) {
	gate := newGate(t, few(busyShare), nil)
	held, entered := make(chan struct{}), make(chan struct{})
	var streams atomic.Int64
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/held":
			close(entered)
			<-held
		case "/stream":
			streams.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
		}
	}), HoldStreams(time.Hour)))
	client := &http.Client{Transport: base(t, 2)}
	send := func(path string, body io.Reader) {
		resp, err := client.Post(s.url+path, "text/plain", body)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}
	var all sync.WaitGroup
	all.Go(func() { send("/held", nil) }) // the gate is in use all the time
	await.Value(t, entered, "a request to reach the handler")
	var ends []*io.PipeWriter
	for range 20 {
		r, w := io.Pipe()
		ends = append(ends, w)
		all.Go(func() { send("/stream", r) })
	}
	for range 50 {
		send("/", nil)
		if s := gate.Stats(); s.Running > 1 || s.Waiting > 0 {
			t.Fatalf("%d run and %d wait beside the one that is held", s.Running-1, s.Waiting)
		}
	}
	if n := streams.Load(); n != 0 {
		t.Errorf("%d streams have a slot and said nothing", n)
	}
	for _, end := range ends {
		end.Close()
	}
	eventually(t, "the streams to be served", func() bool { return streams.Load() == 20 })
	close(held)
	await.All(t, &all, "the clients to end")
}

// A long body must come at the least rate, and its client may not fall silent, over HTTP/1
// and HTTP/2; the deadline does not outlive the body.
func TestLongBodiesMustCome(t *testing.T) {
	for name, patience := range map[string]func(time.Duration) Patience{
		"rate": func(d time.Duration) Patience {
			return Patience{Gather: 1, Rate: 1 << 20, Grace: d, Silence: time.Hour}
		},
		"silence": func(d time.Duration) Patience { return Patience{Gather: 1, Rate: -1, Silence: d} },
	} {
		for _, major := range []int{1, 2} {
			well := false
			for d := 50 * time.Millisecond; !well && d < 10*time.Second; d *= 4 { // a machine that stands still is late with the first byte
				well = breaksOff(t, major, patience(d))
			}
			if !well {
				t.Errorf("%s, HTTP/%d: no body failed at its deadline", name, major)
			}
		}
	}
	// Within the limits a connection has one request after the other.
	well := false
	for silence := 100 * time.Millisecond; !well && silence < 10*time.Second; silence *= 4 { // a busy machine may send too slowly
		s := serve(t, Handler(newGate(t, roomy(), nil), takes(nil), Patient(Patience{Gather: 1, Silence: silence})))
		well = uploads(t, s.url, silence+10*time.Millisecond)
	}
	if !well {
		t.Error("of one request after the other on a connection, none is served")
	}
}

// takes reads bodies to their ends, and tells of those that fail, if anybody wants to know.
func takes(failed chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			select {
			case failed <- err:
			default:
			}
			w.WriteHeader(http.StatusRequestTimeout)
		}
	})
}

// breaksOff sends the beginning of a long body, and reports whether the body then failed in the handler, and was not refused before.
func breaksOff(t *testing.T, major int, patience Patience) bool {
	failed, ended := make(chan error, 1), make(chan struct{}, 1)
	h := Handler(newGate(t, roomy(), nil), takes(failed), Patient(patience))
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		h.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	body, more := io.Pipe()
	r, _ := http.NewRequestWithContext(ctx, "POST", s.url, body)
	r.ContentLength = 1 << 20
	go func() { _, _ = more.Write(make([]byte, 1000)) }()
	resp, err := base(t, major).RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	more.Close()
	await.Value(t, ended, "the request to end")
	select {
	case err := <-failed:
		if !isDeadline(err) {
			t.Errorf("HTTP/%d, %+v: the body failed with %v", major, patience, err)
		}
		return true
	default:
		return false
	}
}

// uploads sends three bodies on one connection, with pauses, and reports whether all were taken.
func uploads(t *testing.T, url string, pause time.Duration) bool {
	conns := map[string]bool{}
	rt := base(t, 1)
	for range 3 {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { conns[info.Conn.LocalAddr().String()] = true }})
		r, _ := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(strings.Repeat("x", 100_000)))
		resp, err := rt.RoundTrip(r)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); resp.StatusCode != 200 {
			return false
		}
		time.Sleep(pause) // longer than the deadline of the body before
	}
	return len(conns) == 1
}

func isDeadline(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// A server that works before it has the whole body is seen to do so once; then clients that keep
// the end back have that work done in a slot, and others wait for it.
func TestWorkBeforeTheEndOfTheBodyHasASlot(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	leave := make(chan struct{})
	var working atomic.Int64
	target := NewTarget(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		read := make(chan struct{})
		go func() { // as a proxy does for its upstream
			defer close(read)
			_, _ = io.Copy(io.Discard, r.Body)
		}()
		working.Add(1)
		<-leave
		working.Add(-1)
		fmt.Fprint(w, "done")
		_ = http.NewResponseController(w).Flush()
		<-read
	}))
	s := serve(t, Spread(func(*http.Request) *Target { return target }, Patient(Patience{Blocked: 5 * time.Millisecond})))
	held := func() *slowly { return begin(t, s.url, 256<<10, false) }
	first := held()
	eventually(t, "the slot to be lent", func() bool { return working.Load() == 1 && gate.Stats().Running == 0 })
	leave <- struct{}{}
	eventually(t, "the early answer to be noted", target.first.known.Load)
	if status, _ := first.finish(); status != 200 {
		t.Errorf("the first: %d", status)
	}
	second, third := held(), held()
	eventually(t, "one to work and one to wait", func() bool { s := gate.Stats(); return working.Load() == 1 && s.Running == 1 && s.Waiting == 1 })
	time.Sleep(50 * time.Millisecond) // ten times what a slot is lent after
	if s := gate.Stats(); s.Running != 1 || working.Load() != 1 {
		t.Errorf("%d slots are in use for %d requests that are worked on, expected one", s.Running, working.Load())
	}
	close(leave)
	for _, one := range []*slowly{second, third} {
		if status, _ := one.finish(); status != 200 {
			t.Errorf("another: %d", status)
		}
	}
}

// A target that answered a request before the end of its body once, and waits for the end of the next one, keeps no slot
// for that: half a body would have it for as long as its client likes.
func TestSlotOfAKindThatIsNotAnsweredFirstAfterAll(t *testing.T) {
	gate := newGate(t, admission.Config{Objective: 200 * time.Millisecond, Slots: slots.Config{Min: 1, Max: 1}}, nil)
	target := NewTarget(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	s := serve(t, Spread(func(*http.Request) *Target { return target }, Patient(Patience{Blocked: 5 * time.Millisecond})))
	first := &served{r: &http.Request{Method: "POST"}, path: "/upload"}
	target.first.note(live.Now(), first)
	one := begin(t, s.url, 256<<10, false)
	eventually(t, "the request to have the slot", func() bool { return gate.Stats().Running == 1 })
	eventually(t, "the slot to be lent", func() bool { return gate.Stats().Running == 0 })
	eventually(t, "its kind to count as any other", func() bool { return !target.first.has(live.Now(), first) })
	if status, _ := one.finish(); status != 200 {
		t.Errorf("answered %d in the end", status)
	}
}

// deadlines is a response writer that notes the last deadline of reads. before is called once, before one is noted.
type deadlines struct {
	http.ResponseWriter
	last   time.Time
	before func()
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	if f := d.before; f != nil {
		d.before = nil
		f()
	}
	d.last = t
	return nil
}

// A handler that has reads of a body end, by a deadline in the past, ends one too that is about to set its own.
func TestBrokenOffReadsHaveNoLaterDeadline(t *testing.T) {
	d := &deadlines{}
	w := &writer{ResponseWriter: d, seat: &seat{stop: func() {}}}
	patience := &Patience{Rate: 1, Silence: time.Hour}
	u := &upload{ReadCloser: io.NopCloser(strings.NewReader("xx")), seat: w.seat, left: 2, pace: newPace(patience, d, &http.Request{ProtoMajor: 1})}
	one := make([]byte, 1)
	d.before = func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) }
	if _, _ = u.Read(one); !d.last.Equal(time.Unix(1, 0)) {
		t.Errorf("the read waits until %v", d.last)
	}
	_ = w.SetReadDeadline(time.Time{})
	if _, _ = u.Read(one[:0]); !d.last.After(time.Now()) {
		t.Errorf("once that is lifted, a read has a deadline of %v", d.last)
	}
}

// A chunked body over HTTP/1 must come as one of known length must.
func TestSilenceInChunkedBodies(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	failed := make(chan error, 1)
	s := serve(t, Handler(gate, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		failed <- err
	}), Patient(Patience{Silence: 50 * time.Millisecond})))
	begin(t, s.url, 256<<10, true)
	if err := await.Value(t, failed, "the body to fail"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the body of a client that fell silent: %v, expected a deadline", err)
	}
	eventually(t, "the request to end", func() bool { return gate.Stats().Running == 0 })
}

// What a target answers first is forgotten, and strangers cannot fill the memory for good.
func TestAnswersFirstForgets(t *testing.T) {
	var a answersFirst
	kind := func(n int) *served { return &served{r: &http.Request{Method: fmt.Sprint("M", n)}, path: "/"} }
	now := mono.Time(1)
	for n := range 2 * mostFirst {
		a.note(now, kind(n))
	}
	if !a.has(now, kind(mostFirst-1)) || a.has(now, kind(mostFirst)) || len(a.until) != mostFirst {
		t.Errorf("%d kinds are remembered, expected the first %d", len(a.until), mostFirst)
	}
	now = now.Add(firstFor)
	if a.has(now, kind(0)) {
		t.Error("a kind is remembered for longer than it counts")
	}
	if a.note(now, kind(mostFirst)); !a.has(now, kind(mostFirst)) || len(a.until) != 1 {
		t.Errorf("%d kinds after all others ended, expected one", len(a.until))
	}
}

// Where there is no memory for bodies, a client that is slow with one holds a slot for no time at all.
func TestSlowBodiesWithoutMemoryHoldNoSlot(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}), Patient(Patience{Blocked: time.Hour})))
	for i, tt := range []struct{ left, length int }{{0, 10}, {9_999, 10_000}} { // a little is too little for a longer one
		s.Server.Handler.(*handler).gathering.all.Store(mostGathered - int64(tt.left))
		slow := begin(t, s.url, tt.length, false)
		eventually(t, "its slot to be given back", func() bool { return gate.Stats().Served[work.Released] == uint64(i+1) })
		resp, err := (&http.Client{Transport: base(t, 1)}).Get(s.url)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if status, got := slow.finish(); status != 200 || got != fmt.Sprint(tt.length, nil) {
			t.Errorf("%d %q", status, got)
		}
	}
}

// A refused upload whose client stops is answered all the same, and its connection ends.
func TestRefusedUploadsThatStop(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	s := serve(t, Handler(gate, text("x"), Patient(Patience{Gather: 1000, Silence: 50 * time.Millisecond})))
	c, br := raw(t, s)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: 200000\r\n\r\n%s", field, wire.Header(wire.Tags{Budget: 1}.Append(nil)), strings.Repeat("x", 2000))
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); resp.StatusCode != http.StatusGatewayTimeout || err != nil {
		t.Errorf("%s, %v", resp.Status, err)
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("%v, expected the end of the connection", err)
	}
}
