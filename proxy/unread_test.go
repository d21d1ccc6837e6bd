package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spillgate/spillgate/internal/await"
)

// A client that sends one request after another and reads no answer is disconnected, also where each answer is small.
func TestSmallAnswersThatNobodyReads(t *testing.T) {
	answer := strings.Repeat("x", 1500)
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, answer) }))
	cfg := to("http://" + addr)
	cfg.Limits.SendTimeout = 100 * time.Millisecond
	p := start(t, cfg)
	c := connectTo(t, p.addr)
	c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	sent := make(chan error, 1)
	go func() {
		for {
			if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				sent <- err
				return
			}
		}
	}()
	if err := await.Value(t, sent, "the proxy to end the connection"); isTimeout(err) {
		t.Error("the proxy keeps a connection of which nothing is read")
	}
	eventually(t, "the connection's place to be free", func() bool { open, _ := p.places.Load().load(); return open == 0 })
}

// One that pauses between requests for longer than it may take to read an answer is not, nor is an upgraded connection.
func TestPausesAreNoUnreadAnswers(t *testing.T) {
	const most = 250 * time.Millisecond // a busy machine may stop the proxy for less
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			io.WriteString(w, "hello")
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		io.Copy(c, rw)
	}))
	cfg := to("http://" + addr)
	cfg.Limits.SendTimeout = most
	p := start(t, cfg)
	c := connectTo(t, p.addr)
	for range 2 {
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := read(t, resp); text != "hello" {
			t.Errorf("%q", text)
		}
		time.Sleep(3 * most)
	}
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp, err)
	}
	for range 2 {
		time.Sleep(3 * most)
		fmt.Fprint(c, "ping")
		got := make([]byte, 4)
		if _, err := io.ReadFull(c.r, got); err != nil || string(got) != "ping" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

// rawStreams is a connection of HTTP/2 whose client opens no window for answers.
type rawStreams struct {
	t    *testing.T
	f    *http2.Framer
	next uint32
}

func streamsTo(t *testing.T, addr string, settings ...http2.Setting) *rawStreams {
	t.Helper()
	c := connectTo(t, addr)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	s := &rawStreams{t: t, f: http2.NewFramer(c, c.r), next: 1}
	if err := s.f.WriteSettings(settings...); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a GET and returns its stream.
func (s *rawStreams) ask(method, path string) uint32 {
	s.t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", method}, {":scheme", "http"}, {":path", path}, {":authority", "x"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	id := s.next
	s.next += 2
	if err := s.f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// until reads frames until one is what is looked for.
func (s *rawStreams) until(what string, is func(http2.Frame) bool) {
	s.t.Helper()
	for {
		frame, err := s.f.ReadFrame()
		if err != nil {
			s.t.Fatalf("%v, expected %s", err, what)
		}
		if is(frame) {
			return
		}
	}
}

// A stream whose client opens no window for its answer ends, whoever answered: a gate, an upstream for a path without one, or
// the proxy itself. No limit counts it any more.
func TestStreamsWhoseAnswersNobodyTakes(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	var cfg Config
	cfg.Groups = []Group{{Name: "a", Paths: []string{"/a/", "/healthz"}, Upstreams: []Upstream{{URL: "http://" + addr}}}}
	cfg.Limits.SendTimeout = 100 * time.Millisecond
	p := start(t, cfg)
	s := streamsTo(t, p.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for _, target := range [][2]string{{"GET", "/a/b"}, {"GET", "/healthz"}, {"GET", "/nowhere"}, {"A B", "/a/b"}} {
		id := s.ask(target[0], target[1])
		s.until(fmt.Sprintf("the end of %s %s", target[0], target[1]), func(frame http2.Frame) bool {
			reset, is := frame.(*http2.RSTStreamFrame)
			return is && reset.StreamID == id
		})
	}
}

// A frame of HTTP/2 costs no more memory than the smallest that every server has to take, however large a client says it is.
func TestFramesAreSmall(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	p := start(t, to("h2c://"+addr))
	s := streamsTo(t, p.addr)
	s.until("settings", func(frame http2.Frame) bool {
		settings, is := frame.(*http2.SettingsFrame)
		if is {
			if v, ok := settings.Value(http2.SettingMaxFrameSize); ok && v != frameSize {
				t.Errorf("frames of up to %d bytes are taken", v)
			}
		}
		return is && !settings.IsAck()
	})
	if err := s.f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, frameSize+1)); err != nil {
		t.Fatal(err)
	}
	s.until("the end of the connection", func(frame http2.Frame) bool {
		away, is := frame.(*http2.GoAwayFrame)
		return is && away.ErrCode == http2.ErrCodeFrameSize
	})
}

// A client that reads nothing of a long answer has little of it taken from an upstream of HTTP/2.
func TestLittleIsTakenAheadOfASlowReader(t *testing.T) {
	var sent atomic.Int64
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 16<<10)
		for r.Context().Err() == nil && sent.Load() < 8<<20 {
			n, err := w.Write(piece)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	p := start(t, to("h2c://"+addr))
	s := streamsTo(t, p.addr, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	s.ask("GET", "/")
	eventually(t, "the answer to begin", func() bool { return sent.Load() >= answerBuffer })
	for was := int64(0); was != sent.Load(); time.Sleep(100 * time.Millisecond) {
		was = sent.Load()
	}
	if n := sent.Load(); n > 2*answerBuffer {
		t.Errorf("%d bytes were sent, expected %d and what fits into a few buffers", n, answerBuffer)
	}
}
