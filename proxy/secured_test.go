package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"
)

// Who speaks no TLS at a port of TLS is told, who says nothing is disconnected, and neither holds up the others or the end.
func TestHandshakesThatAreNone(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-Proto"))
	}))
	cert, key := newAuthority(t, "ca").issue("front")
	for _, patience := range []time.Duration{50 * time.Millisecond, time.Hour} {
		cfg := to("http://" + addr)
		cfg.Listen = []Listener{{Address: "127.0.0.1:0", Cert: cert, Key: key}}
		cfg.Limits.HeaderTimeout = patience
		p := start(t, cfg)
		silent := connectTo(t, p.addr)
		if patience == time.Hour { // a busy machine may take longer than the other
			plain := connectTo(t, p.addr)
			plain.ask("/")
			if status, err := plain.answer(); status != http.StatusBadRequest || err != nil {
				t.Errorf("without TLS: answered %d, %v", status, err)
			}
			for _, major := range []int{1, 2} {
				resp, proto := get(t, client(t, major, &tls.Config{InsecureSkipVerify: true}), p.url)
				if resp.ProtoMajor != major || resp.StatusCode != http.StatusOK || proto != "https" {
					t.Errorf("beside one that says nothing: answered %s by %s, and the server is told of %s", resp.Status, resp.Proto, proto)
				}
			}
			p.stop()
			if err := p.wait(t); err != nil {
				t.Error(err)
			}
		}
		if _, err := silent.r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it goes on: %v, expected %v", err, io.EOF)
		}
	}
}
