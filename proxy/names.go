package proxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

const (
	// maxAddresses is the most addresses of one name that become upstreams, the first in
	// their order.
	maxAddresses = 32
	// namesPoll is how often it is looked whether a name is to be looked up.
	namesPoll = 200 * time.Millisecond
	// lookupTimeout is how long a lookup may take, and how long the first ones may hold up the start.
	lookupTimeout = 2 * time.Second
)

// names are those of upstreams with Resolve and what they stand for. lookup may be replaced by
// tests before the proxy runs.
type names struct {
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	// With the lock of the proxy.
	known  map[string][]netip.Addr
	due    map[string]time.Time
	failed map[string]failedLookup // the failures that the log was told last
}

type failedLookup struct {
	way lookupFailure
	at  time.Time
}

// lookupFailure is in which way a lookup failed. The text of a net.DNSError says more, such as which
// name server was asked from which port, and differs each time.
type lookupFailure struct {
	missing, late bool
	text          string // of another error
}

func lookupFailureOf(err error) lookupFailure {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return lookupFailure{missing: dns.IsNotFound, late: dns.IsTimeout}
	}
	return lookupFailure{text: err.Error()}
}

// lookupNotice is the least time between two log lines about one name that fails in one way.
const lookupNotice = time.Minute

func newResolver() names {
	return names{
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		known: map[string][]netip.Addr{}, due: map[string]time.Time{}, failed: map[string]failedLookup{},
	}
}

// expand returns the upstreams that u stands for: one for each address of its name, or u
// itself while none is known. The lock of the proxy is held.
func (n *names) expand(u Upstream) []Upstream {
	if u.Resolve == 0 {
		return []Upstream{u}
	}
	target, _ := u.target()
	known := n.known[target.Hostname()]
	if len(known) == 0 {
		return []Upstream{u}
	}
	var all []Upstream
	for _, a := range known {
		one := u
		one.at = net.JoinHostPort(a.String(), portOf(target))
		all = append(all, one)
	}
	return all
}

// asked returns the names that are to be looked up again now, and makes them due again
// later. The lock of the proxy is held.
func (n *names) asked(cfg *Config, now time.Time) (hosts []string) {
	every := map[string]time.Duration{}
	look := func(all []Upstream) {
		for i := range all {
			u := &all[i]
			if u.Resolve == 0 {
				continue
			}
			target, _ := u.target()
			host := target.Hostname()
			if d, ok := every[host]; !ok || u.Resolve < d {
				every[host] = u.Resolve
			}
		}
	}
	look(cfg.Upstreams)
	for i := range cfg.Groups {
		look(cfg.Groups[i].Upstreams)
	}
	for _, host := range slices.Sorted(maps.Keys(every)) {
		if !now.Before(n.due[host]) {
			n.due[host] = now.Add(every[host])
			hosts = append(hosts, host)
		}
	}
	for host := range n.due {
		if _, ok := every[host]; !ok {
			delete(n.due, host)
			delete(n.known, host)
			delete(n.failed, host)
		}
	}
	return hosts
}

// resolve looks up the names whose time has come, and makes upstreams of what changed.
func (p *Proxy) resolve(ctx context.Context) {
	p.mu.Lock()
	cfg := p.state.Load().cfg
	hosts := p.names.asked(&cfg, time.Now())
	p.mu.Unlock()
	if len(hosts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // of found
	found := map[string][]netip.Addr{}
	for _, host := range hosts {
		wg.Go(func() { // a name server that does not answer for one holds up no other
			if addrs := p.lookUp(ctx, host); addrs != nil {
				mu.Lock()
				found[host] = addrs
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	p.addressed(found)
}

// lookUp returns the addresses of a name in their order, nil if they are not known, which it
// says in the log.
func (p *Proxy) lookUp(ctx context.Context, host string) []netip.Addr {
	addrs, err := p.names.lookup(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("the name has no address")
	}
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			p.lookups.Add(context.Background(), 1, metric.WithAttributes(attribute.String("name", host)))
			p.lookupFailed(host, err)
		}
		return nil
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	if len(addrs) > maxAddresses {
		p.log.Warn("name of an upstream has more addresses than are used", "name", host, "addresses", len(addrs), "used", maxAddresses)
		addrs = addrs[:maxAddresses]
	}
	return addrs
}

// lookupFailed says in the log, at first and then each lookupNotice, that a name has no addresses.
func (p *Proxy) lookupFailed(host string, err error) {
	p.mu.Lock()
	said, known, now, way := p.names.failed[host], len(p.names.known[host]), time.Now(), lookupFailureOf(err)
	tell := said.way != way || now.Sub(said.at) >= lookupNotice
	if tell {
		p.names.failed[host] = failedLookup{way, now}
	}
	p.mu.Unlock()
	switch {
	case !tell:
	case known == 0:
		p.log.Warn("lookup of an upstream's name failed, and no address of it is known: requests to it fail", "name", host, "error", err)
	default:
		p.log.Warn("lookup of an upstream's name failed; the upstream keeps its addresses", "name", host, "addresses", known, "error", err)
	}
}

// addressed takes the addresses of names.
func (p *Proxy) addressed(found map[string][]netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := false
	for host, addrs := range found {
		delete(p.names.failed, host)
		if have := p.names.known[host]; !slices.Equal(have, addrs) {
			p.names.known[host] = addrs
			changed = true
			p.log.Info("addresses of an upstream", "name", host, "addresses", addrs, "before", have)
		}
	}
	if !changed || p.phase.Load() >= draining {
		return
	}
	if err := p.applyLocked(p.state.Load().cfg); err != nil {
		p.log.Error("addresses of upstreams are not taken", "error", err)
	}
}

// watchNames looks names up until ctx ends.
func (p *Proxy) watchNames(ctx context.Context) {
	tick := time.NewTicker(namesPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.resolve(ctx)
		}
	}
}
