package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What an upstream answers after the objective is counted as late, in the status and in
// the metrics.
func TestLateAnswersAreCounted(t *testing.T) {
	_, addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(5 * time.Millisecond)
		io.WriteString(w, "ok")
	}))
	cfg := to("http://" + addr)
	cfg.Objective = time.Millisecond
	p := start(t, cfg)
	c := client(t, 1, nil)
	for range 5 {
		get(t, c, p.url)
	}
	served := func() map[string]uint64 { return p.Status().Upstreams[0].Served }
	eventually(t, "the requests to leave", func() bool { return served()["late"]+served()["done"] == 5 })
	if n := served(); n["late"] != 5 {
		t.Errorf("served %v by outcome, expected 5 late", n)
	}
	_, metrics := get(t, c, p.admin+"/metrics")
	if want := `outcome="late",reason="none"} 5`; !strings.Contains(metrics, want) {
		t.Errorf("no %s in\n%s", want, metrics)
	}
}
