package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spillgate/spillgate/internal/harness/freeport"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/proxy"
)

// Program says how to start a process that plays a replica in place of this program:
// somebody else's server. It serves GET /METHOD at the role's address, waits for as long as the
// method's steps say, k requests at a time for k workers, makes the calls of the method
// at Role.Calls, passes on the fields Traceparent, with a span of its own, Tracestate,
// Baggage and Spillgate, answers with as many bytes as the method's answer has, and names
// itself as the service in User-Agent. Its error says which steps it cannot play.
type Program func(ctx context.Context, r *Role) (proc.Spec, error)

// Role is a replica that a Program plays, or that it stands in front of.
type Role struct {
	Service *world.Service
	Replica int
	Seed    uint64
	// Listen is the host:port to listen on, Calls those of the services that are called,
	// Upstream that of the replica, for what stands in front of it.
	Listen   string
	Calls    map[string]string
	Upstream string
	// Dir is a directory of the replica's own, Shared one of all replicas of the run.
	// Both are gone when the run is over.
	Dir, Shared string
}

// openBehind starts all replicas and the peer's proxies, by which they call each other.
//
//	clients ──▶ proxy a ──▶ a ──▶ exit of proxy a ──▶ proxy b ──▶ b
func (b *bed) openBehind(ctx context.Context) (map[string][]string, error) {
	peers := map[string][]string{}
	var replicas []*order
	var free ports
	defer free.close()
	for i := range b.plan.Services {
		s := &b.plan.Services[i]
		for r := range s.Replicas {
			o := b.order
			o.Service, o.Replica, o.Listen = s.Name, r+1, free.next()
			if b.policy.peer.Program != nil {
				o.Upstream = free.next()
			}
			peers[s.Name] = append(peers[s.Name], o.Listen)
			replicas = append(replicas, &o)
		}
	}
	for _, o := range replicas {
		b.exits(o, peers, &free)
	}
	if err := free.close(); err != nil {
		return nil, err
	}
	for _, o := range replicas {
		if err := b.startBehind(ctx, o); err != nil {
			return nil, err
		}
	}
	for _, o := range replicas {
		if b.policy.peer.Program != nil {
			if err := b.awaitServing(ctx, o.Upstream); err != nil {
				return nil, err
			}
		}
		front := &seat{order: *o, cpus: b.place.services[o.Service]}
		if err := b.start(ctx, front, len(front.cpus)); err != nil {
			return nil, err
		}
	}
	return peers, nil
}

// exits chooses the addresses by which a replica calls: those of its proxy where that
// learns classes, else those of the proxies that are called.
func (b *bed) exits(o *order, peers map[string][]string, free *ports) {
	s := b.plan.services[o.Service]
	learns := b.policy.peer.Proxy(b.plan.World, s).Share.Order != proxy.NoClasses
	o.Exits, o.Egress = map[string]string{}, map[string]string{}
	for _, m := range s.Methods {
		for _, step := range m.Steps {
			for _, to := range step.Call {
				next := peers[to.Service][(o.Replica-1)%len(peers[to.Service])]
				switch {
				case o.Exits[to.Service] != "":
				case learns:
					o.Exits[to.Service] = free.next()
					o.Egress[o.Exits[to.Service]] = next
				default:
					o.Exits[to.Service] = next
				}
			}
		}
	}
}

// startBehind starts what the proxy of an order stands in front of, and says in it where
// that is.
func (b *bed) startBehind(ctx context.Context, o *order) error {
	s := b.plan.services[o.Service]
	behind := &seat{order: *o, cpus: b.place.services[s.Name]}
	behind.order.Listen, behind.order.Upstream, behind.order.Egress = "", "", nil
	if b.policy.peer.Program == nil {
		if err := b.start(ctx, behind, threads(s, len(behind.cpus))); err != nil {
			return err
		}
		o.Upstream = behind.child.Addr()
		return nil
	}
	if len(b.plan.Faults) > 0 {
		return errors.New("bed: faults, expected none: a program of somebody else's does not have them")
	}
	return b.foreign(ctx, b.policy.peer.Program, behind, Role{Listen: o.Upstream, Calls: o.Exits})
}

// foreign starts a third-party program in a seat, for a role whose addresses are
// said.
func (b *bed) foreign(ctx context.Context, program Program, s *seat, r Role) error {
	number := s.order.number(b.plan)
	r.Service, r.Replica, r.Seed = b.plan.services[s.order.Service], s.order.Replica, mix(s.order.Seed^mix(uint64(number)))
	r.Shared, r.Dir = filepath.Join(s.order.Dir, "shared"), filepath.Join(s.order.Dir, strconv.Itoa(number))
	for _, dir := range []string{r.Shared, r.Dir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	spec, err := program(ctx, &r)
	if err != nil {
		return err
	}
	spec.Name, spec.Output, spec.ReadyTimeout = fmt.Sprintf("%s %d", r.Service.Name, r.Replica), &s.output, -1
	if s.child, err = proc.Start(ctx, spec); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, s)
	return nil
}

// foreignFront starts the peer's proxy in front of the replica at o.Upstream, with the
// processors and the priority of ours, and returns where it listens.
func (b *bed) foreignFront(ctx context.Context, o *order) (addr string, err error) {
	var free ports
	o.Listen = free.next()
	if err := free.close(); err != nil {
		return "", err
	}
	front := &seat{order: *o, cpus: b.place.services[o.Service]}
	shaped := func(ctx context.Context, r *Role) (proc.Spec, error) {
		spec, err := b.policy.peer.Front(ctx, r)
		spec.CPUs, spec.RealTime, spec.Nice = front.cpus, b.realTime(), -20
		return spec, err
	}
	if err := b.foreign(ctx, shaped, front, Role{Listen: o.Listen, Upstream: o.Upstream}); err != nil {
		return "", err
	}
	// A request would be the first that its control learns from.
	return o.Listen, b.await(ctx, o.Listen, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Listen)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// startTime is how long a third-party server may take until it answers: a virtual
// machine on a busy processor takes some seconds.
const startTime = 60 * time.Second

// awaitServing waits until something answers HTTP there.
func (b *bed) awaitServing(ctx context.Context, addr string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return b.await(ctx, addr, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+addr+"/", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	})
}

// await waits until try succeeds at an address, or says what the processes wrote.
func (b *bed) await(ctx context.Context, addr string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		for _, s := range b.seen {
			select {
			case <-s.child.Exited():
				return fmt.Errorf("bed: a process ended before it served: %w", s.child.Wait())
			default:
			}
		}
		if sleep(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("bed: nobody answers at %s: %w; the processes wrote:\n%s", addr, err, b.wrote())
		}
	}
}

// wrote is the end of what all processes wrote.
func (b *bed) wrote() string {
	var all bytes.Buffer
	for _, s := range b.seen {
		all.WriteString(s.child.Output())
	}
	return all.String()
}

// ports are free addresses on loopback, for programs that must know one before
// somebody listens there. They are kept, so that they differ, until all are known.
type ports struct {
	kept []net.Listener
	err  error
}

func (p *ports) next() string {
	l, err := freeport.Listen()
	if err != nil {
		p.err = fmt.Errorf("bed: a free port: %w", err)
		return ""
	}
	p.kept = append(p.kept, l)
	return l.Addr().String()
}

// close lets them go, and says whether there were enough.
func (p *ports) close() error {
	for _, l := range p.kept {
		_ = l.Close()
	}
	p.kept = nil
	return p.err
}
