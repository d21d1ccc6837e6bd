package culpritsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The service behind the gate: a pool of workers, each request needs one for
// an exponential time. The disturbance begins when the gate has settled.
const (
	gateWorkers   = 8
	gateService   = 4 * ms
	gateObjective = 100 * ms
	gateEvery     = 50 * ms
	gateOnset     = 3 * time.Second
	gateEnd       = 6 * time.Second
	// gateHears is how long a culprit that was cancelled takes to let go.
	gateHears = 5 * ms
)

// gateCase is what happens to the service.
type gateCase struct {
	name     string
	load     float64       // of the capacity
	after    float64       // the load from the onset on, 0: the same
	seized   bool          // a culprit takes all workers
	leaves   int           // but so many
	paused   time.Duration // from the onset on nothing goes on for so long, and nobody is to blame
	slower   float64       // how many times as long requests take from the onset on, 0: as before
	deadline time.Duration // of each request, 0: none
	suspects bool          // the engine suspects a task at every look
	bar      bool          // no victim may be dropped
}

func gateCases() []gateCase {
	return []gateCase{
		{name: "culprit, load 0.5", load: 0.5, seized: true, bar: true},
		{name: "culprit, load 0.7", load: 0.7, seized: true, bar: true},
		{name: "culprit, load 0.8", load: 0.8, seized: true},
		{name: "culprit, load 0.7, deadlines of 10 objectives", load: 0.7, seized: true, deadline: 10 * gateObjective, bar: true},
		{name: "culprit, load 0.7, deadlines of 1 objective", load: 0.7, seized: true, deadline: gateObjective},
		{name: "culprit, load 1.2", load: 1.2, seized: true},
		{name: "culprit leaves a worker, load 0.2", load: 0.2, seized: true, leaves: 1},
		{name: "culprit leaves a worker, load 0.5", load: 0.5, seized: true, leaves: 1},
		{name: "overload of 2", load: 0.8, after: 2},
		{name: "overload of 2, always suspected", load: 0.8, after: 2, suspects: true},
		{name: "20 times slower", load: 0.8, slower: 20},
		{name: "a pause of 300 ms", load: 0.8, paused: 300 * ms},
	}
}

// gateRun is one case on one seed.
type gateRun struct {
	gateCase
	seed uint64
	hold time.Duration
}

// gated is what came of it, of the requests from the onset on.
type gated struct {
	all, dropped, good int
	decided            time.Duration
	later              int // in time, of those from a second after the onset on
	latest             int // all of those
}

type visitor struct {
	ticket        admission.Ticket
	id            uint64
	needs         time.Duration
	started       mono.Time // in the gate
	served        bool      // by a worker
	servedAt      mono.Time
	culprit, gone bool
}

type gateEvent struct {
	what    byte // a: arrival, e: a worker ends, o: look, c: the culprit comes, f: it lets go, p: the pause ends, w: the node wakes
	visitor *visitor
}

// gateSim is a run.
type gateSim struct {
	gateRun
	out     gated
	rng     *rand.Rand
	node    *node.Node
	finder  *culprit.Engine
	engine  sim.Engine[gateEvent]
	inside  []*visitor // of the gate, in order
	line    []*visitor // for a worker
	busy    int
	stopped bool
	culprit *visitor
	serial  uint64
	done    culprit.Finished
	sample  culprit.Sample
}

func playGate(g gateRun) (gated, error) {
	n, errNode := node.New(node.Config{Config: admission.Config{Objective: gateObjective, Hold: g.hold}})
	e, errEngine := culprit.New(culprit.Config{Objective: gateObjective, Mode: culprit.Enforce})
	if errNode != nil || errEngine != nil {
		return gated{}, fmt.Errorf("%w%w", errNode, errEngine)
	}
	s := &gateSim{gateRun: g, node: n, finder: e, rng: rand.New(rand.NewPCG(g.seed, gateStream))}
	s.out.decided = -1
	s.engine.At(0, gateEvent{what: 'a'})
	s.engine.At(0, gateEvent{what: 'o'})
	s.engine.At(mono.Time(gateOnset), gateEvent{what: 'c'})
	for scheduled := mono.Never; ; {
		if wake := n.NextWake(); wake != scheduled {
			s.engine.At(wake, gateEvent{what: 'w'})
			scheduled = wake
		}
		event, ok := s.engine.Next(mono.Time(gateEnd))
		if !ok {
			return s.out, nil
		}
		if event.what == 'w' {
			scheduled = mono.Never
		}
		s.handle(s.engine.Now(), event)
	}
}

func (s *gateSim) handle(now mono.Time, e gateEvent) {
	switch e.what {
	case 'a':
		needs, gap := s.draw(now)
		s.arrive(now, &visitor{needs: needs})
		s.engine.At(now.Add(gap), e)
	case 'e':
		s.busy--
		s.leave(now, e.visitor)
	case 'o':
		s.look(now)
		s.engine.At(now.Add(gateEvery), e)
	case 'c':
		if s.stopped = s.paused > 0; s.stopped {
			s.engine.At(now.Add(s.paused), gateEvent{what: 'p'})
		}
		if s.seized {
			s.culprit = &visitor{culprit: true}
			s.arrive(now, s.culprit)
		}
	case 'f':
		if !e.visitor.gone {
			s.stopped, s.culprit = false, nil
			s.leave(now, e.visitor)
		}
	case 'p':
		s.stopped = false
	case 'w':
		s.node.OnWake(now)
	}
	s.settle(now)
}

// gateStream is the stream of chance that requests are drawn from.
const gateStream = 0x76696374

// draw returns how long a request needs a worker that comes at an instant, and the time to the next one.
func (s *gateSim) draw(now mono.Time) (needs, gap time.Duration) {
	needs = time.Duration(s.rng.ExpFloat64() * float64(s.service(now)))
	rate := s.load * gateWorkers / gateService.Seconds()
	if s.after > 0 && now >= mono.Time(gateOnset) {
		rate *= s.after / s.load
	}
	return needs, time.Duration(s.rng.ExpFloat64() / rate * float64(time.Second))
}

func (s *gateSim) service(now mono.Time) time.Duration {
	if s.slower > 0 && now >= mono.Time(gateOnset) {
		return time.Duration(s.slower * float64(gateService))
	}
	return gateService
}

func (s *gateSim) arrive(now mono.Time, v *visitor) {
	s.serial++
	v.id = s.serial
	v.ticket.Arrived, v.ticket.Owner, v.ticket.Deadline = now, v, mono.Never
	if s.deadline > 0 && !v.culprit {
		v.ticket.Deadline = now.Add(s.deadline)
	}
	s.inside = append(s.inside, v)
	s.verdict(now, v, s.node.Arrive(now, &v.ticket))
}

func (s *gateSim) verdict(now mono.Time, v *visitor, verdict admission.Verdict) {
	switch {
	case verdict == admission.Shed && v.culprit: // comes again
		s.gone(v)
		s.node.Feedback(now, &v.ticket)
		s.engine.At(now.Add(ms), gateEvent{what: 'c'})
	case verdict == admission.Shed:
		s.gone(v)
		s.node.Feedback(now, &v.ticket)
		s.count(now, v, false)
		s.done.Timed, s.done.Late = s.done.Timed+1, s.done.Late+1
	case verdict == admission.Run && v.culprit:
		s.stopped, v.started = true, now
	case verdict == admission.Run:
		v.started = now
		s.line = append(s.line, v)
	}
}

func (s *gateSim) leave(now mono.Time, v *visitor) {
	o := work.Done
	switch {
	case v.culprit:
		o = work.Cancelled
	case s.node.Gate().Late(now, &v.ticket):
		o = work.Late
	}
	s.gone(v)
	s.node.Leave(now, &v.ticket, o)
	s.node.Feedback(now, &v.ticket)
	if v.culprit {
		return
	}
	s.count(now, v, true)
	s.done.Count, s.done.Timed = s.done.Count+1, s.done.Timed+1
	if o == work.Late {
		s.done.Late++
	}
}

func (s *gateSim) gone(v *visitor) {
	v.gone = true
	if at := slices.Index(s.inside, v); at >= 0 {
		s.inside = slices.Delete(s.inside, at, at+1)
	}
}

// count enters the end of a request that came after the onset.
func (s *gateSim) count(now mono.Time, v *visitor, served bool) {
	came := v.ticket.Arrived
	if came < mono.Time(gateOnset) {
		return
	}
	good := served && now.Sub(came) <= gateObjective
	s.out.all++
	if !served {
		s.out.dropped++
	}
	if good {
		s.out.good++
	}
	if came >= mono.Time(gateOnset+time.Second) {
		if s.out.latest++; good {
			s.out.later++
		}
	}
}

// settle does what the node and the workers want done.
func (s *gateSim) settle(now mono.Time) {
	for t, v := s.node.Next(now); t != nil; t, v = s.node.Next(now) {
		s.verdict(now, t.Owner.(*visitor), v)
	}
	workers := gateWorkers
	if s.stopped {
		workers = s.leaves
	}
	for s.busy < workers && len(s.line) > 0 {
		v := s.line[0]
		s.line = s.line[1:]
		s.busy++
		v.served, v.servedAt = true, now
		s.engine.At(now.Add(v.needs), gateEvent{what: 'e', visitor: v})
	}
}

// look shows the engine what the gate and the workers do.
func (s *gateSim) look(now mono.Time) {
	m := &s.sample
	m.At, m.Finished = now, s.done
	m.Tasks, m.Holds = m.Tasks[:0], m.Holds[:0]
	m.Resources = append(m.Resources[:0], culprit.Resource{Name: "slots", Kind: culprit.Queue}, culprit.Resource{Name: "workers", Kind: culprit.Queue})
	s.done = culprit.Finished{}
	for _, v := range s.inside {
		kind := uint64(victims)
		if v.culprit {
			kind = heavy
		}
		i := int32(len(m.Tasks))
		task := culprit.Task{ID: v.id, Kind: kind, Started: v.ticket.Arrived}
		slot := culprit.Hold{Task: i, WaitingSince: culprit.Unset, HeldSince: culprit.Unset}
		pool := culprit.Hold{Task: i, Resource: 1, WaitingSince: culprit.Unset, HeldSince: culprit.Unset}
		switch since, waits := v.ticket.Waiting(); {
		case waits:
			slot.WaitingSince = since
		default:
			task.Steps = culprit.StepsOf(culprit.Statement)
			slot.WaitTime, slot.HeldSince, slot.Used, slot.Gets = v.ticket.Queued(), v.started, 1, 1
			switch {
			case v.culprit:
				pool.HeldSince, pool.Used, pool.Gets = v.started, uint64(gateWorkers-s.leaves), uint64(gateWorkers-s.leaves)
			case v.served:
				pool.WaitTime, pool.HeldSince, pool.Used, pool.Gets = v.servedAt.Sub(v.started), v.servedAt, 1, 1
			default:
				pool.WaitingSince = v.started
			}
			m.Holds = append(m.Holds, pool)
		}
		m.Tasks, m.Holds = append(m.Tasks, task), append(m.Holds, slot)
	}
	s.node.Look(now)
	d := s.finder.Observe(m)
	switch {
	case d.Suspects() || s.suspects:
		s.node.Suspect(now)
	case d.Doubts():
		s.node.Doubt(now)
	}
	if v := s.culprit; v != nil && d.Action.Step != culprit.NoStep && d.Action.Task == v.id {
		s.out.decided = now.Sub(mono.Time(gateOnset))
		s.node.Mark(now, &v.ticket)
		s.engine.At(now.Add(gateHears), gateEvent{what: 'f', visitor: v})
	}
}

// gateHold is the Hold of a live gate with this objective.
const gateHold = 2 * (gateObjective + gateEvery)

// runVictims plays every case without and with kept victims.
func runVictims(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	n := fullSeeds
	if o.Quick {
		n = quickSeeds
	}
	var runs []gateRun
	for _, c := range gateCases() {
		for _, seed := range seedsOf(o.Seed, n) {
			runs = append(runs, gateRun{c, seed, 0}, gateRun{c, seed, gateHold})
		}
	}
	played, err := experiment.Each(ctx, o, runs, func(g *gateRun) (string, float64) { return fmt.Sprintf("%s, seed %d", g.name, g.seed), 1 },
		func(_ context.Context, g *gateRun) (gated, error) { return playGate(*g) })
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: fmt.Sprintf("victims in a gate, objective %v, worst of %d seeds", gateObjective, n), Columns: []table.Column{{Name: "case"},
		{Name: "dropped", Unit: "of the requests from the onset on", Format: "%.5f"}, {Name: "kept: dropped", Format: "%.5f"},
		{Name: "in time", Format: "%.4f"}, {Name: "kept: in time", Format: "%.4f"},
		{Name: "from 1 s on", Format: "%.4f"}, {Name: "kept: from 1 s on", Format: "%.4f"}, {Name: "kept against not, in time", Unit: "least", Format: "%.4f"}, {Name: "decided", Unit: "ms"},
		{Name: "kept: not in time", Format: "%.4f"}, {Name: "lost by arithmetic", Format: "%.4f"}},
		Note: "kept: not in time: the mean, of all requests from the onset on; lost by arithmetic: the mean of those that nobody could have answered in time, because the culprit held the workers until it was cancelled"}
	for i, c := range gateCases() {
		var w [2]struct{ dropped, good, later float64 }
		least, decided := 2.0, time.Duration(0)
		missed, lost := 0.0, 0.0
		w[0].good, w[1].good, w[0].later, w[1].later = 1, 1, 1, 1
		for k := range n {
			pair := played[2*(i*n+k) : 2*(i*n+k)+2]
			for j, p := range pair {
				w[j].dropped = max(w[j].dropped, float64(p.dropped)/float64(p.all))
				w[j].good = min(w[j].good, float64(p.good)/float64(p.all))
				w[j].later = min(w[j].later, float64(p.later)/float64(p.latest))
			}
			least = min(least, float64(pair[1].good)/float64(max(pair[0].good, 1)))
			decided = max(decided, pair[1].decided)
			missed += 1 - float64(pair[1].good)/float64(pair[1].all)
			if run := runs[2*(i*n+k)]; pair[1].decided >= 0 {
				lost += float64(run.lost(pair[1].decided+gateHears)) / float64(pair[1].all)
			}
		}
		t.Add(c.name, w[0].dropped, w[1].dropped, w[0].good, w[1].good, w[0].later, w[1].later, least, decided.Milliseconds(), missed/float64(n), lost/float64(n))
		switch {
		case c.bar:
			r.Ceiling(c.name+": dropped", " of the requests", dropCeiling, 0, w[1].dropped)
			r.Floor(c.name+": in time from 1 s after the onset on", " of the requests", 0.99, 0, w[1].later)
			r.Ceiling(c.name+": decided after", " ms", float64(decideWithin.Milliseconds()), 0, float64(decided.Milliseconds()))
		case !c.seized:
			r.Floor(c.name+": in time, against no victims kept", " times", 0.97, 0, least)
		}
	}
	r.Table = append(r.Table, t)
	return r, nil
}
