package guard

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// Status is what a guard knows at one instant. Durations are in seconds.
type Status struct {
	Server    string  `json:"server"`
	Mode      string  `json:"mode"`
	Objective float64 `json:"slo_seconds"`
	// State is connecting, blind, or a state of the engine.
	State     string `json:"state"`
	Why       string `json:"why,omitempty"`
	Connected bool   `json:"connected"`
	// Blind says why nothing can be seen.
	Blind string `json:"blind,omitempty"`
	// Notes say what a lack of rights hides.
	Notes []string `json:"notes,omitempty"`
	// InFlight, Late and Stuck count foreground tasks: all, those older than the
	// objective, those of them that wait.
	InFlight   int     `json:"in_flight"`
	Late       int     `json:"late"`
	Stuck      int     `json:"stuck"`
	Throughput float64 `json:"throughput_per_second"`
	Baseline   float64 `json:"baseline_per_second"`
	LookTime   float64 `json:"look_seconds"`
	// Lost is the share of in-flight time that each resource costs.
	Lost       map[string]float64 `json:"lost,omitempty"`
	Candidates []CandidateStatus  `json:"candidates,omitempty"`
	// Holding and Waiting are the holders and the waiters now, longest first, at most
	// shownTasks of each.
	Holding []Present `json:"holding,omitempty"`
	Waiting []Present `json:"waiting,omitempty"`
	// KeptOut are the kinds of which no other should begin for now, in mode enforce.
	KeptOut []KeptOut `json:"kept_out,omitempty"`
	// Cancels are the last ones, newest last.
	Cancels []Cancel `json:"cancels,omitempty"`
}

// CandidateStatus is a task that others wait for.
type CandidateStatus struct {
	Task
	Resource string  `json:"resource"`
	Score    float64 `json:"score"`
	Victims  float64 `json:"victims"`
	Net      float64 `json:"net_victim_seconds"`
	// Why says why it is not cancelled.
	Why string `json:"why,omitempty"`
}

// Present is a task that holds or waits for something now.
type Present struct {
	Task
	Resource string  `json:"resource"`
	For      float64 `json:"for_seconds"`
	// Behind is the process that a waiting task is behind, 0 if unknown.
	Behind int64 `json:"behind,omitempty"`
}

// shownTasks is how many holders and waiters a status lists.
const shownTasks = 8

// present describes who holds or waits.
func (g *Guard) present(l *track.Look, list []culprit.Stake) (all []Present) {
	for _, p := range list {
		out := Present{Task: g.task(l, int(p.Task)), Resource: l.Sample.Resources[p.Resource].Name, For: p.For.Seconds()}
		if p.Blocker >= 0 {
			out.Behind = l.Sessions[p.Blocker].Process
		}
		all = append(all, out)
	}
	return all
}

// Task is a task as people are told of it.
type Task struct {
	ID          uint64  `json:"task"`
	Process     int64   `json:"process"`
	User        string  `json:"user,omitempty"`
	Application string  `json:"application,omitempty"`
	Database    string  `json:"database,omitempty"`
	Client      string  `json:"client,omitempty"`
	Fingerprint string  `json:"fingerprint"`
	Kind        string  `json:"kind"`
	State       string  `json:"state,omitempty"`
	Age         float64 `json:"age_seconds"`
	// Statement is there if texts are asked for.
	Statement string `json:"statement,omitempty"`
}

// Cancel is one that was done, or in mode monitor would have been.
type Cancel struct {
	Task
	At   time.Time `json:"at"`
	Step string    `json:"step"`
	// Resource is what it kept from others, Victims how many tasks waited behind it.
	Resource string  `json:"resource,omitempty"`
	Victims  float64 `json:"victims,omitempty"`
	// Would tells that the guard only monitors.
	Would bool `json:"would,omitempty"`
	// Met tells that the task was still there.
	Met bool `json:"met"`
	// Error is what the server said.
	Error string `json:"error,omitempty"`
	// Verdict is what came of it, After in seconds; empty until it is known.
	Verdict string  `json:"verdict,omitempty"`
	After   float64 `json:"after_seconds,omitempty"`
}

// keptCancels is how many cancels a status lists.
const keptCancels = 16

// counts are totals since the guard began.
type counts struct {
	looks, failures             uint64
	cancels, would, gone, wrong [numSteps]uint64 // done; only said; task was gone; server refused
	verdicts                    [numVerdicts]uint64
}

const (
	numSteps    = int(culprit.Session) + 1
	numVerdicts = int(culprit.Ignored) + 1
)

// told is what was logged last, so that it is not logged again.
type told struct {
	failure string
	state   culprit.State
	why     culprit.Why
	since   time.Time
	notes   []string
}

// retell is how long a state that stays is not told again.
const retell = 10 * time.Second

// task describes task i of a look.
func (g *Guard) task(l *track.Look, i int) Task {
	s, t := &l.Sessions[i], &l.Sample.Tasks[i]
	out := Task{ID: t.ID, Process: s.Process, User: s.User, Application: s.Application, Database: s.Database, Client: s.Client,
		Fingerprint: fmt.Sprintf("%016x", s.Statement.Fingerprint), Kind: s.Statement.Class.String(), State: s.State, Age: l.Sample.At.Sub(t.Started).Seconds()}
	if g.cfg.ShowStatements {
		out.Statement = s.Statement.Text
	}
	return out
}

// index returns where a task is in a look, -1 if it is not there.
func index(l *track.Look, task uint64) int {
	return slices.IndexFunc(l.Sample.Tasks, func(t culprit.Task) bool { return t.ID == task })
}

// report enters a decision into status and log.
func (g *Guard) report(l *track.Look, d *culprit.Decision, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, e := &g.status, &d.Evidence
	g.counts.looks++
	s.State, s.Why, s.Connected, s.Blind = d.State.String(), d.Why.String(), true, ""
	s.InFlight, s.Late, s.Stuck, s.Throughput, s.Baseline, s.LookTime = e.InFlight, e.Late, e.Stuck, e.Throughput, e.Baseline, took.Seconds()
	if d.Why == culprit.Blind {
		if err := l.Sample.Check(); err != nil { // the engine cannot use it
			s.State, s.Connected, s.Blind = "blind", false, err.Error()
		}
	}
	g.notes(l.Notes)
	s.Lost, s.Candidates = nil, nil
	for r, b := range d.Blame {
		if b.Lost > 0 {
			if s.Lost == nil {
				s.Lost = map[string]float64{}
			}
			s.Lost[l.Sample.Resources[r].Name] = b.Lost
		}
	}
	s.Holding, s.Waiting = g.present(l, l.Sample.Holding(shownTasks)), g.present(l, l.Sample.Waiting(shownTasks))
	for _, c := range d.Candidates {
		if i := index(l, c.Task); i >= 0 {
			why := c.Why.String()
			if c.Why == culprit.BarredTask {
				why = "barred: " + c.Barred.String()
			}
			s.Candidates = append(s.Candidates, CandidateStatus{Task: g.task(l, i), Resource: l.Sample.Resources[c.Resource].Name, Score: c.Score, Victims: c.Victims, Net: c.Net, Why: why})
		}
	}
	g.keepOut(l, d, time.Now())
	g.outcome(d.Outcome)
	g.transition(d)
	if a := d.Action; a.Step != culprit.NoStep && a.Would {
		if i := index(l, a.Task); i >= 0 {
			g.counts.would[a.Step]++
			g.note(Cancel{Task: g.task(l, i), At: time.Now(), Step: a.Step.String(), Would: true, Met: true})
		}
	}
}

// notes logs what a lack of rights hides, when it changes. The lock is held.
func (g *Guard) notes(notes []string) {
	if slices.Equal(notes, g.told.notes) {
		return
	}
	g.told.notes = slices.Clone(notes)
	g.status.Notes = g.told.notes
	for _, n := range notes {
		g.log.Warn(n)
	}
}

// transition logs a state that is new, or that has gone on for long. The lock is held.
func (g *Guard) transition(d *culprit.Decision) {
	quiet := d.State == culprit.Idle || d.State == culprit.Normal || d.State == culprit.Suspect
	same := d.State == g.told.state && d.Why == g.told.why
	switch was := g.told.state; {
	case quiet && (was == culprit.Named || was == culprit.Cancelled || was == culprit.Overload || was == culprit.GivenUp) && d.State != culprit.Suspect:
		g.log.Info("the objective is met again", slog.Float64("throughput", d.Evidence.Throughput))
	case quiet, same && time.Since(g.told.since) < retell:
		if quiet && d.State != culprit.Suspect {
			g.told.state, g.told.why = d.State, d.Why
		}
		return
	default:
		attrs := []any{slog.String("state", d.State.String()), slog.String("why", d.Why.String()), slog.Int("in_flight", d.Evidence.InFlight),
			slog.Int("late", d.Evidence.Late), slog.Int("stuck", d.Evidence.Stuck), slog.Float64("throughput", d.Evidence.Throughput), slog.Float64("baseline", d.Evidence.Baseline)}
		if len(g.status.Candidates) > 0 {
			attrs = append(attrs, g.status.Candidates[0].attr("first"))
		}
		g.log.Warn("the objective is missed", attrs...)
	}
	g.told.state, g.told.why, g.told.since = d.State, d.Why, time.Now()
}

// attr describes a task to the log.
func (t *Task) attr(name string) slog.Attr {
	attrs := []any{slog.Int64("process", t.Process), slog.String("user", t.User), slog.String("application", t.Application),
		slog.String("fingerprint", t.Fingerprint), slog.String("kind", t.Kind), slog.String("state", t.State), slog.Float64("age_seconds", t.Age)}
	if t.Statement != "" {
		attrs = append(attrs, slog.String("statement", t.Statement))
	}
	return slog.Group(name, attrs...)
}

// outcome enters what came of an earlier cancel. The lock is held.
func (g *Guard) outcome(o culprit.Outcome) {
	if o.Verdict == culprit.Pending || int(o.Verdict) >= numVerdicts {
		return
	}
	g.counts.verdicts[o.Verdict]++
	c := &Cancel{Task: Task{ID: o.Task}, Step: o.Step.String(), Met: true} // if so many came after it that it is not kept
	for i := range g.status.Cancels {
		if one := &g.status.Cancels[i]; one.ID == o.Task && one.Verdict == "" {
			c = one
		}
	}
	c.Verdict, c.After = o.Verdict.String(), o.After.Seconds()
	g.audit.event(g.cfg.Name, "outcome", c)
	g.log.Info("cancel verified", slog.Uint64("task", o.Task), slog.String("verdict", o.Verdict.String()), slog.Duration("after", o.After))
}

// note adds a cancel to status, log and audit. The lock is held.
func (g *Guard) note(c Cancel) {
	for i := range g.status.Candidates {
		if one := &g.status.Candidates[i]; one.ID == c.ID {
			c.Resource, c.Victims = one.Resource, one.Victims
		}
	}
	if len(g.status.Cancels) == keptCancels {
		g.status.Cancels = slices.Delete(g.status.Cancels, 0, 1)
	}
	g.status.Cancels = append(g.status.Cancels, c)
	word := "cancelled"
	switch {
	case c.Would:
		word = "would cancel"
	case c.Error != "":
		word = "cancel failed"
	case !c.Met:
		word = "cancel came too late"
	}
	g.audit.event(g.cfg.Name, word, &c)
	if g.OnCancel != nil && c.Met {
		g.OnCancel(c)
	}
	attrs := []any{slog.String("step", c.Step), slog.String("resource", c.Resource), slog.Float64("victims", c.Victims), c.attr("culprit")}
	if c.Error != "" {
		attrs = append(attrs, slog.String("error", c.Error))
	}
	g.log.Warn(word, attrs...)
}

// acted enters what a cancel did.
func (g *Guard) acted(l *track.Look, a culprit.Action, met bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := index(l, a.Task)
	if i < 0 || int(a.Step) >= numSteps {
		return
	}
	c := Cancel{Task: g.task(l, i), At: time.Now(), Step: a.Step.String(), Met: met}
	switch {
	case err != nil:
		c.Error = err.Error()
		g.counts.wrong[a.Step]++
	case met:
		g.counts.cancels[a.Step]++
	default:
		g.counts.gone[a.Step]++
	}
	g.note(c)
}

// Status returns what is known now.
func (g *Guard) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	mode, why := g.wanted() // also while no look succeeds
	if s.Mode = mode.String(); why != "" {
		s.Mode += " (" + why + ")"
	}
	s.KeptOut = g.keptOut(mode, time.Now())
	s.Candidates, s.Cancels, s.Notes = slices.Clone(s.Candidates), slices.Clone(s.Cancels), slices.Clone(s.Notes)
	return s
}
