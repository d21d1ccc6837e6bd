package live

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/readmit"
	"github.com/spillgate/spillgate/internal/wire"
)

// CulpritConfig says how a gate looks for requests that keep others waiting. Its zero
// value watches and cancels nothing.
type CulpritConfig struct {
	// Mode is culprit.Monitor by default: it names culprits. Enforce cancels them,
	// where the gate enforces as well; its victims then wait while suddenly nothing ends,
	// where the delay AQM would refuse them: see admission.Config.Hold.
	Mode culprit.Mode
	// Engine has the thresholds and caps. Its Objective and Mode are not used.
	Engine culprit.Config
	// Every is the time between two looks, 10 ms to 1 s. Default: a quarter of the
	// objective, but 50 to 100 ms. Shorter finds culprits sooner; a look takes about a
	// microsecond a request.
	Every time.Duration
	// Readmit says when a request that was cancelled may be sent again. Its Objective is
	// not used.
	Readmit readmit.Config
	// Audit, if not nil, gets a line of JSON for each look of an incident, from which its
	// decisions can be computed again: see package audit. What a Write that fails had is lost, and
	// the next one begins the log anew.
	Audit io.Writer
	// Source is what the lines of Audit call the gate. Default GateConfig.Service.
	Source string
	// Notify, if set, is told what is decided. It must not call Culprits, SetObjective or Close of the gate, which wait
	// for it. It is called outside the locks of the gate,
	// from one goroutine at a time, and must not block.
	Notify func(CulpritNotice)
}

// CulpritNotice tells that a culprit was named or cancelled, what came of it, or that the
// state has changed.
type CulpritNotice struct {
	// State is the state now, and Why what keeps the engine from acting.
	State culprit.State
	Why   culprit.Why
	// Step is what was done, culprit.NoStep if nothing, and Would says that it only would
	// have been.
	Step  culprit.Step
	Would bool
	// Kind is what the culprit does, "" if there is none. Resource is what it holds,
	// Score its part of the time that others lose, 0 to 1, Victims how many wait for it,
	// and Age how long it has been there.
	Kind     string
	Resource string
	Score    float64
	Victims  float64
	Age      time.Duration
	// Verdict is what came of an earlier cancel, culprit.Pending if nothing yet, After
	// what time.
	Verdict culprit.Verdict
	After   time.Duration
}

// numVerdicts is the number of verdicts.
const numVerdicts = int(culprit.Ignored) + 1

// CulpritStats is what a gate knows of culprits.
type CulpritStats struct {
	Mode  culprit.Mode
	State culprit.State
	Why   culprit.Why
	// Named counts culprits that were named: cancelled, or would have been. Cancels
	// counts those that were, Would those that would have been.
	Cancels, Would uint64
	// Outcomes counts what cancels came to, by culprit.Verdict.
	Outcomes [numVerdicts]uint64
	// Limits is how many kinds of requests may not begin at present, Tokens how many
	// requests were cancelled and may be sent again.
	Limits, Tokens int
	// Unwritten counts lines of the audit log that were lost.
	Unwritten uint64
}

func (c *CulpritConfig) check(objective time.Duration) error {
	if c.Every != 0 && (c.Every < 10*time.Millisecond || c.Every > time.Second) {
		return fmt.Errorf("live: Culprit.Every is %v, expected 10ms to 1s, or 0 for the default", c.Every)
	}
	if c.Mode > culprit.Off {
		return fmt.Errorf("live: Culprit.Mode is %d, expected Monitor, Enforce or Off", c.Mode)
	}
	return nil
}

// every is the time between two looks.
func (c *CulpritConfig) every(objective time.Duration) time.Duration {
	if c.Every != 0 {
		return c.Every
	}
	return min(max(objective/4, 50*time.Millisecond), 100*time.Millisecond)
}

// hold is for how long the gate keeps victims when suddenly nothing ends: those that wait
// are late after an objective, the next look sees it, and as much again is left for looks
// and timers that come late. 0 if nothing is cancelled in any mode of the gate.
func (c *CulpritConfig) hold(objective time.Duration) time.Duration {
	if c.Mode != culprit.Enforce || objective <= 0 {
		return 0
	}
	return 2 * (objective + c.every(objective))
}

// restAfter is how many looks at an empty gate come before nobody looks any more: until
// then the end of an incident is seen.
const restAfter = 20

// finder looks for culprits in a gate. A timer runs look; nothing runs while the gate is
// empty.
type finder struct {
	gate   *Gate
	cfg    CulpritConfig // as configured
	every  time.Duration // written with mu and the gate's lock, so either is enough to read it
	notify func(CulpritNotice)
	log    *audit.Lines // nil: none

	mu         sync.Mutex // before that of the gate
	closed     bool
	timer      *time.Timer
	recorder   *audit.Recorder
	engine     culprit.Config
	mode       culprit.Mode // where the gate enforces
	begun      bool         // the log
	sample     culprit.Sample
	kinds      []what // of the sample's tasks, at the same indices
	last       mono.Time
	empty      int // looks in a row that saw nothing
	file       file
	starvation culprit.Starvation
	busy       busy
	stats      CulpritStats
}

// find begins to look for culprits.
func (g *Gate) find(cfg CulpritConfig, objective time.Duration, service string) error {
	if cfg.Mode == culprit.Off {
		return cfg.check(objective)
	}
	engine := cfg.Engine
	engine.Objective, engine.Mode = objective, g.culpritMode(cfg.Mode)
	if cfg.Source == "" {
		cfg.Source = service
	}
	recorder, errEngine := audit.NewRecorder(cfg.Source, engine)
	cfg.Readmit.Objective = objective
	list, errReadmit := readmit.New(cfg.Readmit)
	if err := errors.Join(cfg.check(objective), errEngine, errReadmit); err != nil {
		return err
	}
	f := &finder{gate: g, cfg: cfg, every: cfg.every(objective), notify: cfg.Notify, recorder: recorder, engine: engine, mode: cfg.Mode}
	if cfg.Audit != nil {
		f.log = audit.NewLines(cfg.Audit)
	}
	f.stats.Mode = engine.Mode
	f.timer = time.AfterFunc(time.Hour, f.look)
	f.timer.Stop()
	g.finder, g.cancels = f, cfg.Mode == culprit.Enforce
	g.tasks = tasks{on: true, readmit: list, resting: true, wake: func() { f.timer.Reset(f.every) }}
	return nil
}

// culpritMode returns what is done with culprits at present: what a gate that does not enforce
// refuses nobody, it cancels nobody either.
func (g *Gate) culpritMode(configured culprit.Mode) culprit.Mode {
	if Mode(g.mode.Load()) != Enforce {
		return culprit.Monitor
	}
	return configured
}

// ObserveCulprits has f told from now on what is decided about culprits, as CulpritConfig.Notify is, which still is told
// first. Like that, f is called from one goroutine at a time and must not block. A gate that looks for none tells nothing.
func (g *Gate) ObserveCulprits(f func(CulpritNotice)) {
	finder := g.finder
	if finder == nil {
		return
	}
	finder.mu.Lock()
	defer finder.mu.Unlock()
	first := finder.notify
	finder.notify = func(n CulpritNotice) {
		if first != nil {
			first(n)
		}
		f(n)
	}
}

// follow has the engine work in the mode of the gate, which may change at any time.
func (f *finder) follow() {
	mode := f.gate.culpritMode(f.mode)
	if mode == f.stats.Mode {
		return
	}
	f.engine.Mode, f.stats.Mode = mode, mode
	if lines, _ := f.recorder.Configure(f.engine); f.begun { // what was accepted is in every mode
		f.write(lines)
	}
}

// retune has a new engine look for culprits at the gate's objective, which has changed: what the old one knew is
// about the old objective. Its log goes on with the new configuration.
func (f *finder) retune() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	objective, engine := f.gate.Objective(), f.engine
	engine.Objective = objective
	recorder, err := audit.NewRecorder(f.cfg.Source, engine)
	if err != nil {
		return err
	}
	f.engine, f.recorder, f.begun = engine, recorder, false
	f.gate.mu.Lock()
	defer f.gate.mu.Unlock()
	f.every = f.cfg.every(objective)
	f.cfg.Readmit.Objective = objective
	f.gate.tasks.readmit.SetConfig(f.cfg.Readmit)
	return nil
}

// RenewAudit calls end, which ends the file that CulpritConfig.Audit writes to, between two looks. What is written after that can be computed again
// without what was written before.
func (g *Gate) RenewAudit(end func()) {
	f := g.finder
	if f == nil {
		end()
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	end()
	f.begun = false
}

// close ends the looks. One that is under way ends first.
func (f *finder) close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.timer.Stop()
}

// look takes one look and does what follows from it.
func (f *finder) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.follow()
	if f.empty > restAfter { // it rested, and nothing was inside: so the time is no stall
		f.empty = 0
		if now := Now().Add(-f.every); now > f.last {
			f.clear(now)
			f.observe()
		}
	}
	f.see()
	d := f.observe()
	notice := f.act(d)
	clear(f.kinds)
	rest := f.settle(d)
	if f.notify != nil && notice != nil {
		f.notify(*notice)
	}
	if !rest {
		f.timer.Reset(f.every)
	}
}

// clear begins a sample.
func (f *finder) clear(now mono.Time) {
	s := &f.sample
	s.At, s.Blind, s.Taken, s.Finished = now, "", 0, culprit.Finished{}
	s.Tasks, s.Holds = s.Tasks[:0], s.Holds[:0]
	s.Resources = append(s.Resources[:0], culprit.Resource{Name: "slots", Kind: culprit.Queue})
	s.Resources = append(s.Resources, f.file.resources...)
	f.kinds = f.kinds[:0]
	f.last = now
}

// see fills the sample.
func (f *finder) see() {
	g := f.gate
	g.mu.Lock()
	now := g.now()
	f.clear(now)
	others, lack, measured := g.others, g.lack, g.othersAt
	f.kinds = g.tasks.show(now, g.cancels, &f.sample, f.kinds)
	g.node.Look(now)
	g.mu.Unlock()
	f.kinds = f.file.see(&f.sample, f.kinds, g.Objective())
	if now.Sub(measured) > 2*hostGap || measured == 0 { // nothing measures how long bytes lie in sockets
		f.busy.look(now)
		others, lack = f.busy.others, f.busy.lack
	}
	f.starvation.Enter(&f.sample, -1, min(others, 1), 0, lack)
}

// observe has the engine decide, and writes down what it decided.
func (f *finder) observe() *culprit.Decision {
	if f.log != nil && !f.begun {
		f.begun = true
		f.write(f.recorder.Begin())
	}
	d, lines := f.recorder.Observe(&f.sample)
	if f.begun { // else nothing could be computed from them: the beginning was not written
		f.write(lines)
	}
	return d
}

func (f *finder) write(lines []byte) {
	if f.log == nil || len(lines) == 0 {
		return
	}
	if f.log.Append(lines) != nil {
		f.stats.Unwritten++
		f.begun = false
	}
}

// act carries out a decision and returns what is to be told of it, if anything.
func (f *finder) act(d *culprit.Decision) *CulpritNotice {
	var told *CulpritNotice
	n := CulpritNotice{State: d.State, Why: d.Why, Step: d.Action.Step, Would: d.Action.Would}
	if d.State != f.stats.State && max(d.State, f.stats.State) >= culprit.Overload {
		told = &n
	}
	f.stats.State, f.stats.Why = d.State, d.Why
	if d.State >= culprit.Overload || d.Action.Task != 0 {
		f.name(d, &n)
	}
	if v := d.Outcome.Verdict; v != culprit.Pending {
		n.Verdict, n.After = v, d.Outcome.After
		f.stats.Outcomes[v]++
		told = &n
	}
	switch {
	case d.Action.Step == culprit.NoStep:
		if !n.Would {
			f.gate.mu.Lock()
			f.gate.limit(f.gate.now(), d.Action.Limit)
			f.gate.mu.Unlock()
		}
		return told
	case n.Would || !f.cancel(d, n.Resource):
		n.Would = true
		f.stats.Would++
	default:
		f.stats.Cancels++
	}
	return &n
}

// name says who is acted on, or who the first candidate is. A task of a limited kind is acted on
// without being a candidate.
func (f *finder) name(d *culprit.Decision, n *CulpritNotice) {
	who := d.Action.Task
	if who == 0 && len(d.Candidates) > 0 {
		who = d.Candidates[0].Task
	}
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Task == who {
			n.Score, n.Victims, n.Resource = c.Score, c.Victims, f.sample.Resources[c.Resource].Name
		}
	}
	for at := range f.sample.Tasks {
		if t := &f.sample.Tasks[at]; who != 0 && t.ID == who {
			n.Age, n.Kind = f.sample.At.Sub(t.Started), f.kindOf(at)
		}
	}
}

// kindOf returns what a task of the sample does.
func (f *finder) kindOf(at int) string {
	if k := f.kinds[at]; k.request {
		return k.String()
	}
	return f.file.kindOf(f.sample.Tasks[at].Kind)
}

// cancel cancels the task of an action, limits its kind if the action says so, and reports
// false if there is nothing to cancel any more. The limit comes before the request hears of
// its cancel: its client may send it again at once.
func (f *finder) cancel(d *culprit.Decision, resource string) bool {
	g := f.gate
	tell, ok := func(error) {}, false
	var token wire.Token
	_, _ = rand.Read(token[:]) // never fails
	g.mu.Lock()
	now := g.now()
	switch {
	case Mode(g.mode.Load()) != Enforce: // since the look began
	case d.Action.Task >= fileTask:
		ok = f.file.cancel(d.Action.Task)
	default:
		var t *Ticket
		tell, t = g.cancelOf(now, d.Action.Task, token)
		ok = t != nil
	}
	if ok {
		g.limit(now, d.Action.Limit)
	}
	g.mu.Unlock()
	if ok {
		tell(cause(resource))
	}
	return ok
}

// limit lets no request of a kind begin for a while, if the gate cancels requests. It is
// called with the lock held.
func (g *Gate) limit(now mono.Time, l culprit.Limit) {
	if l.Kind != 0 && g.cancels {
		g.tasks.readmit.Limit(l.Kind, now.Add(l.For))
	}
}

// settle ends a look, and reports true if nobody needs to look until somebody comes.
func (f *finder) settle(d *culprit.Decision) bool {
	g := f.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.cancels:
	case d.Suspects():
		g.node.Suspect(g.now())
	case d.Doubts():
		g.node.Doubt(g.now())
	}
	g.tasks.readmit.Observe(f.sample.At, d.State == culprit.Normal || d.State == culprit.Idle)
	f.stats.Limits, f.stats.Tokens = g.tasks.readmit.Limits(), g.tasks.readmit.Tokens()
	f.empty++
	if len(f.sample.Tasks) > 0 || f.sample.Finished != (culprit.Finished{}) || d.State > culprit.Normal || g.tasks.head != nil || f.stats.Limits > 0 {
		f.empty = 0
	}
	g.tasks.resting = f.empty > restAfter
	return g.tasks.resting
}

// Culprits returns what the gate knows of culprits; Mode is culprit.Off if it looks for
// none.
func (g *Gate) Culprits() CulpritStats {
	f := g.finder
	if f == nil {
		return CulpritStats{Mode: culprit.Off}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}
