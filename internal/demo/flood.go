package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
)

// FeedPlan is the act of the broker: topics that keep to their rate and one that floods,
// first without limits and then with one for each topic. Lengths are whole numbers of
// quarters of a second.
type FeedPlan struct {
	// Topics send Rate messages/s each, Poisson, to a consumer that takes Work for a
	// message, whichever topic it is of.
	Topics int
	Rate   float64
	Work   time.Duration
	// Flood is the messages/s of the one more topic that floods.
	Flood float64
	// Limit and Burst are those of each topic in the second run, Queue is the most
	// messages of a topic that wait.
	Limit, Burst float64
	Queue        int
	// The flood comes after Calm and lasts Flooded; After is what follows.
	Calm, Flooded, After time.Duration
}

// Length returns how long one run takes.
func (p FeedPlan) Length() time.Duration { return p.Calm + p.Flooded + p.After }

// Load returns the messages/s of the topics that keep to their rate.
func (p FeedPlan) Load() float64 { return float64(p.Topics) * p.Rate }

// FeedAct is the two runs in which one topic floods a broker.
type FeedAct struct {
	Topics int     `json:"topics"`
	Rate   float64 `json:"rate"` // of each topic, messages/s
	WorkMS float64 `json:"work_ms"`
	Flood  float64 `json:"flood"`
	Limit  float64 `json:"limit"`
	Burst  float64 `json:"burst"`
	// Load is that of the topics that keep to their rate, together.
	Load float64 `json:"load"`
	// Length is that of one run.
	Length float64 `json:"length"`
	// Steps are before the flood, the flood, and after.
	Steps []StepState `json:"steps"`
	// Runs holds the plain one and then the limited one, as far as they began.
	Runs []FeedRun `json:"runs"`
}

// The places of the steps in FeedAct.Steps and in an outcome's.
const (
	BeforeTopic = iota
	DuringTopic
	AfterTopic
	topicSteps
)

// Limited is the name of the second run.
const Limited = "limited"

// FeedRun is one of them, of the topics that keep to their rate.
type FeedRun struct {
	Run
	// Flooded is the messages of the other one.
	Flooded stage.Flooded `json:"flooded"`
}

// Held returns how many messages waited for their rate at last, and how many the broker
// did not take or had no room to deliver.
func (r *FeedRun) Held() (waiting, dropped uint64) {
	for _, s := range r.Services {
		waiting += uint64(s.Waiting)
		for _, n := range s.Shed {
			dropped += n
		}
	}
	return waiting, dropped
}

// Running returns the run that is played, nil if none is. A nil act has none.
func (a *FeedAct) Running() *FeedRun {
	if a == nil {
		return nil
	}
	return running(a.Runs)
}

// Step returns the index of the step that a time of a run falls into.
func (a *FeedAct) Step(elapsed float64) int { return stepAt(a.Steps, elapsed) }

// Complete reports whether both runs have their outcomes. A nil act has not.
func (a *FeedAct) Complete() bool {
	return a != nil && len(a.Steps) == topicSteps && complete(a.Runs, topicSteps)
}

func (a *FeedAct) copy() *FeedAct {
	if a == nil {
		return nil
	}
	out := *a
	out.Runs = clone(a.Runs)
	return &out
}

func newFeedAct(p FeedPlan) *FeedAct {
	from, to, end := p.Calm.Seconds(), (p.Calm + p.Flooded).Seconds(), p.Length().Seconds()
	return &FeedAct{
		Topics: p.Topics, Rate: p.Rate, WorkMS: ms(p.Work), Flood: p.Flood, Limit: p.Limit, Burst: p.Burst, Load: p.Load(), Length: end,
		Steps: []StepState{{"before", 1, 0, from}, {"a flood", 1, from, to}, {"after", 1, to, end}}, Runs: []FeedRun{},
	}
}

// flood plays the act of the broker.
func (d *director) flood(ctx context.Context, c crew) error {
	for _, limited := range []bool{false, true} {
		if err := d.feed(ctx, c, limited); err != nil {
			return err
		}
	}
	return nil
}

// feed plays one run on a broker of its own.
func (d *director) feed(ctx context.Context, c crew, limited bool) error {
	p := d.cfg.Plan.Feed
	part := stage.Broker{Name: "broker"}
	name, note := string(Plain), "act 6: one topic floods the broker; no limits"
	if limited {
		name, note = Limited, "act 6: the same flood, and a rate for each topic"
		part.Rate, part.Burst, part.Queue = p.Limit, p.Burst, p.Queue
	}
	i := 0
	d.update(func(st *State) {
		if st.Feed == nil {
			st.Scene, st.Feed = Flooding, newFeedAct(p)
		}
		st.Note, i = note, len(st.Feed.Runs)
		st.Feed.Runs = append(st.Feed.Runs, FeedRun{Run: newRun(name)})
	})
	change := func(do func(*FeedRun)) {
		d.mu.Lock()
		defer d.mu.Unlock()
		do(&d.state.Feed.Runs[i])
	}
	on := func(l stage.Line) { change(func(r *FeedRun) { r.take(l, p.Length().Seconds()) }) }
	rate := p.Load()
	load := stage.Load{
		Steps: openloop.Profile{{Rate: rate, For: p.Calm}, {Rate: rate, For: p.Flooded}, {Rate: rate, For: p.After}},
		Feed:  &stage.Feed{Topics: p.Topics, Work: p.Work, Flood: p.Flood, FloodAt: p.Calm, FloodFor: p.Flooded},
	}
	if err := d.alone(ctx, c, part.Name, stage.Part{Broker: &part}, load, on); err != nil {
		return err
	}
	ended := false
	change(func(r *FeedRun) { r.Running, ended = false, r.Outcome != nil })
	if !ended {
		return errors.New("demo: the load on the broker ended without a result")
	}
	return nil
}

// take adds what the load or the broker tells.
func (r *FeedRun) take(l stage.Line, length float64) {
	if l.Flooded != nil {
		r.Flooded = *l.Flooded
	}
	r.Run.take(l, length)
}

func (a *FeedAct) invalid() []string {
	if a == nil {
		return nil
	}
	return invalid("broker", a.Runs)
}

// summary says in a sentence what the limits changed.
func (a *FeedAct) summary() string {
	plain, _ := a.Runs[0].During(DuringTopic)
	before, _ := a.Runs[1].During(BeforeTopic)
	after, _ := a.Runs[1].During(DuringTopic)
	return fmt.Sprintf("While one topic sent %.0f messages/s to a broker, the consumer was done in time with %.0f of %.0f messages/s of %d other topics without limits, "+
		"and with %.0f with a limit of %.0f/s for each topic; their p99 was %.0f ms before the flood and %.0f ms in it.",
		a.Flood, plain.Goodput, plain.Offered, a.Topics, after.Goodput, a.Limit, before.P99MS, after.P99MS)
}

// feeds is the table of both runs side by side.
func feeds(s State) *table.Table {
	a := s.Feed
	t := &table.Table{
		Title:   fmt.Sprintf("one topic floods a broker with %.0f messages/s, beside %d topics of %.0f/s", a.Flood, a.Topics, a.Rate),
		Columns: []table.Column{{Name: "the other topics"}, {Name: "plain"}, {Name: Limited}},
	}
	row := func(name string, show func(*FeedRun) string) { t.Add(name, show(&a.Runs[0]), show(&a.Runs[1])) }
	in := func(i int, show func(stage.StepStats) string) func(*FeedRun) string {
		return func(r *FeedRun) string {
			o, _ := r.During(i)
			return show(o)
		}
	}
	goodput := func(o stage.StepStats) string { return fmt.Sprintf("%.0f of %.0f/s", o.Goodput, o.Offered) }
	late := func(o stage.StepStats) string { return p99(o, &s) }
	row("goodput before", in(BeforeTopic, goodput))
	row("goodput in the flood", in(DuringTopic, goodput))
	row("p99 before", in(BeforeTopic, late))
	row("p99 in the flood", in(DuringTopic, late))
	row("given up after "+fmt.Sprintf("%g s", s.TimeoutMS/1000), func(r *FeedRun) string { return fmt.Sprint(r.Totals.TimedOut) })
	row("the flood: sent", func(r *FeedRun) string { return fmt.Sprint(r.Flooded.Sent) })
	row("the flood: came", func(r *FeedRun) string { return fmt.Sprint(r.Flooded.Came) })
	if bad := a.invalid(); len(bad) > 0 {
		t.Note = "This act does not count: " + strings.Join(bad, "; ") + "."
	}
	return t
}

// feedChart returns the picture of the act.
func feedChart(s State) *plot.Chart {
	a := s.Feed
	over := a.Steps[DuringTopic]
	c := &plot.Chart{
		Title: "Latency of the other topics while one floods, p99",
		X:     plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "latency", Unit: "ms", Log: true},
		Spans:  []plot.Span{{Name: over.Name, From: over.From, To: over.To}},
		Levels: []plot.Level{{Name: fmt.Sprintf("SLO %.0f ms", s.SLOMS), At: s.SLOMS}},
	}
	for i := range a.Runs {
		line := plot.Series{Name: a.Runs[i].Name}
		for _, p := range a.Runs[i].Points {
			if p.P99MS > 0 { // nothing came: there is no latency
				line.X, line.Y = append(line.X, p.T), append(line.Y, p.P99MS)
			}
		}
		c.Series = append(c.Series, line)
	}
	return c
}
