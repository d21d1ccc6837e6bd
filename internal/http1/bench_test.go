package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/spillgate/spillgate/internal/await"
)

// sides are this package and http.Transport, as clients of s.
func (s *server) sides(idle int) map[string]http.RoundTripper {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: await.Patience}).DialContext(ctx, "tcp", s.addr)
	}
	t := &http.Transport{DialContext: dial, MaxIdleConns: idle, MaxIdleConnsPerHost: idle, DisableCompression: true}
	s.t.Cleanup(t.CloseIdleConnections)
	return map[string]http.RoundTripper{"here": s.client(func(cfg *Config) { cfg.Idle = idle }), "http.Transport": t}
}

// lean answers every request with 100 bytes.
func lean(c net.Conn, _ int64) {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n" + string(bytes.Repeat([]byte("x"), 100)))
	for br := bufio.NewReader(c); ; {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(line) > 2 {
			continue
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// BenchmarkRoundTrip measures requests of a few goroutines beside those of http.Transport. Client and server share the
// processors.
func BenchmarkRoundTrip(b *testing.B) {
	for _, workers := range []int{1, 8, 32} {
		s := serve(b, lean)
		for name, rt := range s.sides(64) {
			b.Run(fmt.Sprintf("%s-%d", name, workers), func(b *testing.B) {
				ctx, cancel := context.WithCancel(context.Background()) // as a request has
				defer cancel()
				b.ReportAllocs()
				b.SetParallelism(workers)
				b.RunParallel(func(pb *testing.PB) {
					buf := make([]byte, 32<<10)
					for pb.Next() {
						r, _ := http.NewRequestWithContext(ctx, "GET", "http://server/", nil)
						r.Header["X-Forwarded-For"] = []string{"127.0.0.1"}
						resp, err := rt.RoundTrip(r)
						if err != nil {
							b.Error(err)
							return
						}
						_, _ = io.CopyBuffer(io.Discard, struct{ io.Reader }{resp.Body}, buf)
						resp.Body.Close()
					}
				})
			})
		}
	}
}

// BenchmarkIdle measures what a connection takes that no request uses, beside one of http.Transport.
func BenchmarkIdle(b *testing.B) {
	const n = 500
	for _, name := range []string{"here", "http.Transport"} {
		b.Run(name, func(b *testing.B) {
			release := make(chan struct{})
			s := serve(b, func(c net.Conn, _ int64) {
				<-release
				lean(c, 0)
			})
			rt := s.sides(n)[name]
			used := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc + m.StackInuse
			}
			before := used()
			done := make(chan error, n)
			for range n {
				go func() {
					r, _ := http.NewRequest("GET", "http://server/", nil)
					resp, err := rt.RoundTrip(r)
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					done <- err
				}()
			}
			eventually(b, "connections", func() bool { return s.accepted.Load() >= n })
			close(release)
			for range n {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(used()-before)/n, "B/conn-and-server")
			b.ReportMetric(0, "ns/op")
		})
	}
}
