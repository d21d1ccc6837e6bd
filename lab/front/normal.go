package front

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// workers is how many requests the server behind the proxy works on at once, and each takes
// the time of service.
const (
	workers = 8
	service = 10 * time.Millisecond
	large   = 8 << 20 // bytes of a large answer
)

// server is what stands behind the proxy.
func server() http.Handler {
	busy := make(chan struct{}, workers)
	work := func() {
		busy <- struct{}{}
		time.Sleep(service)
		<-busy
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/work", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			work()
		}
	})
	answer := make([]byte, large)
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		work()
		_, _ = w.Write(answer)
	})
	mux.HandleFunc("/nothing", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer[:100]) })
	mux.HandleFunc("/upgrade", func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: nothing\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(io.Discard, rw)
	})
	return mux
}

// seen is what normal clients saw.
type seen struct {
	sent, served, refused, failed int
	took                          []time.Duration // of those served
}

// bad is the share that was not served.
func (s *seen) bad() float64 { return float64(s.refused+s.failed) / float64(max(s.sent, 1)) }

// p99 is the time within which 99 % of the served ones were, from when they should have been
// sent.
func (s *seen) p99() time.Duration {
	if len(s.took) == 0 {
		return 0
	}
	slices.Sort(s.took)
	return s.took[(len(s.took)*99+99)/100-1]
}

// ask sends requests to url at a steady rate, whatever becomes of them, and returns when all
// have ended.
func ask(ctx context.Context, client *http.Client, url string, perSecond int, length time.Duration) *seen {
	out := &seen{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	gap := time.Second / time.Duration(perSecond)
	begun := time.Now()
	for n := range int(length / gap) {
		due := begun.Add(time.Duration(n) * gap)
		if ctx.Err() != nil {
			break
		}
		time.Sleep(time.Until(due))
		out.sent++
		wg.Go(func() {
			status, err := get(ctx, client, url)
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				out.failed++
			case status == http.StatusOK:
				out.served++
				out.took = append(out.took, took)
			default:
				out.refused++
			}
		})
	}
	wg.Wait()
	return out
}

func get(ctx context.Context, client *http.Client, url string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
