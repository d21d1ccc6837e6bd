package httpgate

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/spillgate/spillgate/internal/await"
)

// The bodies of requests that wait for a slot are in memory, and count until they are read: what all
// of them take is bounded, however long they wait.
func TestGatheredBodiesCountWhileTheyWait(t *testing.T) {
	gate := newGate(t, oneSlot(), nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	h := Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			entered <- struct{}{}
			<-leave
		}
		if r.URL.Path != "/unread" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
	})).(*handler)
	s := serve(t, h)
	rt := base(t, 1)
	var all sync.WaitGroup
	ask := func(path string, length int64, body string) {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+path, io.NopCloser(strings.NewReader(body)))
			if err != nil {
				t.Error(err)
				return
			}
			r.ContentLength = length
			if resp, _ := send(t, rt, r); resp.StatusCode != 200 {
				t.Errorf("%s: %s", path, resp.Status)
			}
		})
	}
	ask("/first", 0, "")
	await.Value(t, entered, "a request to reach the handler")
	const size = 5000
	text := strings.Repeat("x", size)
	for _, length := range []int64{size, -1} { // -1: chunked
		ask("/read", length, text)
		ask("/unread", length, text)
	}
	eventually(t, "four requests to wait", func() bool { return gate.Stats().Waiting == 4 })
	// Of unknown length, a body has a room that grew by four twice, and all of that counts but the first.
	const want = 2*size + 2*(16*firstRoom-firstRoom)
	if n := h.gathering.all.Load(); n != want {
		t.Errorf("%d bytes count as gathered, expected %d", n, want)
	}
	close(leave)
	await.All(t, &all, "the requests to end")
	eventually(t, "nothing to count as gathered", func() bool { return h.gathering.all.Load() == 0 })
}
