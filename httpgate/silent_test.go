package httpgate

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// What a handler does before it waits for a client that has stopped, such as connecting to another server and passing on
// what came of the body, is done in the request's slot: a client that begins thousands of such requests at once has no
// thousands of them worked on at once. From the first read on that waits, the slot is another request's.
func TestASilentRequestBeginsInItsSlot(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "a part": "part"} {
		t.Run(name, func(t *testing.T) {
			gate := newGate(t, few(2), nil)
			held, err := gate.Enter(t.Context(), live.Request{}) // so that bodies are awaited
			if err != nil {
				t.Fatal(err)
			}
			defer held.Leave(work.Done)
			entered, read := make(chan struct{}), make(chan struct{})
			s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				entered <- struct{}{}
				<-read
				if _, err := io.ReadFull(r.Body, make([]byte, len(sent))); err != nil {
					t.Error(err)
				}
				entered <- struct{}{}
				<-read
				io.Copy(io.Discard, r.Body)
			}), HoldStreams(20*time.Millisecond)))
			body, client := io.Pipe()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, body)
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan error, 1)
			go func() {
				resp, err := base(t, 2).RoundTrip(r)
				if err == nil {
					resp.Body.Close()
				}
				answered <- err
			}()
			if sent != "" {
				if _, err := io.WriteString(client, sent); err != nil {
					t.Fatal(err)
				}
			}
			await.Value(t, entered, "the handler")
			if n := gate.Stats().Running; n != 2 {
				t.Errorf("%d run while the handler has read nothing, expected it and the other", n)
			}
			read <- struct{}{}
			await.Value(t, entered, "the handler, which has read what came")
			if n := gate.Stats().Running; n != 2 {
				t.Errorf("%d run while the handler has read what came and waits for nothing, expected it and the other", n)
			}
			close(read)
			eventually(t, "the silent request's slot", func() bool { return gate.Stats().Running == 1 })
			client.Close()
			if err := await.Value(t, answered, "the answer"); err != nil {
				t.Error(err)
			}
		})
	}
}
