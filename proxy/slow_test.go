package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/work"
)

// Clients that upload slowly, and streams that say nothing, hold no slots of the upstream:
// those beside them are served, and the uploads end well.
func TestSlowClientsHoldNoSlots(t *testing.T) {
	for _, scheme := range []string{"http", "h2c"} {
		t.Run(scheme, func(t *testing.T) {
			_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				if err == nil {
					fmt.Fprint(w, n)
				}
			}))
			cfg := to(scheme + "://" + addr)
			cfg.Slots = Slots{Min: 2, Max: 2}
			p := start(t, cfg)
			gate := p.state.Load().upstreams[0].gate
			const size = 200 << 10
			half := strings.Repeat("x", size/2)
			type upload struct {
				io.Writer
				*bufio.Reader
			}
			var slow []upload
			for i := range 6 {
				c := dialFrom(t, "127.0.0.1", p.addr)
				fmt.Fprintf(c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, half)
				slow = append(slow, upload{c, bufio.NewReader(c)})
				eventually(t, "its slot to be given back", func() bool { return gate.Stats().Served[work.Released] == uint64(i+1) })
			}
			streams := client(t, 2, nil)
			var ends []func()
			for range 10 {
				r, w := io.Pipe()
				done := make(chan struct{})
				go func() {
					defer close(done)
					if resp, err := streams.Post(p.url, "text/plain", r); err == nil {
						resp.Body.Close()
					}
				}()
				ends = append(ends, func() { w.Close(); await.Value(t, done, "the request to end") })
			}
			c := client(t, 1, nil)
			for range 50 {
				if resp, body := get(t, c, p.url); resp.StatusCode != 200 {
					t.Fatalf("beside slow clients: %d %s", resp.StatusCode, body)
				}
			}
			for _, u := range slow {
				_, _ = io.WriteString(u, half)
				resp, err := http.ReadResponse(u.Reader, nil)
				if err != nil {
					t.Fatal(err)
				}
				if body := read(t, resp); resp.StatusCode != 200 || body != fmt.Sprint(size) {
					t.Errorf("a slow upload: %d %s", resp.StatusCode, body)
				}
			}
			for _, end := range ends {
				end()
			}
		})
	}
}
