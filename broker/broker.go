package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/mqtt"
	"github.com/spillgate/spillgate/broker/nats"
	"github.com/spillgate/spillgate/broker/nsq"
	"github.com/spillgate/spillgate/broker/share"
	"github.com/spillgate/spillgate/internal/reread"
	"github.com/spillgate/spillgate/telemetry"
)

// The phases of a broker.
const (
	starting = int32(iota)
	serving
	leaving
	draining
)

var phaseNames = [...]string{"starting", "serving", "leaving", "draining"}

// Broker is a broker. Its methods may be called from any goroutine.
type Broker struct {
	log     *slog.Logger
	hub     *engine.Hub
	mqtt    *mqtt.Server
	edges   map[string]edge // by protocol
	lookup  *nsq.Lookup
	users   *access.Book
	secure  *tls.Config      // nil without TLS
	plane   *backplane.Plane // nil without
	node    *share.Node      // nil without
	metrics *telemetry.Telemetry
	started time.Time
	phase   atomic.Int32
	window  time.Duration // of the shares of buckets; 0 is the default

	mu        sync.Mutex
	cfg       Config // as it runs
	listeners []served
	tcp       []*net.TCPListener // what is below them
	admin     net.Listener

	certificates, passwords *reread.File // nil without
}

// New returns a broker that listens nowhere yet, or every mistake in cfg.
func New(cfg Config, log *slog.Logger) (*Broker, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	cfg = cfg.WithDefaults()
	b := &Broker{cfg: cfg, log: log, started: time.Now()}
	err := b.lock(cfg)
	if err != nil {
		return nil, err
	}
	if b.metrics, err = telemetry.New(); err != nil {
		return nil, err
	}
	of := engine.Config{Limits: cfg.Limits, Topics: cfg.Topics, Subscriptions: cfg.Subscriptions, Retained: cfg.RetainedBytes}
	if cfg.Cluster.On() {
		b.plane = backplane.New(cfg.Cluster, log)
		b.plane.Bound(cfg.RetainedBytes)
		of.Forward, of.Log, of.Divert, of.Watch = b.plane, b.plane, b.plane, b.plane
		of.Shared = !b.plane.Alone()
	}
	b.hub = engine.New(of)
	b.mqtt = mqtt.NewServer(b.hub, cfg.Clients, log)
	b.mqtt.Guard(b.users)
	queues := nsq.NewServer(b.hub, b.users, cfg.NSQ, log)
	b.edges = map[string]edge{"mqtt": mqttEdge{b.mqtt}, "nats": nats.NewServer(b.hub, b.users, cfg.NATS, log), "nsq": queues}
	b.lookup = nsq.NewLookup(b.nsqAddress, slog.NewLogLogger(log.Handler(), slog.LevelDebug))
	if err := b.setUsers(cfg.Access); err != nil {
		b.hub.Close()
		return nil, err
	}
	if b.plane != nil {
		b.mqtt.Join(b.plane)
		queues.Join(b.plane)
	}
	if err := b.watch(b.metrics.Meter()); err != nil {
		b.hub.Close()
		return nil, err
	}
	return b, nil
}

func check(cfg Config) error {
	var errs []error
	for _, m := range append(cfg.Check(), cfg.CheckFiles()...) {
		errs = append(errs, m)
	}
	return errors.Join(errs...)
}

// Listen opens the listeners, if they are not open yet, so that Addresses are
// known before Run.
func (b *Broker) Listen() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners != nil {
		return nil
	}
	var errs []error
	for _, address := range b.cfg.Listen {
		l, err := b.listen(address)
		if err != nil {
			errs = append(errs, fmt.Errorf("broker: %w", err))
			continue
		}
		b.listeners = append(b.listeners, l)
		b.tcp = append(b.tcp, l.tcp)
	}
	if b.cfg.Admin != "" {
		l, err := net.Listen("tcp", b.cfg.Admin)
		if err != nil {
			errs = append(errs, fmt.Errorf("broker: the admin address: %w", err))
		} else {
			b.admin = l
		}
	}
	err := errors.Join(errs...)
	if err != nil {
		b.closeListeners()
	}
	return err
}

// closeListeners closes what is open. The lock is held.
func (b *Broker) closeListeners() {
	for _, l := range b.listeners {
		l.Close()
	}
	if b.admin != nil {
		b.admin.Close()
	}
}

// Addresses returns where the broker serves, in the order of Config.Listen, and its
// admin address, empty without one, after Listen.
func (b *Broker) Addresses() (clients []string, admin string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.listeners {
		clients = append(clients, l.Addr().String())
	}
	if b.admin != nil {
		admin = b.admin.Addr().String()
	}
	return clients, admin
}

// Run serves until ctx ends, then drains: health checks fail for the time of
// Drain.Notice, no connection is accepted any more, what waits for its rate goes
// within Drain.Timeout, and clients are disconnected. It returns nil after a drain,
// and the error of a listener that failed otherwise. A broker runs once.
func (b *Broker) Run(ctx context.Context) error {
	defer b.hub.Close()
	defer func() { _ = b.metrics.Shutdown(context.Background()) }()
	if b.plane != nil {
		defer b.plane.Close()
	}
	if err := b.Listen(); err != nil {
		return err
	}
	leave, err := b.join(ctx)
	if err != nil {
		return err
	}
	defer leave()
	b.mu.Lock()
	listeners, adminListener, cfg := b.listeners, b.admin, b.cfg
	b.mu.Unlock()
	var running sync.WaitGroup
	failed := make(chan error, len(listeners)+1)
	for _, l := range listeners {
		running.Go(func() {
			if err := b.serve(l); !errors.Is(err, net.ErrClosed) {
				failed <- err
			}
		})
	}
	admin := telemetry.AdminServer(b.Admin(), slog.NewLogLogger(b.log.Handler(), slog.LevelDebug))
	if adminListener != nil {
		running.Go(func() {
			if err := admin.Serve(telemetry.AdminListener(adminListener)); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		})
	}
	watchCtx, unwatch := context.WithCancel(context.Background())
	running.Go(func() { reread.Watch(watchCtx, b.look) })
	b.phase.CompareAndSwap(starting, serving)
	addresses, at := b.Addresses()
	b.log.Info("serving", "clients", addresses, "admin", at, "limits", len(cfg.Limits))
	select {
	case <-ctx.Done():
		b.phase.Store(leaving)
		b.log.Info("leaving", "notice", cfg.Drain.Notice, "timeout", cfg.Drain.Timeout)
		b.edges["nats"].(*nats.Server).Leaving()
		time.Sleep(cfg.Drain.Notice)
		b.handOver()
	case err = <-failed:
		b.log.Error("a listener failed", "error", err)
	}
	b.lookup.Close() // before the listener that it tells
	b.drain(listeners, cfg.Drain.Timeout)
	unwatch()
	admin.Close()
	running.Wait()
	b.log.Info("stopped")
	return err
}

// join has the node take part in its cluster, if there is one, until leave is called.
// After an error nothing listens.
func (b *Broker) join(ctx context.Context) (leave func(), err error) {
	if b.plane == nil {
		return func() {}, nil
	}
	defer b.turnAway()()
	var streams *nats.Streams
	if err = b.plane.Open(ctx, b.hub); err == nil {
		streams, err = b.openStreams()
	}
	if err == nil {
		var end func()
		end, err = b.takePart(ctx)
		leave = func() { end(); streams.Close() }
	}
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.closeListeners()
		if streams != nil {
			streams.Close()
		}
	}
	return leave, err
}

// openStreams lets clients of NATS use JetStream.
func (b *Broker) openStreams() (*nats.Streams, error) {
	nc, err := b.plane.Dial()
	if err != nil {
		return nil, err
	}
	origin, count := b.plane.Number()
	s, err := nats.OpenStreams(nc, b.hub, fmt.Sprintf("%x-%x", origin, count), b.log)
	if err != nil {
		nc.Close()
		return nil, err
	}
	b.edges["nats"].(*nats.Server).Keep(s)
	return s, nil
}

// turnAway turns clients away until end is called: they go to another node instead of waiting here.
func (b *Broker) turnAway() (end func()) {
	var turning sync.WaitGroup
	b.mu.Lock()
	tcp := b.tcp
	b.mu.Unlock()
	for _, l := range tcp {
		turning.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Close()
			}
		})
	}
	return func() {
		for _, l := range tcp {
			_ = l.SetDeadline(time.Now())
		}
		turning.Wait()
		for _, l := range tcp {
			_ = l.SetDeadline(time.Time{})
		}
	}
}

// shutdownTime is how long clients may take to be told that the broker goes.
const shutdownTime = 5 * time.Second

// drain releases waiting messages, for timeout at most, and disconnects every client.
func (b *Broker) drain(listeners []served, timeout time.Duration) {
	b.phase.Store(draining)
	for _, l := range listeners {
		l.Close()
	}
	for end := time.Now().Add(timeout); b.backlog() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if n := b.backlog(); n > 0 {
		b.log.Warn("messages that waited for their rate are lost", "messages", n, "after", timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	var leaving sync.WaitGroup
	for protocol, e := range b.edges {
		leaving.Go(func() {
			if err := e.Shutdown(ctx); err != nil {
				b.log.Warn("clients are cut off", "protocol", protocol, "error", err)
			}
		})
	}
	leaving.Wait()
}

// backlog returns how many messages wait for their rate.
func (b *Broker) backlog() (n int) {
	for _, s := range b.hub.Stats() {
		n += s.Backlog
	}
	return n
}

// Reload takes users and the limits of topics, reads certificates and passwords
// again if they changed, and returns the names of the other keys that
// differ, which need a restart; or every mistake in next, and takes nothing.
func (b *Broker) Reload(next Config) (ignored []string, err error) {
	if err := check(next); err != nil {
		return nil, err
	}
	next = next.WithDefaults()
	b.look()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !reflect.DeepEqual(b.cfg.Access, next.Access) {
		if err := b.setUsers(next.Access); err != nil {
			return nil, err
		}
	}
	if !slices.Equal(b.cfg.Limits, next.Limits) {
		b.hub.SetLimits(next.Limits)
		b.cfg.Limits = next.Limits
	}
	for _, f := range [...]struct {
		name     string
		old, new any
	}{{"listen", b.cfg.Listen, next.Listen}, {"admin", b.cfg.Admin, next.Admin}, {"cluster", b.cfg.Cluster, next.Cluster}, {"place", b.cfg.Place, next.Place}, {"tls", b.cfg.TLS, next.TLS}, {"nats", b.cfg.NATS, next.NATS}, {"nsq", b.cfg.NSQ, next.NSQ}, {"clients", b.cfg.Clients, next.Clients}, {"topics", b.cfg.Topics, next.Topics},
		{"subscriptions", b.cfg.Subscriptions, next.Subscriptions}, {"retained_bytes", b.cfg.RetainedBytes, next.RetainedBytes}, {"memory", b.cfg.Memory, next.Memory},
		{"drain", b.cfg.Drain, next.Drain}} {
		if !reflect.DeepEqual(f.old, f.new) {
			ignored = append(ignored, f.name)
		}
	}
	return ignored, nil
}
