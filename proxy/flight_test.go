package proxy

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// Long polls do not keep other requests from a server that has not answered yet, however many they are within the
// gate's slots.
func TestManyGoBeforeTheFirstAnswer(t *testing.T) {
	const polls = 20
	came, answer := make(chan struct{}, polls), make(chan struct{})
	_, addr := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-answer
	}))
	cfg := to("http://" + addr)
	cfg.Objective, cfg.Slots = 10*time.Second, Slots{Min: polls, Max: polls}
	p := start(t, cfg)
	c := client(t, 1, nil)
	var all sync.WaitGroup
	defer all.Wait()
	defer close(answer)
	for range polls {
		all.Go(func() {
			resp, err := c.Get(p.url)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("answered %d, %v", resp.StatusCode, err)
			}
		})
	}
	for range polls {
		await.Value(t, came, "a request at the server")
	}
}
