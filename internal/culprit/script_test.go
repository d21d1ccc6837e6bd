package culprit

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/mono"
)

// script is an engine that is told a story.
type script struct {
	engine    *Engine
	resources []Resource
}

// TestScripts runs the stories under testdata/engine. Commands:
//
//	engine objective=100ms [mode= trip= persecond= perminute= percompletion= limit= minage= clear=PERCENT choice=]
//	resources table=lock pool=queue disk=(system,OTHERS) …
//	look at=1s [done=N timed=N late=N blind=view anew=true taken=PERCENT]
//	  ID began=INSTANT [kind=] [owner=] [holds=R] [waits=R] [since=INSTANT] [shared] [used=] [gets=]
//	     [behind=INSTANT, since when it waits for more of what it holds] [lost=DURATION, of finished waits] [progress=K/N] [undo=] [starved=] [maystarve=] [barred=] [steps=] [background] [idle] [ending]
//	  WAITER>BLOCKER R
//	calm until=INSTANT every=DURATION done=N          looks in which nobody is in flight
//
// A look prints the state, why, what resources cost, and the candidates. holds= and
// waits= may come several times; since= is that of the last one.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/engine", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "engine":
				return s.begin(t, d)
			case "resources":
				s.resources = nil
				for _, a := range d.CmdArgs {
					for k, name := range kindWords {
						if name == a.Vals[0] {
							r := Resource{Name: a.Key, Kind: Kind(k)}
							switch {
							case len(a.Vals) < 2:
							case r.Kind == Queue:
								r.Units = uint64(number(t, d, a.Vals[1]))
							default:
								r.Others = float64(number(t, d, a.Vals[1]))
							}
							s.resources = append(s.resources, r)
						}
					}
				}
				return ""
			case "look":
				return s.look(t, d)
			case "calm":
				return s.calm(t, d)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

func (s *script) begin(t *testing.T, d *datadriven.TestData) string {
	cfg := Config{Mode: Enforce}
	for _, a := range d.CmdArgs {
		switch v := a.Vals[0]; a.Key {
		case "objective":
			cfg.Objective = duration(t, d, v)
		case "minage":
			cfg.MinAge = duration(t, d, v)
		case "limit":
			cfg.LimitFor = duration(t, d, v)
		case "rearm":
			cfg.Rearm = duration(t, d, v)
		case "mode":
			cfg.Mode = Mode(index(t, d, modeWords[:], v))
		case "clear":
			cfg.Clear = float64(number(t, d, v)) / 100
		case "trip":
			cfg.Trip = number(t, d, v)
		case "persecond":
			cfg.PerSecond = number(t, d, v)
		case "perminute":
			cfg.PerMinute = number(t, d, v)
		case "choice":
			cfg.Choice = Choice(index(t, d, []string{"weighed", "greedy", "present"}, v))
		default:
			d.Fatalf(t, "unknown setting %q", a.Key)
		}
	}
	e, err := New(cfg)
	if err != nil {
		return err.Error()
	}
	s.engine = e
	return ""
}

func (s *script) look(t *testing.T, d *datadriven.TestData) string {
	sample := Sample{Resources: s.resources}
	for _, a := range d.CmdArgs {
		switch v := a.Vals[0]; a.Key {
		case "at":
			sample.At = mono.Time(duration(t, d, v))
		case "done":
			sample.Finished.Count = uint64(number(t, d, v))
			sample.Finished.Timed = sample.Finished.Count
		case "late":
			sample.Finished.Late = uint64(number(t, d, v))
		case "blind":
			sample.Blind = v
		case "taken":
			sample.Taken = float64(number(t, d, v)) / 100
		case "anew":
			sample.Anew = v == "true"
		default:
			d.Fatalf(t, "unknown argument %q", a.Key)
		}
	}
	for _, text := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		if text != "" {
			s.line(t, d, &sample, strings.Fields(text))
		}
	}
	if err := sample.Check(); err != nil {
		d.Fatalf(t, "%v", err)
	}
	return describe(&sample, s.engine.Observe(&sample))
}

// line adds a task or an edge.
func (s *script) line(t *testing.T, d *datadriven.TestData, sample *Sample, words []string) {
	if from, to, ok := strings.Cut(words[0], ">"); ok {
		sample.Edges = append(sample.Edges, Edge{s.task(t, d, sample, from), s.task(t, d, sample, to), s.resource(t, d, words[1])})
		return
	}
	task := Task{ID: uint64(number(t, d, words[0])), Kind: uint64(number(t, d, words[0])), Steps: StepsOf(Statement, Session)}
	first := len(sample.Holds)
	last := func() *Hold {
		if len(sample.Holds) == first {
			d.Fatalf(t, "task %s: a hold's property before holds= or waits=", words[0])
		}
		return &sample.Holds[len(sample.Holds)-1]
	}
	for _, w := range words[1:] {
		key, v, _ := strings.Cut(w, "=")
		switch key {
		case "began":
			task.Started = mono.Time(duration(t, d, v))
		case "owner":
			task.Owner = uint64(number(t, d, v))
		case "kind":
			task.Kind = uint64(number(t, d, v))
		case "progress":
			k, n, _ := strings.Cut(v, "/")
			task.Done, task.Total = uint64(number(t, d, k)), uint64(number(t, d, n))
		case "maystarve":
			task.MayStarve = duration(t, d, v)
		case "starved":
			task.Starved = duration(t, d, v)
		case "undo":
			task.Undo = duration(t, d, v)
		case "barred":
			task.Barred = Bar(index(t, d, barWords[:], v))
		case "steps":
			task.Steps = 0
			for _, step := range strings.Split(v, ",") {
				task.Steps |= StepsOf(Step(index(t, d, stepWords[:], step)))
			}
		case "background":
			task.Background = true
		case "ending":
			task.Ending = true
		case "idle":
			task.Idle = true
		case "holds":
			sample.Holds = append(sample.Holds, Hold{Task: int32(len(sample.Tasks)), Resource: s.resource(t, d, v), Gets: 1, HeldSince: task.Started, WaitingSince: Unset})
		case "waits":
			sample.Holds = append(sample.Holds, Hold{Task: int32(len(sample.Tasks)), Resource: s.resource(t, d, v), Waits: 1, HeldSince: Unset, WaitingSince: task.Started})
		case "uses":
			sample.Holds = append(sample.Holds, Hold{Task: int32(len(sample.Tasks)), Resource: s.resource(t, d, v), HeldSince: Unset, WaitingSince: Unset})
		case "since":
			if h := last(); h.HeldSince != Unset {
				h.HeldSince = mono.Time(duration(t, d, v))
			} else {
				h.WaitingSince = mono.Time(duration(t, d, v))
			}
		case "behind": // another hold of the same resource, while it has one
			last().WaitingSince = mono.Time(duration(t, d, v))
		case "shared":
			last().Shared = true
		case "used":
			last().Used = uint64(number(t, d, v))
		case "gets":
			last().Gets = uint64(number(t, d, v))
		case "evicts":
			last().Waits = uint64(number(t, d, v))
		case "lost":
			last().WaitTime = duration(t, d, v)
		default:
			d.Fatalf(t, "unknown property %q", w)
		}
	}
	sample.Tasks = append(sample.Tasks, task)
}

// calm looks at an application that is quick: whatever ran has ended.
func (s *script) calm(t *testing.T, d *datadriven.TestData) string {
	var until, every, done string
	d.ScanArgs(t, "until", &until)
	d.ScanArgs(t, "every", &every)
	d.ScanArgs(t, "done", &done)
	at := time.Duration(0)
	if s.engine.before.any {
		at = time.Duration(s.engine.before.at)
	}
	var last *Decision
	states := map[State]bool{}
	for at += duration(t, d, every); at <= duration(t, d, until); at += duration(t, d, every) {
		sample := Sample{At: mono.Time(at), Resources: s.resources, Finished: Finished{Count: uint64(number(t, d, done)), Timed: uint64(number(t, d, done))}}
		last = s.engine.Observe(&sample)
		states[last.State] = true
	}
	text := fmt.Sprintf("%v throughput=%.0f baseline=%.0f", last.State, last.Evidence.Throughput, last.Evidence.Baseline)
	if len(states) > 1 {
		text += fmt.Sprintf(" (%d states)", len(states))
	}
	return text
}

// describe prints a decision.
func describe(s *Sample, d *Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", d.State)
	if d.Why != WhyNot {
		fmt.Fprintf(&b, ": %v", d.Why)
	}
	if d.State > Normal {
		fmt.Fprintf(&b, " late=%d stuck=%d", d.Evidence.Late, d.Evidence.Stuck)
	}
	for r, x := range d.Blame {
		if x.Lost > 0.005 || x.Explains > 0.005 {
			fmt.Fprintf(&b, " %s(lost=%.2f explains=%.2f)", s.Resources[r].Name, x.Lost, x.Explains)
		}
	}
	b.WriteString("\n")
	for _, c := range d.Candidates {
		fmt.Fprintf(&b, "  task %d on %s: score=%.2f victims=%.1f remaining=%v net=%.2f", c.Task, s.Resources[c.Resource].Name, c.Score, c.Victims, c.Remaining.Round(10*time.Millisecond), c.Net)
		if c.Dam {
			b.WriteString(" dam")
		}
		if c.Why != WhyNot {
			fmt.Fprintf(&b, " (%v)", c.Why)
		}
		b.WriteString("\n")
	}
	if a := d.Action; a.Step != NoStep || a.Limit.Kind != 0 {
		would := ""
		if a.Would {
			would = "would "
		}
		fmt.Fprintf(&b, "  %saction: task %d %v", would, a.Task, a.Step)
		if a.Limit.Kind != 0 {
			fmt.Fprintf(&b, ", no kind %d for %v", a.Limit.Kind, a.Limit.For)
		}
		b.WriteString("\n")
	}
	if d.Soon > 0 {
		fmt.Fprintf(&b, "  look again in %v\n", d.Soon)
	}
	if o := d.Outcome; o.Verdict != Pending {
		fmt.Fprintf(&b, "  outcome: task %d %v %v after %v\n", o.Task, o.Step, o.Verdict, o.After)
	}
	return b.String()
}

func (s *script) task(t *testing.T, d *datadriven.TestData, sample *Sample, id string) int32 {
	for i := range sample.Tasks {
		if sample.Tasks[i].ID == uint64(number(t, d, id)) {
			return int32(i)
		}
	}
	d.Fatalf(t, "no task %s above", id)
	return 0
}

func (s *script) resource(t *testing.T, d *datadriven.TestData, name string) int32 {
	for i, r := range s.resources {
		if r.Name == name {
			return int32(i)
		}
	}
	d.Fatalf(t, "no resource %q", name)
	return 0
}

func index(t *testing.T, d *datadriven.TestData, words []string, word string) int {
	for i, w := range words {
		if w == word {
			return i
		}
	}
	d.Fatalf(t, "%q is none of %q", word, words)
	return 0
}

func number(t *testing.T, d *datadriven.TestData, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return n
}

func duration(t *testing.T, d *datadriven.TestData, text string) time.Duration {
	x, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return x
}
