package front

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/lab/experiment"
)

// hundredth is x after a hundred rounds of MD5, in hexadecimal digits.
const hundredth = "188c5b13bdaf739b105fec917c870ad8"

// The servers do the same work: their pages have the same text.
func TestStockServersAnswer(t *testing.T) {
	for _, s := range stockServers() {
		back, err := s.start(t.Context())
		servers.SkipMissing(t, err)
		file, _, _ := strings.Cut(s.path, "?")
		resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(back.Port) + file + "?rounds=100&wait=1000")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(text) != hundredth {
			t.Errorf("%s: %s %q, %v", s.name, resp.Status, text, err)
		}
		back.Stop()
	}
	http.DefaultClient.CloseIdleConnections()
}

// The best limit is that of the best goodput, and each bar has its own figures.
func TestJudgeStock(t *testing.T) {
	s := &stock{objective: 100 * time.Millisecond}
	all := []Contender{{Name: ours}, {Name: ours + cold}, {Name: "no control"}, {Name: "nginx, limit_conn 4"}, {Name: "nginx, limit_conn 8"}, {Name: "envoy-adaptive"}}
	got := make([]borne, len(all))
	for k, goodput := range []float64{0.9, 0.8, 0.1, 0.5, 1, 0.6} {
		got[k] = borne{goodput: []float64{goodput}, p99: []float64{100 + float64(k)}, refusal: []float64{1}, others: []float64{0}}
	}
	r := &experiment.Result{}
	s.judge(r, "a server", 200, all, got)
	for i, want := range []struct {
		measured float64
		pass     bool
	}{{0.9, true}, {100, true}, {0.8, false}, {101, false}, {0.9, false}, {1.5, true}} {
		if b := r.Bars[i]; b.Measured != want.measured || b.Pass != want.pass {
			t.Errorf("%s; passes: %v", b, b.Pass)
		}
	}
	if len(r.Bars) != 6 || len(r.Table) != 1 {
		t.Errorf("%d bars, %+v", len(r.Bars), r.Table)
	}
}
