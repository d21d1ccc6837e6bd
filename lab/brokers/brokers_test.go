package brokers

import (
	"context"
	"errors"
	"os"
	"testing"

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
