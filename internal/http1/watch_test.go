package http1

import (
	"net/http"
	"testing"
)

// A body has begun if a Read does not wait: the size of a chunk alone is no byte of it.
func TestWatchBegun(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, test := range []struct {
		first string
		begun bool
	}{
		{ok + "\r\n", false},
		{ok + "\r\nx", true},
		{ok + "Transfer-Encoding: chunked\r\n\r\n", false},
		{ok + "Transfer-Encoding: chunked\r\n\r\n5", false},
		{ok + "Transfer-Encoding: chunked\r\n\r\n5\r\n", false},
		{ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nh", true},
		{ok + "Content-Length: 5\r\n\r\nhello", false}, // nobody asks
	} {
		rt, end := ours(play(false, []byte(test.first)))
		w := Watch{Begun: !test.begun} // of an answer before
		r, _ := http.NewRequestWithContext(w.In(t.Context()), "GET", "http://server/", nil)
		resp, err := rt.RoundTrip(r)
		if err != nil {
			t.Fatal(test.first, err)
		}
		if w.Begun != test.begun {
			t.Errorf("%q: begun %v", test.first, w.Begun)
		}
		resp.Body.Close()
		end()
	}
}
