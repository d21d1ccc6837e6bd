package bed

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/world"
)

// member is one connection of a client: one to each service that the group asks.
type member struct {
	client  int
	callers map[string]caller
}

// connectTime is how long connecting may take.
const connectTime = 10 * time.Second

// together is how many connections are made at once: as many as a listener surely keeps
// waiting.
const together = 100

// join connects n more members and waits until they are.
func (g *group) join(ctx context.Context, n int) error {
	for ; n > 0; n -= together {
		if err := g.joinTogether(ctx, min(n, together)); err != nil {
			return err
		}
	}
	return nil
}

// joinTogether connects a few members. If one of them fails none joins.
func (g *group) joinTogether(ctx context.Context, n int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	g.mu.Lock()
	there := len(g.conns)
	g.mu.Unlock()
	var fresh []*member
	defer func() {
		if err != nil {
			for _, m := range fresh {
				m.close()
			}
		}
	}()
	for i := range n {
		m, err := g.member(there + i)
		if err != nil {
			return err
		}
		fresh = append(fresh, m)
	}
	for _, m := range fresh {
		for _, c := range m.callers {
			if err := c.connect(ctx); err != nil {
				return err
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = append(g.conns, fresh...)
	return nil
}

func (m *member) close() {
	for _, c := range m.callers {
		c.close()
	}
}

// member makes the i-th connection. Those of a client follow one another in time by as
// many as there are clients.
func (g *group) member(i int) (*member, error) {
	m := &member{client: i % g.Clients, callers: map[string]caller{}}
	c := connection{plan: g.plan, policy: g.policy, who: g.Name, seed: g.seed, number: i, from: g.address(m.client),
		obeys: g.Kind == world.Credits, entry: true}
	if g.thin() {
		c.thin = &g.buffers
	}
	named := g.policy.peer != nil && g.policy.peer.Gate != nil
	if g.policy.credits() {
		c.wallet, c.greedy = g.Kind == world.Credits, g.Kind == world.Greedy
	}
	if c.wallet || named || g.plan.weighed() || g.Workflow != g.Name || g.Class != 0 || g.Priority != 0 {
		c.tags = wire.Tags{Workflow: workflow(g.Group), Class: g.Class, Priority: g.Priority}
	}
	if g.native() {
		c.retry = &g.Retry
	}
	for _, ask := range g.Ask {
		if m.callers[ask.Service] != nil {
			continue
		}
		call, err := newCaller(ask.Service, g.peers[ask.Service], c)
		if err != nil {
			m.close()
			return nil, err
		}
		m.callers[ask.Service] = call
	}
	return m, nil
}

// native reports whether gRPC retries by itself. It makes five attempts at most.
func (g *group) native() bool {
	return g.Retry.Stubborn && g.Retry.Attempts > 1 && g.Retry.Attempts <= 5 && g.policy.over == overGRPC
}

// address is where a client calls from: loopback has an address for each, where the
// system answers to all of them.
func (g *group) address(client int) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	if g.SharedAddress {
		client = 0
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+g.number%250, client/250%250, 1+client%250)
}

// ramp connects the members over time.
func (g *group) ramp(ctx context.Context) {
	for i := range g.members {
		sleep(ctx, time.Until(g.begin.Add(g.Arrive*time.Duration(i)/time.Duration(g.members))))
		if ctx.Err() != nil {
			return
		}
		_ = g.join(ctx, 1) // who does not get in sends nothing
	}
}

func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.conns {
		m.close()
	}
}
