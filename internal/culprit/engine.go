package culprit

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Engine is the policy. It is not safe for concurrent use. Observe takes time in
// proportion to (tasks + holds + edges) × resources, and allocates only while a
// sample is larger than all before.
type Engine struct {
	cfg Config

	before, now looked
	view        view
	recent      recent
	normal      normal
	endings     endings
	departures  departures
	graph       graph
	knot        knot

	weights    []float64 // C_r, summing to 1
	found      []contender
	mainly     []uint64    // kinds of the foreground tasks that mainly wait
	counted    []kindCount // of mainly
	together   []float64   // by resource: the scores of those that may be cancelled and hog it
	blame      []Blame
	candidates []Candidate

	suspect int           // samples in a row that were suspect
	met     mono.Time     // the last sample at which the objective was met
	calm    time.Duration // how long the objective has been met
	agreed  agreement
	cancels cancels
	out     Decision
}

// agreement counts samples in a row that agree on a pick.
type agreement struct {
	samples int
	against int           // samples in a row that disagree
	span    time.Duration // since the first of them
	task    uint64
	kind    uint64 // 0 if victims have it as well
	several bool
}

// New returns an Engine that has seen nothing. It fails if cfg has a mistake.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	return &Engine{cfg: cfg.filled()}, nil
}

// Configure replaces the configuration and keeps what was learned. The objective must stay: what
// was learned is about it. A pick must be confirmed anew. After a change of the mode,
// nothing counts as done, or as limited, that was only reported. It fails, and changes nothing,
// if cfg has a mistake.
func (e *Engine) Configure(cfg Config) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	if cfg.Objective != e.cfg.Objective {
		return fmt.Errorf("culprit: Objective is %v, expected %v as before: what was learned is about that", cfg.Objective, e.cfg.Objective)
	}
	if cfg.Mode != e.cfg.Mode {
		e.cancels.forget(e.cfg.Mode == Monitor)
	}
	e.cfg, e.agreed = cfg.filled(), agreement{}
	return nil
}

// Observe takes one look and decides. A sample that is blind, that has a mistake
// (see Sample.Check) or that is not later than the previous one changes nothing
// but that picks must be confirmed anew.
func (e *Engine) Observe(s *Sample) *Decision {
	d := &e.out
	*d = Decision{At: s.At, State: d.State}
	if e.cfg.Mode == Off {
		return d
	}
	if !e.look(s) {
		e.agreed = agreement{}
		d.Why = Blind
		return d
	}
	v, w, n := &e.view, &e.recent, &e.normal
	if !e.before.any || s.Anew { // since when things were counted is not known
		if !e.before.any {
			d.State = Normal
		}
		e.before, e.now = e.now, e.before
		return d
	}
	w.add(v, s.Finished, e.cfg.Objective)
	e.ended()
	e.departed()
	e.cancels.completed += s.Finished.Count
	d.Evidence = Evidence{InFlight: v.inFlight, Late: v.late, Stuck: v.stuck, LateShare: ratio(w.late[0].late, w.late[0].resolved),
		Throughput: w.throughput(), Baseline: n.throughput, Noise: n.noise}
	miss, flat := missed(v, w, e.suspect > 0), n.flat(w.throughput()) || n.stands(w)
	d.Outcome = e.verify(miss)
	switch {
	case miss && flat:
		e.calm = 0
		e.decide(d)
	case miss:
		e.relax(0)
		d.State, d.Why = Normal, Rising
		e.keepLimit(d)
		n.seenMore(v.dt, w.throughput())
	default:
		e.relax(v.dt)
		d.State, e.met = Normal, s.At
		e.keepLimit(d)
		if len(e.cancels.taken) > 0 && v.late == 0 && s.Finished.Count > 0 {
			e.endings.trust()
		}
		switch {
		case v.inFlight == 0 && s.Finished.Count == 0:
			d.State = Idle
		case n.seen == 0 && s.Finished.Count == 0: // nothing has ever ended: that may be a stall from before the first look
		default:
			n.learn(v, w, &e.before, e.cfg.Objective)
		}
	}
	if e.cancels.tripped {
		d.State, d.Why = GivenUp, Tripped
	}
	e.before, e.now = e.now, e.before
	return d
}

// look turns the sample into a view and reports whether it can be used.
func (e *Engine) look(s *Sample) bool {
	if s.Blind != "" || s.Check() != nil || e.before.any && s.At <= e.before.at {
		return false
	}
	return e.view.look(s, &e.before, &e.now, e.cfg.Objective, e.cfg.Choice == Present)
}

// relax ends a suspicion; calm is how long the objective has been met now. What samples
// agreed on is kept for one: a culprit may hold the others up in bursts that a look can
// come between.
func (e *Engine) relax(calm time.Duration) {
	e.suspect = 0
	e.agreed.disagree(e.view.dt)
	if e.calm += calm; calm == 0 {
		e.calm = 0
	}
	if e.calm >= e.cfg.Rearm {
		e.cancels.rearm()
	}
}

// decide looks for a culprit in a suspect sample.
func (e *Engine) decide(d *Decision) {
	v := &e.view
	e.suspect++
	e.blame = resized(e.blame, v.r)
	explained := explain(v, &e.recent, &e.normal, e.blame)
	e.graph.build(v, e.cfg.Objective.Seconds(), e.cfg.Clear, e.intake())
	e.rank(v)
	best, several := e.pick(v, e.normal.falling(&e.recent))
	if best < 0 {
		best = e.untie(v)
	}
	agreed := best
	switch {
	case explained < 0.5:
		best, agreed, d.Why = -1, -1, Unexplained
	case best >= 0:
	case len(e.found) > 0 && (e.found[0].score >= e.cfg.Clear && e.found[0].why != Young || e.fixedTogether(v)):
		d.Why = e.found[0].why
	default:
		d.Why = Unclear
		if agreed = e.brief(v); agreed >= 0 {
			d.Why = Brief
		} else if len(e.found) > 0 && e.found[0].score >= e.cfg.Clear {
			d.Why = e.found[0].why
		}
	}
	e.agree(v, agreed, several, d.Why == Brief)
	d.State = e.stateOf(d.Why, best)
	switch {
	case best >= 0:
		e.act(d, &e.found[best], several)
	case d.State != Named:
	case d.Why == Fixed:
		e.shed(d, &e.found[0], e.limit(v, &e.found[0]))
	case d.Why == Brief:
		c := &e.found[agreed]
		e.shed(d, c, Limit{Kind: v.s.Tasks[c.task].Kind, For: e.cfg.LimitFor})
	}
	switch {
	case d.Soon > 0:
	case e.cancels.pending.active && e.replaced():
		d.Soon = e.cfg.Objective / 4
	case d.State == Suspect:
		d.Soon = e.cfg.Objective // for sources that look less often while nothing is wrong
	}
	e.list(v, best)
	d.Blame, d.Candidates = e.blame, e.candidates
}

// confirmSamples is how many samples at most must agree; fewer do, but two, if
// they span half an objective, for which no burst of short requests lasts.
const confirmSamples = 3

// agree counts how many samples in a row led to the same pick. Where several tasks
// hog a resource together, each of them is the same pick, and so is the next task
// of a kind that only culprits have: a culprit may come in many short tasks.
func (e *Engine) agree(v *view, best int, several, brief bool) {
	a := &e.agreed
	if best < 0 {
		// Where nobody is in flight nobody disagrees. A single sample that disagrees may
		// have come between two short tasks of the culprit.
		if v.inFlight == 0 {
			a.against--
		}
		a.disagree(v.dt)
		return
	}
	now := agreement{samples: 1, task: v.s.Tasks[e.found[best].task].ID, several: several}
	if brief || !e.innocents(v, &e.found[best]) {
		now.kind = v.s.Tasks[e.found[best].task].Kind
	}
	if a.samples > 0 && (a.task == now.task || a.several && several || a.kind != 0 && a.kind == now.kind) {
		now.samples, now.span = a.samples+1, a.span+v.dt
	}
	e.agreed = now
}

// disagree enters a sample without a pick. The second in a row ends the agreement.
func (a *agreement) disagree(dt time.Duration) {
	a.against++
	if a.span += dt; a.samples == 0 || a.against > 1 {
		*a = agreement{}
	}
}

// confirmed reports whether n samples over a time are enough to act on.
func (e *Engine) confirmed(n int, span time.Duration) bool {
	return n >= confirmSamples || n >= 2 && span >= e.cfg.Objective/2
}

// stateOf names the state of a suspect sample. Without a pick it is overload, or a
// culprit that has a name and must be left alone, once as many samples say so as a
// pick would need.
func (e *Engine) stateOf(why Why, best int) State {
	switch {
	case best >= 0, !e.confirmed(e.suspect, time.Duration(e.suspect-1)*e.view.dt):
		return Suspect
	case why == Brief && e.agreed.samples < confirmSamples: // what is kept out is not looked at again
		return Suspect
	case why == Brief, why == Fixed, why == BarredTask, why == Dear, why == Monitoring:
		return Named
	}
	return Overload
}

// learn enters a normal sample.
func (n *normal) learn(v *view, w *recent, before *looked, objective time.Duration) {
	weight := n.weight(v.dt)
	for len(n.lost) < v.r {
		n.lost, n.usual, n.held = append(n.lost, 0), append(n.usual, 0), append(n.held, 0)
	}
	for r := range v.r {
		n.held[r] -= weight * n.held[r]
	}
	for i := range v.uses {
		n.held[v.s.Holds[i].Resource] += weight * v.uses[i].now
	}
	n.inFlight += weight * (float64(v.inFlight-v.hogging) - n.inFlight)
	n.taken += weight * (v.s.Taken - n.taken)
	_, busy := lateTasks(v)
	n.busy += weight * (float64(busy) - n.busy)
	for r := range v.r {
		if v.inFlight > 0 {
			n.lost[r] += weight * (v.lostTo[r]/float64(v.inFlight) - n.lost[r])
		}
	}
	for i, gone := range v.gone {
		if gone {
			n.remember(before.kinds[i], v.s.At)
		}
	}
	for _, k := range before.kept { // a culprit in the making has not ended
		if v.gone[k.task] && int(k.resource) < v.r {
			first := k.amount
			if kind := v.s.Resources[k.resource].Kind; kind == Lock || kind == Queue {
				first = objective.Seconds() / rare // makes no task usual that is old enough to be judged
			}
			n.use(int(k.resource), k.amount, first)
		}
	}
	n.rises(v.dt, w.throughput())
	n.seenMore(v.dt, w.throughput())
}

// seenMore enters a throughput and the time that it was seen for.
func (n *normal) seenMore(dt time.Duration, throughput float64) {
	n.observe(n.weight(dt), throughput)
	n.seen += dt
}
