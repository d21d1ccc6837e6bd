package httpgate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/wire"
)

// Clients that take nothing of an answer hold no slot, however short the answer is and
// whichever way it is written, and are disconnected, or their stream is ended.
func TestAnswersThatNobodyTakes(t *testing.T) {
	for _, name := range []string{"/short", "/flushed", "/pipelined"} {
		t.Run(name[1:], func(t *testing.T) {
			gate := newGate(t, few(2), nil)
			cut := make(chan error, 1000)
			s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var err error
				switch r.URL.Path {
				case "/short", "/pipelined":
					_, err = w.Write(make([]byte, 20<<10))
				case "/flushed":
					_, _ = w.Write([]byte("x"))
					err = http.NewResponseController(w).Flush()
				}
				if err != nil {
					cut <- err
				}
			}), Patient(Patience{Blocked: 50 * time.Millisecond, Write: time.Second}), HoldStreams(time.Hour)))
			c, _ := raw(t, s)
			if name == "/pipelined" {
				go fmt.Fprint(c, strings.Repeat("GET "+name+" HTTP/1.1\r\nHost: x\r\n\r\n", 10_000)) // 200 MB of answers
			} else {
				_, _ = c.Write(closedStreams(8, name))
			}
			select {
			case <-cut:
			case <-time.After(await.Patience):
				t.Fatalf("the handler waits for a client that takes nothing; %d slots are in use", gate.Stats().Running)
			}
			eventually(t, "the slots to be free", func() bool { return gate.Stats().Running == 0 })
			for range 20 {
				if resp, _ := send(t, base(t, 1), request(t, s.url, wire.Tags{})); resp.StatusCode != http.StatusOK {
					t.Fatalf("beside them: %d", resp.StatusCode)
				}
			}
		})
	}
}

// closedStreams is a connection of HTTP/2 with n requests, of whose answers it takes nothing
// but the header.
func closedStreams(n int, path string) []byte {
	var out, block bytes.Buffer
	out.WriteString(http2.ClientPreface)
	f, coder := http2.NewFramer(&out, nil), hpack.NewEncoder(&block)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for i := range n {
		block.Reset()
		for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", path}, {":authority", "x"}} {
			_ = coder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	}
	return out.Bytes()
}

// A long answer may pause for longer than a client may take to read: the deadline of a write
// does not outlive it, over HTTP/1 and HTTP/2.
func TestAnswersMayPause(t *testing.T) {
	for _, major := range []int{1, 2} {
		whole := false
		for pause := 300 * time.Millisecond; !whole && pause < 10*time.Second; pause *= 4 { // a busy machine may read too slowly
			whole = pauses(t, major, pause)
		}
		if !whole {
			t.Errorf("HTTP/%d: no answer was whole", major)
		}
	}
}

// pauses has a handler pause for three times as long as its client may take to read, and reports whether the answer is whole.
func pauses(t *testing.T, major int, pause time.Duration) bool {
	s := serve(t, Handler(newGate(t, roomy(), nil), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 2*largeBody))
		_ = http.NewResponseController(w).Flush()
		time.Sleep(pause)
		_, _ = w.Write([]byte("end"))
	}), Patient(Patience{Write: pause / 3})))
	resp, err := base(t, major).RoundTrip(get(t, t.Context(), s.url))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode == 200 && len(body) == 2*largeBody+3
}
