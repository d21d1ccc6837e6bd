package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// drain is the way out, as Drain says.
func (p *Proxy) drain(servers []*http.Server) {
	d := p.state.Load().cfg.Drain
	p.phase.Store(noticing)
	p.log.Info("leaving", "notice", d.Notice, "timeout", d.Timeout, "inside", p.active.Load())
	if d.Notice > 0 {
		select {
		case <-time.After(d.Notice):
		case <-p.hurry:
		}
	}
	p.mu.Lock()
	p.phase.Store(draining)
	for _, u := range p.state.Load().upstreams {
		u.gate.Drain()
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), d.Timeout)
	defer cancel()
	var hurry, answers sync.WaitGroup
	hurry.Go(func() {
		select {
		case <-p.hurry:
			cancel()
		case <-ctx.Done():
		}
	})
	for _, s := range servers {
		answers.Go(func() { _ = s.Shutdown(ctx) })
	}
	// Shutdown does not wait for upgraded connections.
	for tick := 5 * time.Millisecond; p.active.Load() > 0 && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(tick):
		}
	}
	if n := p.active.Load(); n > 0 {
		p.cutting.Store(true)
		why := fmt.Sprintf("they took longer than %v", d.Timeout)
		select {
		case <-p.hurry:
			why = "the proxy was told again to stop"
		default:
		}
		p.log.Warn("requests are cut off", "requests", n, "because", why, "upstreams", p.insides())
	}
	// A request counts until its handler returns. Its answer may still be in the server's
	// buffers then, and is lost if the connection is closed before Shutdown closes it.
	answers.Wait()
	cancel()
	hurry.Wait()
}

// insides says how many requests are at which upstream, for the log.
func (p *Proxy) insides() string {
	var all []string
	for _, u := range p.state.Load().upstreams {
		if n := u.inside.Load() + int64(u.gate.Stats().Waiting); n > 0 {
			all = append(all, fmt.Sprintf("%s: %d", u.name, n))
		}
	}
	return strings.Join(all, ", ")
}

// Hurry ends a drain that is under way, or that begins later, at once: requests that are
// inside are cut off, and the log says how many, and where. Further calls do nothing.
func (p *Proxy) Hurry() { p.hurried.Do(func() { close(p.hurry) }) }
