package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkProxy measures the proxy and the plain reverse proxy it is built on,
// in turns of a tenth of a second so that both meet the same machine, and
// reports their throughputs and what the gate costs, in percent of the plain
// one's. Client, proxy and server share the processors, as they do not in use.
func BenchmarkProxy(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			body := strings.Repeat("x", size)
			_, addr := serve(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
			target := &url.URL{Scheme: "http", Host: addr}
			plain := &httputil.ReverseProxy{
				Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
				Transport:  newTransport(Config{}.WithDefaults().Limits, "http", Upstream{}.dialer(time.Second), nil),
				BufferPool: newBuffers(),
			}
			defer plain.Transport.(*http.Transport).CloseIdleConnections()
			_, plainAddr := serve(b, plain)
			p := start(b, to("http://"+addr))
			const workers = 16
			c := client(b, 1, nil)
			c.Transport.(*http.Transport).MaxIdleConnsPerHost = workers
			measure := func(url string, span time.Duration) float64 {
				var done atomic.Int64
				stop := make(chan struct{})
				ended := make(chan struct{})
				begin := time.Now()
				for range workers {
					go func() {
						defer func() { ended <- struct{}{} }()
						for {
							select {
							case <-stop:
								return
							default:
							}
							resp, err := c.Get(url)
							if err != nil {
								b.Error(err)
								return
							}
							io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
							if resp.StatusCode == 200 {
								done.Add(1)
							}
						}
					}()
				}
				time.Sleep(span)
				close(stop)
				for range workers {
					<-ended
				}
				return float64(done.Load()) / time.Since(begin).Seconds()
			}
			measure("http://"+plainAddr, 300*time.Millisecond)
			measure(p.url, 300*time.Millisecond)
			var sum [2]float64
			n := 0
			b.ResetTimer()
			for b.Loop() {
				for i, url := range []string{"http://" + plainAddr, p.url} {
					sum[i] += measure(url, 100*time.Millisecond)
				}
				n++
			}
			b.ReportMetric(sum[0]/float64(n), "plain-req/s")
			b.ReportMetric(sum[1]/float64(n), "gated-req/s")
			b.ReportMetric(100*(1-sum[1]/sum[0]), "overhead-%")
			b.ReportMetric(0, "ns/op")
		})
	}
}
