package bed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/internal/harness/service"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/world"
)

// process is one replica of a service, without what it listens to.
type process struct {
	plan      *plan
	service   *world.Service
	gate      *live.Gate // nil: none
	semaphore *semaphore // nil: none
	peer      *Peer      // nil: none
	compared  *leveled   // nil: none; else gate is around it
	workers   turns      // nil: any number, or those of the crew
	crew      *crew      // nil: the service is not Async
	locks     map[string]turns
	wait      *service.Station
	compute   *service.Station
	callers   map[string]caller // by service

	begun, finished, wasted, busy atomic.Int64
}

// newProcess makes the process that o describes; peers says where the services are.
func newProcess(o *order, p *plan, pol policy, peers map[string][]string) (_ *process, err error) {
	s := p.services[o.Service]
	x := &process{plan: p, service: s, callers: map[string]caller{}, locks: map[string]turns{}}
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	switch gated := !s.Ungated && pol.over != overProxy; {
	case gated && pol.kind == credited:
		if x.gate, err = newGate(p, s); err != nil {
			return nil, err
		}
	case gated && pol.kind == bounded:
		x.semaphore = newSemaphore(pol.limit, pol.queue)
	case gated && pol.compared:
		if x.compared, err = newLeveled(o, p, s, pol.kind); err != nil {
			return nil, err
		}
		x.gate = live.NewGateOf(x.compared, s.Objective)
	case gated && pol.peer != nil && pol.peer.Gate != nil:
		if x.gate, err = live.NewGate(pol.peer.Gate(p.World, s)); err != nil {
			return nil, err
		}
	case gated:
		x.peer = pol.peer
	}
	for _, station := range []struct {
		to   **service.Station
		kind service.Kind
	}{{&x.wait, service.Sleep}, {&x.compute, service.Spin}} {
		if *station.to, err = service.New(service.Config{Kind: station.kind, Mean: time.Millisecond}); err != nil {
			return nil, err
		}
	}
	if err = x.hire(pol, mix(o.Seed^mix(uint64(o.number(p))))); err != nil {
		return nil, err
	}
	for _, m := range s.Methods {
		for _, step := range m.Steps {
			for _, to := range step.Call {
				if x.callers[to.Service] != nil {
					continue
				}
				if x.callers[to.Service], err = newCaller(to.Service, peers[to.Service], connection{plan: p, policy: pol, who: s.Name, seed: o.Seed, number: o.Replica,
					wallet: pol.credits(), obeys: true}); err != nil {
					return nil, err
				}
			}
		}
	}
	return x, nil
}

// hire makes the workers and the locks.
func (x *process) hire(pol policy, seed uint64) (err error) {
	o := Order{}
	if pol.peer != nil {
		o = pol.peer.Order
	}
	watched := map[string]turns{}
	switch s := x.service; {
	case s.Async:
		pace, err := newPace(x.wait)
		if err != nil {
			return err
		}
		if x.crew, err = newCrew(s, o, seed, pace); err != nil {
			return err
		}
		watched["workers"] = x.crew.lines[0]
	case s.Workers > 0:
		if x.workers, err = o.queue(s.Workers); err != nil {
			return err
		}
		watched["workers"] = x.workers
	}
	for _, l := range x.service.Locks {
		if x.locks[l.Name], err = o.queue(l.Permits); err != nil {
			return err
		}
		watched[l.Name] = x.locks[l.Name]
	}
	if x.gate != nil {
		for name, t := range watched {
			if r, ok := t.(resource); ok {
				x.gate.WatchResource(name, r.Resource)
			}
		}
	}
	return nil
}

// newGate makes the gate of a service as its users make it. Only where the world weighs
// workflows is more said than the objective.
func newGate(p *plan, s *world.Service) (*live.Gate, error) {
	if !p.weighed() {
		return spillgate.New(s.Objective)
	}
	shares := map[string]float64{}
	for i := range p.Clients {
		if name := workflow(&p.Clients[i]); name != "" {
			shares[name] = p.Clients[i].Share
		}
	}
	return spillgate.NewWith(spillgate.Config{Shares: shares,
		Config: spillgate.Admission{Objective: s.Objective, Schedule: spillgate.Schedule{Fair: true}}})
}

// slowAt plans the faults by which a replica becomes slower.
func (x *process) slowAt(p *plan, o *order, begin time.Time) error {
	for _, f := range p.Faults {
		if f.Slower <= 0 || !strikes(&f, o) {
			continue
		}
		for at := range times(&f, p.Length) {
			for _, station := range []*service.Station{x.wait, x.compute} {
				if err := errors.Join(station.SlowAt(begin.Add(at), f.Slower), station.SlowAt(begin.Add(at+f.For), 1)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// strikes reports whether a fault happens to the process of an order.
func strikes(f *world.Fault, o *order) bool {
	return f.Service == o.Service && (f.Replica == 0 || f.Replica == o.Replica)
}

// times yields the instants at which a fault happens before length.
func times(f *world.Fault, length time.Duration) func(yield func(time.Duration) bool) {
	return func(yield func(time.Duration) bool) {
		for at := f.At; at < length && yield(at) && f.Every > 0; at += f.Every {
		}
	}
}

func (x *process) close() {
	for _, c := range x.callers {
		c.close()
	}
	if x.crew != nil {
		x.crew.close()
	}
	if x.workers != nil {
		x.workers.close()
	}
	for _, l := range x.locks {
		l.close()
	}
	for _, s := range []*service.Station{x.wait, x.compute} {
		if s != nil {
			s.Close()
		}
	}
	if x.gate != nil {
		_ = x.gate.Close()
	}
}

// serve does what a request for a method is for. The gate, if there is one, has let it
// in.
func (x *process) serve(ctx context.Context, m *world.Method, id uint64) (err error) {
	work := ctx
	if x.service.Deaf {
		work = context.WithoutCancel(ctx)
	}
	if x.workers != nil && !m.Idle {
		within, done, err := x.workers.acquire(work)
		if err != nil {
			return err
		}
		defer done()
		work = within
	}
	began := time.Now()
	x.begun.Add(1)
	defer func() { x.busy.Add(int64(time.Since(began))) }()
	var passed passage
	if x.crew != nil && x.crew.steer != nil {
		over := x.crew.steer.arrived(work, x.plan.unhindered(m))
		defer func() { over(passed, err) }()
	}
	for i := range m.Steps {
		if err := work.Err(); err != nil {
			return err
		}
		if len(m.Steps[i].Call) > 0 {
			err = x.calls(work, &m.Steps[i], id, i)
		} else {
			err = x.own(work, m, id, i, &passed)
		}
		if err != nil {
			return err
		}
	}
	x.finished.Add(1)
	if ctx.Err() != nil {
		x.wasted.Add(1)
	}
	return work.Err() // a deaf one answers as if nothing were
}

// own does a step that makes no call, with what it has to hold. What has begun is not cut
// short.
func (x *process) own(ctx context.Context, m *world.Method, id uint64, i int, passed *passage) error {
	s := &m.Steps[i]
	if lock := x.locks[s.Lock]; lock != nil {
		within, done, err := lock.acquire(ctx)
		if err != nil {
			return err
		}
		defer done()
		ctx = within
	}
	on := context.WithoutCancel(ctx)
	compute := func() error { return x.compute.DoFor(on, draw(s.Compute, id, i)) }
	switch held := x.crew != nil && !m.Idle; {
	case s.Wait != nil && held:
		p, err := x.crew.wait(ctx, s.Wait, id, i)
		if err == nil {
			*passed = p
		}
		return err
	case s.Wait != nil:
		return x.wait.DoFor(on, draw(s.Wait, id, i))
	case held:
		return x.crew.compute(ctx, compute)
	}
	return compute()
}

// calls makes the calls of a step.
func (x *process) calls(ctx context.Context, s *world.Step, id uint64, i int) error {
	if len(s.Call) == 1 {
		return x.call(ctx, s.Call[0], below(id, i, 0))
	}
	errs := make([]error, len(s.Call))
	var calls sync.WaitGroup
	for k, to := range s.Call {
		calls.Go(func() { errs[k] = x.call(ctx, to, below(id, i, k)) })
	}
	calls.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *process) call(ctx context.Context, to world.Target, id uint64) error {
	c := x.callers[to.Service]
	if c == nil {
		return fmt.Errorf("bed: nobody calls %s", to.Service)
	}
	if err := c.call(ctx, to.Method, id); err != nil {
		return &passedOn{err}
	}
	return nil
}

// passedOn is the error of a call that was made for a request.
type passedOn struct{ error }

func (p *passedOn) Unwrap() error { return p.error }

// isPassedOn reports whether an error came from a service that was called.
func isPassedOn(err error) bool {
	var p *passedOn
	return errors.As(err, &p)
}
