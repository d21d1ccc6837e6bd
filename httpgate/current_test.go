package httpgate

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/work"
)

// A request whose target was closed while its client sent the body goes to another target: the gate of the first one refuses
// whatever comes.
func TestATargetThatClosesWhileABodyComes(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		var targets [2]*Target
		for i := range targets {
			targets[i] = NewTarget(newGate(t, few(busyShare), nil), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, i, n, err)
			}))
		}
		held, err := targets[0].gate.Enter(t.Context(), live.Request{}) // so that bodies of unknown length are awaited
		if err != nil {
			t.Fatal(err)
		}
		targets[0].stopped.out = busyShare // and nobody goes on who stopped
		var chosen atomic.Int32
		s := serve(t, Spread(func(*http.Request) *Target { return targets[chosen.Load()] }, HoldStreams(time.Hour)))
		const size = 4000
		slow := begin(t, s.url, size, chunked)
		eventually(t, "some of the body to come", func() bool { return s.Server.Handler.(*handler).gathering.all.Load() > 0 })
		chosen.Store(1)
		targets[0].Close()
		targets[0].gate.Drain()
		if status, body := slow.finish(); status != http.StatusOK || body != fmt.Sprint(1, size, nil) {
			t.Errorf("chunked %v: %d %q", chunked, status, body)
		}
		held.Leave(work.Ignored)
	}
}
