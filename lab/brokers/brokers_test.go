package brokers

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/servers"
)

func TestMain(m *testing.M) {
	Child()
	os.Exit(m.Run())
}

// Both loads reach every broker and come back whole.
func TestLoads(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	all := map[string]func() (contender, error){
		"ours": func() (contender, error) { return startOurs(ctx, bare, mqtt, nil) },
		"limited": func() (contender, error) {
			return startOurs(ctx, limited, mqtt, limits(1e6, 1e4))
		},
		"over NATS":   func() (contender, error) { return startOurs(ctx, overNATS, nats, limits(1e6, 1e4)) },
		"nats-server": func() (contender, error) { return startNATS(ctx) },
		"mosquitto": func() (contender, error) {
			c, err := startMosquitto(ctx)
			if errors.Is(err, servers.ErrMissing) {
				servers.SkipMissing(t, err)
			}
			return c, err
		},
	}
	for name, start := range all {
		t.Run(name, func(t *testing.T) {
			c, err := start()
			if err != nil {
				t.Fatal(err)
			}
			few := []stream{{200, 3}, {300, 2}}
			a, err := load(ctx, order{Addr: c.addr, Protocol: c.protocol, Seed: 1, Streams: few, Measure: 0.3})
			if err != nil {
				t.Fatal(err)
			}
			if n := a.Latency[0].N + a.Latency[1].N; n < 75 || n > 300 || a.Others.N != a.Latency[0].N {
				t.Errorf("%d messages of about 150 came: %+v", n, a)
			}
			for _, batch := range []int{1, 32} {
				a, err := load(ctx, order{Addr: c.addr, Protocol: c.protocol, Seed: 1, Streams: few, Measure: 0.2, Window: 200, Batch: batch})
				if err != nil || a.Throughput < 100 || a.Lost > 0 {
					t.Errorf("%d a write: %+v, %v", batch, a, err)
				}
			}
		})
	}
}

// Clients of every protocol connect, and stay.
func TestIdle(t *testing.T) {
	for _, protocol := range []string{mqtt, nats, nsq} {
		_, _, err := idleAt(t.Context(), 50, func(ctx context.Context) (contender, error) { return startOurs(ctx, bare, protocol, nil) })
		if err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}

// Publishers that send together are spread over nodes, which the subscriber hears.
func TestSpread(t *testing.T) {
	c, err := startOurs(t.Context(), bare, mqtt, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := load(t.Context(), order{Addr: c.addr, Protocol: mqtt5, Nodes: []string{c.addr, c.addr}, Together: 5, Follow: true, Seed: 1, Streams: []stream{{500, 20}}, Measure: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	if n := a.Latency[0].N; n == 0 || n%5 != 0 {
		t.Errorf("%d messages came, want groups of 5", n)
	}
}

// What nodes released is added up across restarts, and set against the bucket, as far as it is certain.
func TestReleased(t *testing.T) {
	var r released
	began := time.Unix(1000, 0)
	for i, n := range []uint64{0, 2000, 2040, 1000, 2000} { // the fourth: it was killed, and began anew
		at := began.Add(time.Duration(i) * 5 * time.Second)
		r.enter("n1", n, at, at)
	}
	if n := r.within(began, began.Add(20*time.Second)); n != 4040 {
		t.Errorf("%v messages in all, want 4,040", n)
	}
	if got := r.most(began); got != (2000-faultBurst)/(5*faultRate) {
		t.Errorf("%v of the rate, want %v", got, (2000-faultBurst)/(5*faultRate))
	}
	if got := r.most(began.Add(6 * time.Second)); got >= (2000-faultBurst)/(5*faultRate) {
		t.Errorf("%v of the rate since then, want less", got)
	}
	// A node that was stopped answers what it was asked long before, and has let through 1,000 messages at some instant of these.
	r.enter("n2", 0, began, began)
	r.enter("n2", 1000, began.Add(9*time.Second), began.Add(16*time.Second))
	if n := r.within(began.Add(10*time.Second), began.Add(20*time.Second)); n != 2000 {
		t.Errorf("%v messages in the second half, want 2,000", n)
	}
	if n := r.within(began, began.Add(20*time.Second)); n != 5040 {
		t.Errorf("%v messages in all, want 5,040", n)
	}
}
