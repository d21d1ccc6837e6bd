// Package script drives a policy by words, so that a test reads like a story:
//
//	at 5ms            the present is 5 ms after the origin
//	arrive a prio=3 budget=10ms
//	burst q 20        arrivals q1 to q20, counted by verdict
//	leave a dropped   a ends; what leaves the queue then is printed
//	wake              OnWake at the present
//	cancel b
//	submit / reply    the same for a Sender
//	state             whatever the test wants to show
//
// Invariants: the output depends on the script alone.
//
// What this package does not do: it is for tests; no policy imports it.
package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// Script is a policy under test with a present and named requests.
type Script struct {
	// Door or Sender is the policy; the other may be nil.
	Door   baseline.Door
	Sender baseline.Sender
	// State prints what the test wants to show.
	State func() string

	now     mono.Time
	tickets map[string]*admission.Ticket
	waiters map[string]*credit.Waiter
	out     strings.Builder
}

// Run executes the lines of text and returns what they printed.
func (s *Script) Run(text string) string {
	if s.tickets == nil {
		s.tickets, s.waiters = map[string]*admission.Ticket{}, map[string]*credit.Waiter{}
	}
	s.out.Reset()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.do(words); err != nil {
			fmt.Fprintf(&s.out, "error: %s: %v\n", strings.TrimSpace(line), err)
		}
	}
	return s.out.String()
}

func (s *Script) do(words []string) error {
	verb, name := words[0], ""
	if len(words) > 1 {
		name = words[1]
	}
	opts, err := parse(words[min(2, len(words)):])
	if err != nil {
		return err
	}
	switch verb {
	case "at":
		d, err := time.ParseDuration(name)
		s.now = mono.Time(d)
		return err
	case "state":
		s.say("%s", s.State())
	case "wake":
		if s.Door != nil {
			s.Door.OnWake(s.now)
			s.drainDoor()
		}
		if s.Sender != nil {
			s.Sender.OnWake(s.now)
			s.drainSender()
		}
	case "next-wake":
		if s.Door != nil {
			s.say("%v", s.Door.NextWake())
		} else {
			s.say("%v", s.Sender.NextWake())
		}
	case "arrive":
		s.say("%s", s.arrive(name, opts))
		s.drainDoor()
	case "burst":
		counts := map[string]int{}
		for i := range opts.count {
			what := s.arrive(name+strconv.Itoa(i+1), opts)
			_, verdict, _ := strings.Cut(what, ": ")
			counts[verdict]++
		}
		s.sayCounts(counts)
	case "leave", "leaveall":
		return s.leave(verb == "leaveall", name, opts)
	case "cancel":
		if t := s.tickets[name]; t != nil {
			s.say("%v", s.Door.Cancel(s.now, t))
			s.drainDoor()
			return nil
		}
		s.say("%v", s.Sender.Cancel(s.waiters[name]))
	case "submit":
		w := &credit.Waiter{Deadline: opts.deadline(s.now), Owner: name}
		s.waiters[name] = w
		step, reason := s.Sender.Submit(s.now, w, work.Priority(opts.prio))
		s.say("%s: %s", name, stepName(step, reason))
		s.drainSender()
	case "reply":
		f := baseline.Feedback{Level: opts.level, Reason: opts.reason}
		for range max(opts.count, 1) {
			s.Sender.OnReply(s.now, s.waiters[name], opts.rtt, f)
		}
		s.drainSender()
	default:
		return fmt.Errorf("no such verb")
	}
	return nil
}

func (s *Script) arrive(name string, o options) string {
	t := &admission.Ticket{Owner: name}
	t.Priority, t.Deadline = work.Priority(o.prio), o.deadline(s.now)
	s.tickets[name] = t
	return s.verdict(t, s.Door.Arrive(s.now, t))
}

// leave ends one ticket, or with all every one whose name begins so, in the
// order of their numbers.
func (s *Script) leave(all bool, name string, o options) error {
	if !all {
		t := s.tickets[name]
		if t == nil {
			return fmt.Errorf("no such request")
		}
		s.Door.Leave(s.now, t, o.outcome)
		s.drainDoor()
		return nil
	}
	for i := 1; s.tickets[name+strconv.Itoa(i)] != nil; i++ {
		s.Door.Leave(s.now, s.tickets[name+strconv.Itoa(i)], o.outcome)
	}
	s.drainDoor()
	return nil
}

func (s *Script) drainDoor() {
	for {
		t, v := s.Door.Next(s.now)
		if t == nil {
			return
		}
		s.say("%s", s.verdict(t, v))
	}
}

func (s *Script) drainSender() {
	for {
		w, step, reason := s.Sender.Next(s.now)
		if w == nil {
			return
		}
		s.say("%v: %s", w.Owner, stepName(step, reason))
	}
}

func (s *Script) verdict(t *admission.Ticket, v admission.Verdict) string {
	switch v {
	case admission.Shed:
		return fmt.Sprintf("%v: shed, %v", t.Owner, t.Reason())
	case admission.Run:
		if q := t.Queued(); q > 0 {
			return fmt.Sprintf("%v: run after %v", t.Owner, q)
		}
	}
	return fmt.Sprintf("%v: %v", t.Owner, v)
}

func (s *Script) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// sayCounts prints the verdicts of a burst, in a fixed order.
func (s *Script) sayCounts(counts map[string]int) {
	var parts []string
	order := []string{"run", "wait"}
	for r := range work.NumReasons {
		order = append(order, "shed, "+work.Reason(r).String())
	}
	for _, what := range order {
		if n := counts[what]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	s.say("%s", strings.Join(parts, "; "))
}

func stepName(step credit.Step, r work.Reason) string {
	switch step {
	case credit.Send:
		return "send"
	case credit.Refuse:
		return "refuse, " + r.String()
	}
	return "wait"
}

// options are the words after a verb and a name.
type options struct {
	count, prio, level int
	budget, rtt        time.Duration
	reason             work.Reason
	outcome            work.Outcome
}

func (o options) deadline(now mono.Time) mono.Time {
	if o.budget == 0 {
		return mono.Never
	}
	return now.Add(o.budget)
}

func parse(words []string) (o options, err error) {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "prio":
			o.prio, err = strconv.Atoi(value)
		case "level":
			o.level, err = strconv.Atoi(value)
		case "budget":
			o.budget, err = time.ParseDuration(value)
		case "rtt":
			o.rtt, err = time.ParseDuration(value)
		case "refused":
			o.reason = work.Delay
		case "dropped":
			o.outcome = work.Dropped
		case "ignored":
			o.outcome = work.Ignored
		default:
			o.count, err = strconv.Atoi(word)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}
