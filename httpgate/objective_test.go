package httpgate

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/await"
	"github.com/spillgate/spillgate/internal/work"
)

// A Go service that changes its objective under load keeps the limit that it has learned, and clients with
// credits hear of the new objective.
func TestSetObjectiveUnderLoad(t *testing.T) {
	gate := newGate(t, admission.Config{Objective: 100 * time.Millisecond}, nil)
	workers := make(chan struct{}, 2) // 100 requests/s: few enough that on a busy machine the service is short, and not the processor
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		workers <- struct{}{}
		defer func() { <-workers }()
		time.Sleep(20 * time.Millisecond)
		io.WriteString(w, "ok")
	})))
	const clients = 64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	c := &http.Client{Transport: Transport(base(t, 1))}
	defer func() {
		close(stop)
		await.All(t, &wg, "the clients to end")
		c.CloseIdleConnections()
	}()
	var under sync.RWMutex // no request is under way while it is locked
	for range clients {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				under.RLock()
				resp, err := c.Get(s.url)
				if err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				under.RUnlock()
				if err != nil {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	eventually(t, "a gate that knows its service", func() bool {
		st := gate.Stats()
		return st.Limit <= clients && st.Served[work.Done] > 100 && st.Clients > 0
	})
	for _, d := range []time.Duration{300 * time.Millisecond, 90 * time.Millisecond} {
		under.Lock() // so that nothing is learned between two looks
		goOn := sync.OnceFunc(under.Unlock)
		defer goOn() // also where the test ends here: its clients would wait for ever
		eventually(t, "all requests to leave", func() bool { st := gate.Stats(); return st.Running+st.Waiting == 0 })
		before := gate.Stats()
		err := gate.SetObjective(d)
		after := gate.Stats()
		goOn()
		if err != nil {
			t.Fatal(err)
		}
		if after.Objective != d || after.Limit > 2*before.Limit || after.Service == 0 || after.Credits == 0 {
			t.Errorf("%v: %+v, before %+v", d, after, before)
		}
		eventually(t, "fifty answers", func() bool { return gate.Stats().Served[work.Done] >= after.Served[work.Done]+50 })
		if now := gate.Stats().Limit; now > clients {
			t.Errorf("%v: the limit has become %d", d, now)
		}
	}
	if gate.SetObjective(0) == nil {
		t.Error("an objective of 0 was taken")
	}
}
