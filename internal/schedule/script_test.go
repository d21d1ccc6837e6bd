package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// job is a task of a script and what comes of it.
type job struct {
	Task
	name string
	uses time.Duration // of the resource; as estimated unless the script says otherwise
	then time.Duration // what the request needs elsewhere afterwards
}

// script is a queue in front of one worker.
type script struct {
	q    *Queue
	now  time.Duration
	jobs map[string]*job
}

// TestQueue runs the narrated scripts under testdata/queue.
func TestQueue(t *testing.T) {
	datadriven.Walk(t, "testdata/queue", func(t *testing.T, path string) {
		s := &script{jobs: map[string]*job{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	var text string
	if d.MaybeScanArgs(t, "at", &text) {
		s.now = duration(t, d, text)
	}
	named := func(key string) *job {
		d.ScanArgs(t, key, &text)
		if s.jobs[text] == nil {
			d.Fatalf(t, "no task %q", text)
		}
		return s.jobs[text]
	}
	switch d.Cmd {
	case "queue":
		s.q = mustNew(t, s.config(t, d))
	case "push":
		for line := range strings.Lines(d.Input) {
			s.push(t, d, line)
		}
	case "serve": // one task after another, as many as there are or so many
		count := s.q.Len()
		d.MaybeScanArgs(t, "count", &count)
		for count > 0 {
			task, run := s.q.Next(at(s.now))
			if task == nil {
				break
			}
			if run {
				count--
			}
			s.serve(&out, task.Owner.(*job), run)
		}
	case "next": // dispatched, and not done
		if task, run := s.q.Next(at(s.now)); task == nil {
			out.WriteString("nothing\n")
		} else {
			fmt.Fprintf(&out, "%s: run=%v\n", task.Owner.(*job).name, run)
		}
	case "charge", "settle":
		j := named("task")
		d.ScanArgs(t, "used", &text)
		if d.Cmd == "charge" {
			s.q.Charge(&j.Task, duration(t, d, text))
		} else {
			s.q.Settle(&j.Task, duration(t, d, text))
		}
	case "again": // the same task, for its next stage
		j := named("task")
		j.Arrived = 0
		s.q.Push(at(s.now), &j.Task)
	case "inherit":
		fmt.Fprintf(&out, "helped: %v\n", s.q.Inherit(&named("holder").Task, &named("waiter").Task))
	case "release":
		fmt.Fprintf(&out, "took back: %v\n", s.q.Release(&named("holder").Task))
	case "weight", "share":
		weight, workflow := 0.0, 0
		d.ScanArgs(t, "to", &text)
		weight, err := strconv.ParseFloat(text, 64)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if d.Cmd == "weight" {
			d.ScanArgs(t, "class", &text)
			s.q.SetWeight(class(t, d, text), weight)
		} else {
			d.ScanArgs(t, "workflow", &workflow)
			s.q.SetShare(workflow, weight)
		}
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	age := time.Duration(0)
	if oldest := s.q.Oldest(); oldest != nil {
		age = at(s.now).Sub(oldest.Arrived)
	}
	fmt.Fprintf(&out, "now=%v waiting=%d age=%v next wake=%v\n", s.now, s.q.Len(), age, s.q.NextWake())
	return out.String()
}

func (s *script) config(t *testing.T, d *datadriven.TestData) Config {
	cfg := Config{Fair: d.HasArg("fair")}
	var text string
	if d.MaybeScanArgs(t, "order", &text) {
		order, err := ParseOrder(text)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		cfg.Order = order
	}
	if d.MaybeScanArgs(t, "quantum", &text) {
		cfg.Quantum = duration(t, d, text)
	}
	if d.MaybeScanArgs(t, "aging", &text) {
		cfg.Aging = duration(t, d, text)
	}
	return cfg
}

// push reads a line such as "a workflow=1 cost=3ms deadline=50ms".
func (s *script) push(t *testing.T, d *datadriven.TestData, line string) {
	fields := strings.Fields(line)
	times := 0
	j := job{Task: Task{Deadline: mono.Never}, name: fields[0], uses: -1}
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		number := func() int {
			n, err := strconv.Atoi(value)
			if err != nil {
				d.Fatalf(t, "%s: %v", field, err)
			}
			return n
		}
		switch key {
		case "workflow":
			j.Workflow = number()
		case "priority":
			j.Priority = work.Priority(number())
		case "times":
			times = number()
		case "class":
			j.Class = class(t, d, value)
		case "deadline":
			j.Deadline = at(duration(t, d, value))
		case "remaining":
			j.Remaining = duration(t, d, value)
		case "total":
			j.Total = duration(t, d, value)
		case "cost":
			j.Cost = duration(t, d, value)
		case "uses":
			j.uses = duration(t, d, value)
		case "then":
			j.then = duration(t, d, value)
		default:
			d.Fatalf(t, "unknown word %q", key)
		}
	}
	if j.uses < 0 {
		j.uses = j.Cost
	}
	for i := range max(times, 1) {
		made := j
		if times > 0 {
			made.name = fmt.Sprintf("%s%d", j.name, i+1)
		}
		made.Owner = &made
		s.jobs[made.name] = &made
		s.q.Push(at(s.now), &made.Task)
	}
}

// serve lets the worker do j, or says that j is dropped.
func (s *script) serve(out *strings.Builder, j *job, run bool) {
	if !run {
		fmt.Fprintf(out, "%s: dropped at %v\n", j.name, s.now)
		return
	}
	start := s.now
	s.now += j.uses
	s.q.Settle(&j.Task, j.uses)
	fmt.Fprintf(out, "%s: %v to %v", j.name, start, s.now)
	if end := s.now + j.then; j.Deadline != mono.Never {
		verdict := "in time"
		if at(end) > j.Deadline {
			verdict = "MISSED"
		}
		fmt.Fprintf(out, ", answered at %v, %s", end, verdict)
	}
	out.WriteString("\n")
}

func duration(t *testing.T, d *datadriven.TestData, text string) time.Duration {
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

func class(t *testing.T, d *datadriven.TestData, text string) work.Class {
	for c := range work.NumClasses {
		if c.String() == text {
			return c
		}
	}
	d.Fatalf(t, "no class %q", text)
	return 0
}
