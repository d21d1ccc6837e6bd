package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/demo/stage"
)

// Config describes a demo.
type Config struct {
	// Plan is what is played: Full() or Quick().
	Plan Plan
	// Seed decides every arrival and every service time.
	Seed uint64
	// Quick is passed on to the views, which say that figures are noisier.
	Quick bool
	// Command is the arguments with which this program plays a part; the part
	// follows.
	Command []string
	// Report, if not nil, writes the report of a finished demo and returns its
	// path. A failure of it is one of the demo.
	Report func(State) (path string, err error)
	// Publish, if not nil, is given every new State, one at a time. It must not
	// block for long: the demo's own bookkeeping waits for it.
	Publish func(State)
}

// Play plays the demo and returns its result, the last State. The error says
// why the demo could not be played to its end; it wraps ctx's if that was why.
func Play(ctx context.Context, cfg Config) (State, error) {
	d := newDirector(cfg)
	beat, stop := context.WithCancel(ctx)
	var beats sync.WaitGroup
	beats.Go(func() { d.beat(beat) })
	err := d.play(ctx)
	stop()
	beats.Wait()
	return d.end(ctx, err)
}

// director keeps the state and the processes.
type director struct {
	cfg   Config
	begun time.Time

	mu    sync.Mutex
	state State
	// expect is the estimated length, corrected as the demo goes on: how much was
	// over at the last milestone, and when that was.
	milestone   float64
	milestoneAt time.Time
}

func newDirector(cfg Config) *director {
	d := &director{cfg: cfg, begun: time.Now()}
	p := cfg.Plan
	d.state = State{
		Scene: Starting, Seed: cfg.Seed, Quick: cfg.Quick, Note: "starting three services on loopback",
		SLOMS: ms(p.SLO), TimeoutMS: ms(p.Timeout), Conns: p.Conns, ActLength: p.Length().Seconds(),
		Capacity: CapacityState{Nominal: p.Nominal(), Tries: []stage.Try{}},
		Acts:     []Act{},
	}
	var at time.Duration
	for _, s := range p.Steps {
		d.state.Steps = append(d.state.Steps, StepState{s.Name, s.Factor, at.Seconds(), (at + s.For).Seconds()})
		at += s.For
	}
	d.milestoneAt = d.begun
	return d
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// update changes the state and publishes it.
func (d *director) update(change func(*State)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.state)
	d.publish()
}

// publish hands out a copy; the lock is held. Points and tries are only ever
// appended to, so the copy may share them.
func (d *director) publish() {
	d.state.Number++
	now := time.Now()
	d.state.Elapsed = now.Sub(d.begun).Seconds()
	if !d.state.Scene.Over() {
		total := d.cfg.Plan.estimate().Seconds()
		d.state.Share = min(d.milestone+now.Sub(d.milestoneAt).Seconds()/total, 0.99)
	}
	if d.cfg.Publish != nil {
		d.cfg.Publish(d.copy())
	}
}

func (d *director) copy() State {
	s := d.state
	s.Capacity.Tries = slices.Clip(s.Capacity.Tries)
	s.Acts = slices.Clone(s.Acts)
	for i := range s.Acts {
		s.Acts[i].Points = slices.Clip(s.Acts[i].Points)
		s.Acts[i].Services = slices.Clone(s.Acts[i].Services)
	}
	s.Tenants, s.Checkout, s.Culprit, s.Feed = s.Tenants.copy(), s.Checkout.copy(), s.Culprit.copy(), s.Feed.copy()
	return s
}

// beat publishes now and then, so that clocks move while nothing else does.
func (d *director) beat(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.update(func(*State) {})
		case <-ctx.Done():
			return
		}
	}
}

// reached notes that what took an estimated time so far is over.
func (d *director) reached(so time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.milestone = max(so.Seconds()/d.cfg.Plan.estimate().Seconds(), 0)
	d.milestoneAt = time.Now()
}

func (d *director) play(ctx context.Context) error {
	c, err := newCrew(d.cfg.Command)
	if err != nil {
		return err
	}
	p := d.cfg.Plan
	rate, err := d.search(ctx, c)
	if err != nil {
		return err
	}
	d.reached(p.search())
	if err := d.act(ctx, c, rate, false); err != nil {
		return err
	}
	d.reached(p.search() + p.Length() + between)
	if err := d.act(ctx, c, rate, true); err != nil {
		return err
	}
	d.reached(p.search() + 2*(p.Length()+between))
	if err := d.tenants(ctx, c, rate); err != nil {
		return err
	}
	d.reached(p.search() + 2*(p.Length()+between) + p.TenantLength() + between)
	if err := d.checkout(ctx, c); err != nil {
		return err
	}
	d.reached(p.estimate() - 2*(p.Lock.Length()+between) - 2*(p.Feed.Length()+between))
	if err := d.culprit(ctx, c); err != nil {
		return err
	}
	d.reached(p.estimate() - 2*(p.Feed.Length()+between))
	if err := d.flood(ctx, c); err != nil {
		return err
	}
	return d.report()
}

// report writes the report.
func (d *director) report() error {
	if d.cfg.Report == nil {
		return nil
	}
	d.update(func(st *State) { st.Scene, st.Note = Reporting, "drawing the report" })
	d.mu.Lock()
	state := d.copy()
	d.mu.Unlock()
	path, err := d.cfg.Report(state)
	if err != nil {
		return fmt.Errorf("demo: the report: %w", err)
	}
	d.update(func(st *State) { st.Report = path })
	return nil
}

// search finds the capacity of plain services.
func (d *director) search(ctx context.Context, c crew) (float64, error) {
	p := d.cfg.Plan
	s, err := c.open(ctx, p, d.cfg.Seed, plainServices, func(*stage.Report) {})
	if err != nil {
		return 0, err
	}
	defer s.stop()
	d.update(func(st *State) {
		st.Scene, st.Note = Searching, "measuring the capacity: the most answers within the objective"
	})
	var found *stage.Capacity
	err = c.run(ctx, s, stage.Load{
		Target: s.entry, Conns: p.Conns, Objective: p.SLO, Timeout: p.Timeout, Seed: d.cfg.Seed,
		Try: p.Try, Retake: p.Retake,
	}, func(l stage.Line) {
		if l.Try != nil {
			d.update(func(st *State) { st.Capacity.Tries = append(st.Capacity.Tries, *l.Try) })
		}
		if l.Capacity != nil {
			found = l.Capacity
			d.update(func(st *State) { st.Capacity.Rate, st.Capacity.Doubt = found.Rate, found.Doubt })
		}
	})
	if err == nil && found == nil {
		err = errors.New("demo: the search for the capacity ended without a result")
	}
	if err != nil {
		return 0, err
	}
	return found.Rate, nil
}

// act plays the load once.
func (d *director) act(ctx context.Context, c crew, rate float64, gated bool) error {
	p := d.cfg.Plan
	scene, services, note := Plain, plainServices, "act 1: the services as they are, without gates"
	if gated {
		scene, services, note = Gated, gatedServices, "act 2: the same load, behind gates that know the objective"
	}
	i := 0
	d.update(func(st *State) {
		i = len(st.Acts)
		st.Scene, st.Note = scene, note
		st.Acts = append(st.Acts, Act{
			Name: string(scene), Running: true, Points: []stage.Point{}, Sheds: []Shed{}, Services: []stage.Report{},
			Totals: stage.Totals{Shed: map[string]uint64{}, Unsent: map[string]uint64{}},
		})
	})
	change := func(do func(*Act)) {
		d.mu.Lock()
		defer d.mu.Unlock()
		a := &d.state.Acts[i]
		do(a)
		a.Sheds = sheds(a.Totals.Unsent, a.Services)
		if a.Sheds == nil {
			a.Sheds = []Shed{}
		}
	}
	s, err := c.open(ctx, p, d.cfg.Seed, services, func(r *stage.Report) {
		change(func(a *Act) { a.Services = replace(a.Services, *r) })
	})
	if err != nil {
		return err
	}
	var outcome *stage.Outcome
	err = c.run(ctx, s, stage.Load{
		Target: s.entry, Conns: p.Conns, Gated: gated, Objective: p.SLO, Timeout: p.Timeout,
		Seed: d.cfg.Seed, Steps: p.profile(rate),
	}, func(l stage.Line) {
		if l.Progress != nil {
			change(func(a *Act) {
				a.Points = append(a.Points, l.Progress.New...)
				a.Elapsed = min(l.Progress.Elapsed, p.Length().Seconds())
				a.InFlight, a.Totals = l.Progress.InFlight, l.Progress.Totals
			})
			d.update(func(*State) {})
		}
		if l.Outcome != nil {
			outcome = l.Outcome
		}
	})
	s.stop() // after it, the services' last reports have come
	if err == nil && outcome == nil {
		err = errors.New("demo: the load ended without a result")
	}
	if err != nil {
		return err
	}
	change(func(a *Act) { a.Running, a.Outcome, a.Totals, a.InFlight = false, outcome, outcome.Totals, 0 })
	return nil
}

// replace puts r in the place of the report of the same service.
func replace(all []stage.Report, r stage.Report) []stage.Report {
	all = slices.Clone(all)
	for i := range all {
		if all[i].Name == r.Name {
			all[i] = r
			return all
		}
	}
	return append(all, r)
}

// run runs one load to its end. It fails when the load does, and when a service
// died under it.
func (c crew) run(ctx context.Context, s *services, l stage.Load, on func(stage.Line)) error {
	running, cut := context.WithCancel(ctx)
	defer cut()
	child, err := c.start(running, "load", stage.Part{Load: &l}, on)
	if err != nil {
		return err
	}
	for _, service := range s.children {
		go func() {
			select {
			case <-service.Exited():
				cut()
			case <-running.Done():
			}
		}()
	}
	err = child.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("demo: stopped: %w", ctx.Err())
	}
	if died := s.died(); died != nil {
		return died
	}
	return err
}

// end makes the last state.
func (d *director) end(ctx context.Context, err error) (State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	st := &d.state
	for i := range st.Acts {
		st.Acts[i].Running = false
	}
	if st.Tenants != nil {
		st.Tenants.Running = false
	}
	if o := st.Checkout.Running(); o != nil {
		o.Running = false
	}
	if r := st.Culprit.Running(); r != nil {
		r.Running = false
	}
	if r := st.Feed.Running(); r != nil {
		r.Running = false
	}
	switch {
	case err == nil:
		st.Scene, st.Note, st.Share = Done, "done", 1
	case ctx.Err() != nil:
		st.Scene, st.Note = Interrupted, "interrupted"
		if !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w (%w)", ctx.Err(), err)
		}
	default:
		st.Scene, st.Note, st.Error = Failed, "failed", err.Error()
	}
	d.publish()
	out := d.copy()
	for i := range out.Acts {
		out.Acts[i].Totals.Shed = maps.Clone(out.Acts[i].Totals.Shed)
	}
	return out, err
}
