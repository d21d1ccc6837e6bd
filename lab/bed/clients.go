package bed

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/world"
)

// group is all clients of one group of a world.
type group struct {
	*world.Group
	plan    *plan
	policy  policy
	seed    uint64
	peers   map[string][]string
	number  int
	begin   time.Time
	tally   *tally
	weights float64
	buffers sync.Pool // of thin callers

	mu      sync.Mutex
	conns   []*member // connections in the order of their arrival
	earned  float64   // retries that successes allow
	members int
}

// workflow is the name that the requests of a group go by, "" if it cannot travel.
func workflow(g *world.Group) string {
	if !wire.ValidWorkflow(g.Workflow) {
		return ""
	}
	return g.Workflow
}

// beClients is all groups, from the beginning that it announces to the end.
func (o *order) beClients(ctx context.Context, p *plan, pol policy) error {
	var peers map[string][]string
	if err := await(ctx, o.Dir, peersFile, &peers); err != nil {
		return err
	}
	var groups []*group
	defer func() {
		for _, g := range groups {
			g.close()
		}
	}()
	for i := range p.Clients {
		g := &group{Group: &p.Clients[i], plan: p, policy: pol, seed: mix(o.Seed ^ mix(uint64(i))), peers: peers, number: i, buffers: sync.Pool{New: newThinBuffers}}
		g.tally, g.members = newTally(p, g.Group), g.Clients*g.Connections
		for _, ask := range g.Ask {
			g.weights += ask.Weight
		}
		groups = append(groups, g)
		if g.Arrive == 0 {
			if err := g.join(ctx, g.members); err != nil {
				return err
			}
		}
	}
	runtime.GC() // what connecting left; none is due during the run
	begin := time.Now().Add(startDelay)
	if err := publish(o.Dir, beginFile, begin); err != nil {
		return err
	}
	ends := make([]error, len(groups))
	results := make([]tallied, len(groups))
	var all sync.WaitGroup
	for i, g := range groups {
		g.begin = begin
		all.Go(func() { results[i], ends[i] = g.run(ctx) })
	}
	all.Wait()
	if err := errors.Join(ends...); err != nil {
		return err
	}
	if err := o.letRest(ctx, p, pol); err != nil {
		return err
	}
	return proc.Answer(results)
}

// startDelay is the time between the announcement of the beginning and the beginning.
const startDelay = 200 * time.Millisecond

// run is the group's part of a run.
func (g *group) run(ctx context.Context) (tallied, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var ramp sync.WaitGroup
	defer ramp.Wait()
	if g.Arrive > 0 {
		ramp.Go(func() { g.ramp(ctx) })
	}
	arrivals, err := g.plan.arrivals(g.number, g.seed)
	if err != nil {
		return tallied{}, err
	}
	if arrivals == nil {
		g.closed(ctx)
		stop()
		return g.tally.result(), nil
	}
	sleep(ctx, time.Until(g.begin)-openLead)
	generator, err := openloop.New(openloop.Config{Arrivals: arrivals, SLO: g.plan.Objective, Window: bin, Send: g.send, Drain: g.patience(), Start: g.begin})
	if err != nil {
		return tallied{}, err
	}
	result, err := generator.Run(ctx)
	stop()
	if err != nil {
		return tallied{}, err
	}
	for _, w := range result.Windows {
		if w.NotSent > 0 {
			g.tally.skip(w.From, int(w.NotSent))
		}
	}
	out := g.tally.result()
	out.Lag = result.SendLag.P99
	return out, nil
}

// openLead is the time between the start of the generator and its first instant.
const openLead = 5 * time.Millisecond

// patience is how long after the last arrival answers are waited for.
func (g *group) patience() time.Duration {
	return max(min(g.Deadline, 5*g.plan.Objective)+100*time.Millisecond, time.Second)
}

// breath is the least time from a request that was not answered to the next one of the
// same user, as in the simulator: a refusal in no time would have users do nothing else.
const breath = time.Millisecond

// closed has each user send, wait and think until the end.
func (g *group) closed(ctx context.Context) {
	end := g.begin.Add(g.plan.Length)
	ctx, cancel := context.WithDeadline(ctx, end.Add(g.patience()))
	defer cancel()
	var users sync.WaitGroup
	var next atomic.Int64
	for user := range g.Load.Users {
		users.Go(func() {
			chance := rand.New(rand.NewPCG(g.seed, uint64(user)))
			sleep(ctx, time.Until(g.begin))
			for {
				if g.Load.Think > 0 {
					sleep(ctx, time.Duration(chance.ExpFloat64()*float64(g.Load.Think)))
				}
				now := time.Now()
				if now.After(end) || ctx.Err() != nil {
					return
				}
				i := int(next.Add(1))
				turn := user
				if g.members > g.Load.Users {
					turn = i // all connections are used
				}
				if e := g.request(ctx, turn, i, now); e.kind != served {
					sleep(ctx, breath-time.Since(now))
				}
			}
		})
	}
	users.Wait()
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
