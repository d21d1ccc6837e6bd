package brokers

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// brokerRole makes the program a broker.
const brokerRole proc.Role[[]engine.Limit] = "SPILLGATE_LAB_BROKER"

// Child does a child's work and ends the process, if this process is one, and returns
// otherwise.
func Child() {
	brokerRole.Play("lab/brokers: broker", serve)
	generatorRole.Play("lab/brokers: generator", generate)
}

// serve is a broker as `spillgate broker` runs it.
func serve(limits []engine.Limit) error {
	debug.SetMemoryLimit(1 << 30)
	debug.SetGCPercent(-1)
	b, err := broker.New(broker.Config{Listen: []string{"127.0.0.1:0"}, Limits: limits}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := b.Listen(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	addresses, _ := b.Addresses()
	fmt.Fprintln(os.Stdout, "listening on", addresses[0])
	return b.Run(ctx)
}

// contender is a broker that runs.
type contender struct {
	name, addr string
}

// The contenders' names.
const (
	limited   = "spillgate, limits on"
	bare      = "spillgate, no limits"
	mosquitto = "mosquitto"
)

// cpus are the processors of the brokers and of the generator.
func cpus() (brokers, generator []int) {
	all, err := proc.CPUs()
	if err != nil || len(all) < 2 {
		return nil, nil
	}
	return all[:1], all[1:2]
}

// startOurs starts a broker of ours.
func startOurs(ctx context.Context, name string, limits []engine.Limit) (contender, error) {
	where, _ := cpus()
	child, err := brokerRole.Start(ctx, limits, proc.Spec{Name: name, CPUs: where, RealTime: true, Nice: -20})
	if err != nil {
		return contender{}, err
	}
	return contender{name, child.Addr()}, nil
}

// startMosquitto starts the peer.
func startMosquitto(ctx context.Context) (contender, error) {
	s, err := servers.Mosquitto(ctx)
	if err != nil {
		return contender{}, err
	}
	if where, _ := cpus(); where != nil {
		if err := proc.Shape(s.Pid(), where); err != nil {
			return contender{}, err
		}
	}
	return contender{mosquitto, fmt.Sprintf("%s:%d", s.Host, s.Port)}, nil
}

// load has a generator do o.
func load(ctx context.Context, o order) (a answer, err error) {
	_, where := cpus()
	var out bytes.Buffer
	child, err := generatorRole.Start(ctx, o, proc.Spec{Name: "generator", CPUs: where, RealTime: true, First: true, Nice: -20, ReadyTimeout: -1, Output: &out})
	if err != nil {
		return a, err
	}
	if err := child.Wait(); err != nil {
		return a, err
	}
	return a, proc.ReadAnswer(out.String(), &a)
}
