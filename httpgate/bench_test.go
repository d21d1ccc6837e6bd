package httpgate

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/spillgate/spillgate/internal/harness/contest"
)

// BenchmarkRequest compares requests of a client with a wallet at a gated server, and of a plain client there, with
// those of a plain client at a plain server: client and server together.
func BenchmarkRequest(b *testing.B) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 32)) })
	plain := serve(b, echo)
	gated := serve(b, Handler(newGate(b, roomy(), nil), echo))
	asks := func(through http.RoundTripper, url string) func() error {
		client := &http.Client{Transport: through}
		return func() error {
			resp, err := client.Get(url)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
			return errors.Join(err, resp.Body.Close())
		}
	}
	for _, kind := range []struct {
		name    string
		through http.RoundTripper
	}{{"both", Transport(pooled(b))}, {"server", pooled(b)}} {
		b.Run(kind.name, func(b *testing.B) {
			contest.Run(b, asks(pooled(b), plain.url), asks(kind.through, gated.url))
		})
	}
}

// pooled returns a transport that keeps a connection for each request of a contest.
func pooled(b *testing.B) *http.Transport {
	t := base(b, 1)
	t.MaxIdleConnsPerHost = 64
	return t
}
