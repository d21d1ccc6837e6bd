package bed

import (
	"context"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/world"
)

// frontEnv says to the test binary that it is a proxy: LISTEN to UPSTREAM.
const frontEnv = "SPILLGATE_BED_TEST_FRONT"

// half is a proxy of somebody else's that refuses every other request.
var half = Peer{Name: "half", Front: func(_ context.Context, r *Role) (proc.Spec, error) {
	return proc.Spec{Env: []string{frontEnv + "=" + r.Listen + " " + r.Upstream}}, nil
}}

// beFront is that proxy, if this process is to be one.
func beFront() {
	listen, upstream, ok := strings.Cut(os.Getenv(frontEnv), " ")
	if !ok {
		return
	}
	proc.ExitWithParent()
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: upstream})
	var n atomic.Int64
	_ = http.ListenAndServe(listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%2 == 0 {
			http.Error(w, "too many", http.StatusServiceUnavailable)
			return
		}
		to.ServeHTTP(w, r)
	}))
	os.Exit(1)
}

// A proxy of somebody else's stands in front of each replica, and what it refuses is
// refused, with no reason; a proxy without control refuses nothing.
func TestFronts(t *testing.T) {
	w := &world.World{Objective: 10 * time.Second, Warmup: ms, Length: 500 * ms,
		Services: []world.Service{{Name: "s", Workers: 8, Methods: []world.Method{{Name: "m", Steps: []world.Step{wait(ms)}}}}},
		Clients: []world.Group{{Name: "c", Kind: world.Plain, Ask: []world.Ask{{Target: world.Target{Service: "s", Method: "m"}}},
			Load: world.Load{Steps: []world.Rate{{PerSecond: 200}}}}}}
	for _, policy := range []string{"half/proxy", "none/proxy"} {
		before := resources(t)
		p, err := Play(t.Context(), w, policy, 1, half)
		if err != nil {
			t.Fatal(err)
		}
		c := &p.Report.Groups[0].Counts
		refused := c.Offered / 2
		if policy == "none/proxy" {
			refused = 0
		}
		// A request may be on its way twice.
		if c.Offered < 20 || c.Refused < refused-3 || c.Refused > refused+3 || c.Good+c.Late+c.Refused != c.Offered {
			t.Errorf("%s: %+v, expected %d refused and the rest answered", policy, c, refused)
		}
		if after := resources(t); after != before {
			t.Errorf("%s: %v before, %v after", policy, before, after)
		}
	}
	for _, policy := range []string{"half", "half/http"} {
		if _, err := Play(t.Context(), w, policy, 1, half); err == nil || !strings.Contains(err.Error(), "does not come over") {
			t.Errorf("%s: %v, expected an error", policy, err)
		}
	}
}
