package node

import (
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/semaphore"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

const start = mono.Time(time.Second)

// rated returns a node with rates, which decides once a second.
func rated(t testing.TB, cfg Config) *Node {
	t.Helper()
	cfg.Objective, cfg.Number = time.Second, 7
	cfg.Rates = &rates.Config{Period: time.Second, Forget: 10 * time.Second}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// arrive lets a request of a workflow in, which must run.
func arrive(t testing.TB, n *Node, now mono.Time, workflow string, tags Tags) (*admission.Ticket, *Stay) {
	t.Helper()
	ticket, stay := new(admission.Ticket), new(Stay)
	ticket.Workflow, ticket.Deadline = workflow, mono.Never
	n.Describe(now, ticket, &tags, stay)
	if v := n.Arrive(now, ticket); v != admission.Run {
		t.Fatalf("%v, reason %v, expected to run", v, ticket.Reason())
	}
	return ticket, stay
}

func TestEveryMistakeIsReported(t *testing.T) {
	_, err := New(Config{Config: admission.Config{QueueLimit: -1}, Service: "a b", Shares: map[string]float64{"w": -1, "v": 1e99}})
	for _, part := range []string{"Objective", "QueueLimit", "Service", "Schedule.Fair", `Shares["w"]`, `Shares["v"]`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %s: %v", part, err)
		}
	}
	fair := Config{Config: admission.Config{Objective: time.Second, Schedule: schedule.Config{Fair: true, Workflows: 2}}, Shares: map[string]float64{"a": 1, "b": 1}}
	if _, err := New(fair); err == nil || !strings.Contains(err.Error(), "Schedule.Workflows") {
		t.Errorf("more shares than workflows: %v", err)
	}
}

// What a whole request takes is learned where requests enter, and then known of
// the next one that enters; what its tags say counts before that.
func TestTotalsAreOfTheEntry(t *testing.T) {
	n := rated(t, Config{})
	took := progress.Result{Service: 20 * time.Millisecond, Work: 30 * time.Millisecond}
	want := wire.Progress{Service: took.Service, Work: took.Work}
	pass := func(tags Tags) *Stay {
		ticket, stay := arrive(t, n, start, "w", tags)
		n.Took(start, ticket, took, work.Done)
		n.Leave(start, ticket, work.Done)
		n.Feedback(start, ticket)
		return stay
	}
	if s := pass(Tags{Process: 5}); s.Entered || s.Total != (wire.Progress{}) || !s.Measured || !s.Asked {
		t.Errorf("from another process: %+v", s)
	}
	if s := pass(Tags{}); !s.Entered || s.Total != (wire.Progress{}) || !s.Measured || s.Asked {
		t.Errorf("the first to enter: %+v", s)
	}
	if s := pass(Tags{}); s.Total != want {
		t.Errorf("the second to enter is to take %+v, want %+v", s.Total, want)
	}
	told := wire.Progress{Service: time.Hour, Work: time.Hour}
	if s := pass(Tags{Total: told}); s.Total != told || s.Entered {
		t.Errorf("with a total of its own: %+v", s)
	}
	ticket, _ := arrive(t, n, start, "w", Tags{Process: 5, Total: want, Elapsed: wire.Progress{Service: 5 * time.Millisecond, Work: 6 * time.Millisecond}})
	if ticket.Remaining != 15*time.Millisecond || ticket.Total != 30*time.Millisecond || ticket.Done != 6*time.Millisecond {
		t.Errorf("%v remain of %v after %v", ticket.Remaining, ticket.Total, ticket.Done)
	}
}

// What most requests take at least from here on is learned apart for those that enter and
// for those that other processes send, and goes to the queue with the mean.
func TestLeastIsFromHereOn(t *testing.T) {
	n := rated(t, Config{})
	for _, tt := range []struct {
		tags Tags
		took time.Duration
	}{{Tags{}, 20 * time.Millisecond}, {Tags{Process: 5, Total: wire.Progress{Service: time.Second}}, 5 * time.Millisecond}} {
		for _, want := range []time.Duration{0, tt.took} {
			ticket, stay := arrive(t, n, start, "w", tt.tags)
			if stay.Least != want || ticket.Least != max(want, 1) {
				t.Errorf("%+v: at least %v, and %v for the queue, expected %v", tt.tags, stay.Least, ticket.Least, want)
			}
			n.Took(start, ticket, progress.Result{Service: tt.took, Work: tt.took}, work.Done)
			n.Leave(start, ticket, work.Done)
			n.Feedback(start, ticket)
		}
	}
}

// A number is a workflow's while one of its requests is inside, whatever became of
// it, and Feedback ends that.
func TestFeedbackEndsTheStay(t *testing.T) {
	n, err := New(Config{Config: admission.Config{Objective: time.Second, Schedule: schedule.Config{Fair: true}, Slots: slots.Config{Min: 1, Max: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	ran, _ := arrive(t, n, start, "a", Tags{})
	waits := &admission.Ticket{Request: work.Request{Workflow: "b", Deadline: mono.Never}}
	n.Describe(start, waits, &Tags{}, new(Stay))
	if v := n.Arrive(start, waits); v != admission.Wait {
		t.Fatalf("%v beside one that has the only slot", v)
	}
	if n.flows.Inside() != 2 || ran.Flow == 0 || ran.Flow == waits.Flow {
		t.Errorf("%d inside, flows %d and %d", n.flows.Inside(), ran.Flow, waits.Flow)
	}
	if !n.Refuse(start, waits, work.Expired) || waits.Reason() != work.Expired {
		t.Errorf("refused for %v", waits.Reason())
	}
	n.Leave(start, ran, work.Done)
	for _, ticket := range []*admission.Ticket{ran, waits} {
		if f := n.Feedback(start, ticket); f.Reason != ticket.Reason() || f.Announces {
			t.Errorf("%+v", f)
		}
		n.Feedback(start, ticket) // once too often
	}
	if n.flows.Inside() != 0 {
		t.Errorf("%d inside after all have left", n.flows.Inside())
	}
}

// who is a callee that has answered, and can be asked.
type who struct {
	process *Process
	silent  bool
}

func (w *who) Who() *Process { return w.process }
func (w *who) Asks() bool    { return !w.silent }

// A sender that names itself is told the rate for it: none at first, and none from
// a gate that only observes, with the limit that a callee announced.
func TestRatesAreAnnounced(t *testing.T) {
	n := rated(t, Config{Service: "shop"})
	callee := &who{process: NewProcess(9, "below")}
	pass := func(now mono.Time, observed bool) baseline.Feedback {
		ticket, stay := &admission.Ticket{Request: work.Request{Workflow: "w", Deadline: mono.Never}}, new(Stay)
		n.Describe(now, ticket, &Tags{Process: 5, Claim: 100}, stay)
		if observed {
			n.Observe(now, ticket)
		} else if v := n.Arrive(now, ticket); v != admission.Run {
			return n.Feedback(now, ticket)
		}
		n.Call(now, ticket, callee.process, 0)
		n.OnAnswer(now, ticket, callee, &baseline.Feedback{Rate: 2, HasRate: true})
		n.Leave(now, ticket, work.Done)
		return n.Feedback(now, ticket)
	}
	if f := pass(start, false); !f.Announces || f.HasRate {
		t.Errorf("before the first period is over: %+v", f)
	}
	now := start
	for range 50 {
		now = now.Add(100 * time.Millisecond)
		n.OnWake(now)
		pass(now, false)
	}
	if f := pass(now, false); !f.Announces || !f.HasRate || f.Rate > 2 {
		t.Errorf("with a callee that takes 2/s: %+v", f)
	}
	if f := pass(now, true); !f.Announces || f.HasRate {
		t.Errorf("by a gate that only observes: %+v", f)
	}
	reply, ok := n.OnPoll(now, &wire.Tags{Workflow: "w", Process: 5, Claim: 100}, true)
	if !ok || reply.Process != 7 || reply.Service != "shop" || reply.Asker != 5 || !reply.HasRate {
		t.Errorf("asked for it: %+v, %v", reply, ok)
	}
	if reply, ok := n.OnPoll(now, &wire.Tags{Workflow: "w", Process: 5}, false); !ok || reply.HasRate {
		t.Errorf("asked for it while it does not limit: %+v, %v", reply, ok)
	}
	if _, ok := n.OnPoll(now, &wire.Tags{Workflow: "w"}, true); ok {
		t.Error("a stranger was answered")
	}
}

// Another policy than the gate decides through the same methods.
func TestAroundAnotherPolicy(t *testing.T) {
	door, err := semaphore.New(semaphore.Config{Limit: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	n := Around(door)
	if n.Gate() != nil || n.Rated() || n.Described() || n.Connect(start) != nil || n.SetWeight(work.Default, 1) || n.SetTerms(start, nil) == nil || n.SetShare(start, "w", 1) {
		t.Error("a semaphore has what a gate has")
	}
	tickets := make([]admission.Ticket, 4)
	for i, want := range []admission.Verdict{admission.Run, admission.Wait, admission.Shed} {
		tickets[i].Deadline = mono.Never
		if v := n.Arrive(start, &tickets[i]); v != want {
			t.Errorf("request %d: %v, want %v", i, v, want)
		}
	}
	n.OnLag(start, time.Second)
	n.OnBusy(time.Second, time.Second, 1, 0)
	if o, reach := n.End(start.Add(time.Hour), &tickets[0], work.Done); o != work.Done || reach != nil {
		t.Errorf("without an objective %v and %v, expected done and no change", o, reach)
	}
	n.Leave(start, &tickets[0], work.Done)
	if next, v := n.Next(start); next != &tickets[1] || v != admission.Run {
		t.Errorf("next is %v, %v", next, v)
	}
	n.Drain()
	if v := n.Arrive(start, &tickets[3]); v != admission.Shed || n.Feedback(start, &tickets[3]).Reason != work.Draining {
		t.Errorf("%v after Drain, reason %v", v, tickets[3].Reason())
	}
}

// BenchmarkArriveLeave is what a decision costs with and without tags.
func BenchmarkArriveLeave(b *testing.B) {
	for name, tags := range map[string]*Tags{"plain": nil, "tagged": {Process: 5, Claim: 100}} {
		b.Run(name, func(b *testing.B) {
			n := rated(b, Config{})
			ticket, stay := new(admission.Ticket), new(Stay)
			now := start
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				ticket.Workflow, ticket.Deadline, ticket.Arrived = "w", mono.Never, 0
				if tags != nil {
					n.Describe(now, ticket, tags, stay)
				}
				n.Arrive(now, ticket)
				n.Leave(now.Add(time.Microsecond), ticket, work.Done)
				n.Feedback(now.Add(time.Microsecond), ticket)
			}
		})
	}
}
