package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whoever stops the proxy a second time need not wait: what is inside is cut off, and the
// log says how much, where and why.
func TestHurry(t *testing.T) {
	entered := make(chan struct{})
	_, addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	cfg := to("http://" + addr)
	cfg.Drain = Drain{Notice: 5 * time.Minute, Timeout: time.Hour}
	p := start(t, cfg)
	answered := make(chan error, 1)
	go func() {
		resp, err := client(t, 1, nil).Get(p.url)
		if err == nil {
			resp.Body.Close()
		}
		answered <- err
	}()
	<-entered
	p.stop()
	eventually(t, "the drain to begin", func() bool { return p.phase.Load() == noticing })
	p.Hurry()
	p.Hurry()
	if err := p.wait(t); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered, expected that it is cut off")
	}
	for _, want := range []string{"requests are cut off", "requests=1", "told again to stop", addr + ": 1"} {
		if !strings.Contains(p.log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, p.log.String())
		}
	}
}
