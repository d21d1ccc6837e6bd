package brokers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/harness/servers"
)

// The program's roles.
const (
	brokerRole proc.Role[broker.Config] = "SPILLGATE_LAB_BROKER"
	natsRole   proc.Role[natsOrder]     = "SPILLGATE_LAB_NATS"
)

// natsOrder is what a nats-server does, which needs to be told nothing.
type natsOrder struct{}

// Child does a child's work and ends the process, if this process is one, and returns
// otherwise.
func Child() {
	brokerRole.Play("lab/brokers: broker", serve)
	natsRole.Play("lab/brokers: nats-server", serveNATS)
	generatorRole.Play("lab/brokers: generator", generate)
}

// serve is a broker as `spillgate broker` runs it, which can be cut off from other nodes.
func serve(cfg broker.Config) error {
	debug.SetMemoryLimit(1 << 30)
	debug.SetGCPercent(-1)
	b, err := broker.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := b.Listen(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	addresses, _ := b.Addresses()
	if cfg.Cluster.Cluster != "" {
		go partition(ctx, cfg.Cluster)
	}
	fmt.Fprintln(os.Stdout, "listening on", addresses[0])
	return b.Run(ctx)
}

// serveNATS is nats-server with its defaults, but for its log, and for its pings, which
// the generator does not answer.
func serveNATS(natsOrder) error {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, PingInterval: time.Hour, DisableShortFirstPing: true})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(5 * time.Second) {
		return errors.New("nats-server is not ready within 5 s")
	}
	fmt.Fprintln(os.Stdout, "listening on", s.Addr())
	s.WaitForShutdown()
	return nil
}

// contender is a broker that runs.
type contender struct {
	name, addr string
	protocol   string
	pid        int
}

// The contenders' names.
const (
	limited   = "spillgate, limits on"
	bare      = "spillgate, no limits"
	mosquitto = "mosquitto"
	loose     = "spillgate, limits that never bind"
	overNATS  = "spillgate, the same over NATS"
	peerNATS  = "nats-server"
)

// cpus are the processors of the brokers and of the generator.
func cpus() (brokers, generator []int) {
	all, err := proc.CPUs()
	if err != nil || len(all) < 2 {
		return nil, nil
	}
	return all[:1], all[1:2]
}

// place is where a contender runs: one processor, before other processes.
func place(name string) proc.Spec {
	where, _ := cpus()
	return proc.Spec{Name: name, CPUs: where, RealTime: true, Nice: -20}
}

// startOurs starts a broker of ours.
func startOurs(ctx context.Context, name, protocol string, limits []engine.Limit) (contender, error) {
	child, err := brokerRole.Start(ctx, broker.Config{Listen: []string{protocol + "://127.0.0.1:0"}, Limits: limits}, place(name))
	if err != nil {
		return contender{}, err
	}
	return contender{name, child.Addr(), protocol, child.Pid()}, nil
}

// startNATS starts the peer that speaks NATS.
func startNATS(ctx context.Context) (contender, error) {
	child, err := natsRole.Start(ctx, natsOrder{}, place(peerNATS))
	if err != nil {
		return contender{}, err
	}
	return contender{peerNATS, child.Addr(), nats, child.Pid()}, nil
}

// startMosquitto starts the peer that speaks MQTT.
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
	return contender{mosquitto, fmt.Sprintf("%s:%d", s.Host, s.Port), mqtt, s.Pid()}, nil
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
