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
	workers := make(chan struct{}, 4)
	s := serve(t, Handler(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		workers <- struct{}{}
		defer func() { <-workers }()
		time.Sleep(5 * time.Millisecond)
		io.WriteString(w, "ok")
	})))
	const clients = 128
	var wg sync.WaitGroup
	stop := make(chan struct{})
	c := &http.Client{Transport: Transport(base(t, 1))}
	defer func() {
		close(stop)
		await.All(t, &wg, "the clients to end")
		c.CloseIdleConnections()
	}()
	for range clients {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if resp, err := c.Get(s.url); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				} else {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	eventually(t, "a gate that knows its service", func() bool {
		st := gate.Stats()
		return st.Limit < clients/2 && st.Served[work.Done] > 500 && st.Clients > 0
	})
	for _, d := range []time.Duration{300 * time.Millisecond, 90 * time.Millisecond} {
		before := gate.Stats()
		if err := gate.SetObjective(d); err != nil {
			t.Fatal(err)
		}
		after := gate.Stats()
		if after.Objective != d || after.Limit > 2*before.Limit || after.Service == 0 || after.Credits == 0 {
			t.Errorf("%v: %+v, before %+v", d, after, before)
		}
		eventually(t, "two hundred answers", func() bool { return gate.Stats().Served[work.Done] >= after.Served[work.Done]+200 })
		if now := gate.Stats().Limit; now > clients {
			t.Errorf("%v: the limit has become %d", d, now)
		}
	}
	if gate.SetObjective(0) == nil {
		t.Error("an objective of 0 was taken")
	}
}
