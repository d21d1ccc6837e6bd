package parity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/progress"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// call is one line of the log: a request, and what its handler will do.
type call struct {
	at      time.Duration // after the start
	client  int           // -1: one without credits
	demand  int
	budget  time.Duration // 0: none
	service time.Duration

	// Of a log with workflows: what the tags say, and what the one call that the
	// handler makes is answered with when it ends.
	workflow string
	class    work.Class
	priority work.Priority
	process  uint64 // that sent it, 0: it did not say
	claim    float64
	total    wire.Progress
	elapsed  wire.Progress
	down     wire.Reply
}

// decision is what became of it.
type decision struct {
	reason   work.Reason
	queued   time.Duration
	window   int // granted with the reply; -1: nothing
	pushback time.Duration
}

const clients = 5

// Seconds, not milliseconds: time costs nothing here, and among nanoseconds as
// many as these no two events fall on the same one, whose order nobody defines.

// overload is a log that meets every branch: four times what slots can do, with
// a pause, a slow spell, deadlines and clients of both kinds.
func overload(seed uint64) []call {
	rng := rand.New(rand.NewPCG(seed, 0))
	var log []call
	at := time.Second
	for i := range 4000 {
		gap := 60 * time.Millisecond
		if i == 2000 {
			gap = 300 * time.Second
		}
		at += time.Duration(rng.ExpFloat64()*float64(gap)) + 1
		c := call{at: at, client: rng.IntN(clients+1) - 1, demand: rng.IntN(4)}
		c.service = time.Duration(rng.ExpFloat64()*1e9) + 1
		if i > 2500 && i < 3000 {
			c.service *= 4
		}
		if rng.IntN(3) == 0 {
			c.budget = time.Duration(rng.Int64N(20e9) + 1)
		}
		log = append(log, c)
	}
	return log
}

// workflows is overload of four workflows, whose requests come from three
// processes and call another one, which limits one of them for a while.
func workflows(seed uint64) []call {
	log := overload(seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range log {
		c := &log[i]
		c.workflow = []string{"a", "b", "c", "c", "c", ""}[rng.IntN(6)]
		c.class, c.priority = work.Class(rng.IntN(int(work.NumClasses))), work.Priority(rng.IntN(3))
		if c.process = rng.Uint64N(4); c.process > 0 {
			c.claim = rng.Float64() * 20
			c.elapsed.Service = time.Duration(rng.Int64N(1e9))
			c.elapsed.Work = c.elapsed.Service + time.Duration(rng.Int64N(1e9))
			if rng.IntN(4) > 0 {
				c.total.Service = c.elapsed.Service + time.Duration(rng.Int64N(2e9))
				c.total.Work = c.elapsed.Work + time.Duration(rng.Int64N(3e9))
			}
		} else {
			c.total = wire.Progress{Service: time.Second, Work: time.Second} // or what the entry learned would count
		}
		if c.workflow == "c" {
			c.down = wire.Reply{Process: 99, Service: "d", HasRate: i > 1000 && i < 1500, Rate: 0.5 + rng.Float64()}
		}
	}
	return log
}

func config() admission.Config {
	return admission.Config{Objective: 10 * time.Second, Credit: credit.Config{Epoch: 1}, Schedule: schedule.Config{Senders: 64}}
}

// ordered is config with an order of the queue, and rates.
func ordered(order schedule.Order, fair bool) admission.Config {
	cfg := config()
	cfg.Schedule = schedule.Config{Order: order, Fair: fair, Senders: 64, Aging: 20 * time.Second, Quantum: time.Second}
	cfg.Rates = &rates.Config{Period: 2 * time.Second, Terms: map[string]rates.Terms{"a": {Weight: 2}}}
	return cfg
}

// callee is a server that is called. Who it is, its first answer says.
type callee struct{ who *node.Process }

func (c *callee) Who() *node.Process { return c.who }
func (c *callee) Asks() bool         { return false }

// passage is what a driver keeps of a request.
type passage struct {
	admission.Ticket
	stay node.Stay
	span progress.Span
	call progress.CallID

	counted bool // the call
}

// virtual drives the pure node through the simulator's engine, on a clock that
// shows zero when the log begins.
func virtual(t *testing.T, cfg admission.Config, zero mono.Time, log []call) []decision {
	n, err := node.New(node.Config{Config: cfg, Number: 1})
	if err != nil {
		t.Fatal(err)
	}
	gate := n.Gate()
	d := &callee{}
	count := func(now mono.Time, p *passage) {
		if d.who != nil && !p.counted {
			p.counted = true
			n.Call(now, &p.Ticket, d.who, 0)
		}
	}
	// What the handler of a request does when it starts, and when it ends.
	start := func(now mono.Time, p *passage, c *call) {
		p.span.Begin(now)
		if c.down.Process != 0 {
			p.call = p.span.CallBegin(now)
			count(now, p)
		}
	}
	finish := func(now mono.Time, p *passage, c *call) {
		if c.down.Process != 0 {
			if d.who == nil {
				d.who = node.NewProcess(c.down.Process, c.down.Service)
			}
			count(now, p)
			n.OnAnswer(now, &p.Ticket, d, &baseline.Feedback{Rate: c.down.Rate, HasRate: c.down.HasRate})
			p.span.CallEnd(now, p.call, 0, 0, false)
		}
		o, _ := n.End(now, &p.Ticket, work.Done)
		if p.stay.Measured {
			n.Took(now, &p.Ticket, p.span.End(now), o)
		}
		n.Leave(now, &p.Ticket, o)
	}
	type event struct {
		arrive, leave int // call, or -1
	}
	var engine sim.Engine[event]
	out := make([]decision, len(log))
	tickets := make([]passage, len(log))
	accounts := make([]*credit.Client, clients)
	for i := range accounts {
		accounts[i] = n.Connect(zero)
	}
	end := func(now mono.Time, i int) {
		t := &tickets[i]
		out[i] = decision{reason: t.Reason(), queued: t.Queued(), window: -1}
		f := n.Feedback(now, &t.Ticket)
		out[i].pushback = f.Pushback
		if f.HasGrant {
			out[i].window = int(f.Grant.Window)
		}
	}
	settle := func(now mono.Time) {
		for t, v := n.Next(now); t != nil; t, v = n.Next(now) {
			i := t.Owner.(int)
			if v == admission.Run {
				start(now, &tickets[i], &log[i])
				engine.At(now.Add(log[i].service), event{-1, i})
			} else {
				end(now, i)
			}
		}
		for _, _, ok := n.NextGrant(); ok; _, _, ok = n.NextGrant() {
		}
	}
	engine.Advance(zero)
	settle(zero)
	for i, c := range log {
		engine.At(zero.Add(c.at), event{i, -1})
	}
	// The driver's timer: one, moved only to an earlier instant.
	timer := mono.Never
	for engine.Len() > 0 || timer != mono.Never || gate.Waiting() > 0 || gate.Shaping() > 0 {
		timer = min(timer, n.NextWake())
		e, ok := engine.Next(timer)
		if !ok || e.arrive < 0 && e.leave < 0 {
			if engine.Len() == 0 && timer == mono.Never {
				break
			}
			now := timer
			timer = mono.Never
			engine.Advance(now)
			n.OnWake(now)
			settle(now)
			if engine.Len() == 0 && gate.Waiting() == 0 && gate.Shaping() == 0 {
				break
			}
			continue
		}
		now := engine.Now()
		switch {
		case e.arrive >= 0:
			i := e.arrive
			c := log[i]
			ticket := &tickets[i]
			ticket.Owner = i
			ticket.Demand = c.demand
			ticket.Deadline = mono.Never
			if c.budget > 0 {
				ticket.Deadline = now.Add(c.budget)
			}
			if c.client >= 0 {
				ticket.Client = accounts[c.client]
			}
			ticket.Workflow, ticket.Class, ticket.Priority = c.workflow, c.class, c.priority
			tags := node.Tags{Process: c.process, Claim: c.claim, Total: c.total, Elapsed: c.elapsed}
			if n.Described() || tags.Asks() {
				n.Describe(now, &ticket.Ticket, &tags, &ticket.stay)
			}
			switch n.Arrive(now, &ticket.Ticket) {
			case admission.Run:
				start(now, ticket, &log[i])
				engine.At(now.Add(c.service), event{-1, i})
			case admission.Shed:
				end(now, i)
			}
		default:
			finish(now, &tickets[e.leave], &log[e.leave])
			end(now, e.leave)
		}
		settle(now)
	}
	return out
}

// real drives package live: a goroutine a request, real timers on a clock that
// stands still while anything runs.
// It returns what its clock showed when the log began.
func real(t *testing.T, cfg admission.Config, log []call) (out []decision, zero mono.Time) {
	out = make([]decision, len(log))
	synctest.Test(t, func(t *testing.T) {
		gate, err := live.NewGate(live.GateConfig{Config: cfg})
		if err != nil {
			t.Fatal(err)
		}
		accounts := make([]*live.Client, clients)
		for i := range accounts {
			accounts[i] = gate.Connect(nil)
		}
		callee := live.NewCallee("d", nil)
		start := live.Now()
		zero = start
		var wg sync.WaitGroup
		for i, c := range log {
			wg.Go(func() {
				time.Sleep(c.at)
				r := live.Request{
					Request: work.Request{Demand: c.demand, Workflow: c.workflow, Class: c.class, Priority: c.priority},
					Process: c.process, Claim: c.claim, Total: c.total, Elapsed: c.elapsed,
				}
				if c.budget > 0 {
					r.Deadline = start.Add(c.at + c.budget)
				}
				if c.client >= 0 {
					r.Client = accounts[c.client]
				}
				ticket, err := gate.Enter(context.Background(), r)
				var refusal *live.Refusal
				if errors.As(err, &refusal) {
					out[i] = decision{reason: refusal.Reason, queued: live.Now().Sub(start) - c.at, window: -1, pushback: refusal.Pushback}
					if refusal.HasGrant {
						out[i].window = int(refusal.Grant.Window)
					}
					return
				}
				if c.down.Process == 0 {
					time.Sleep(c.service)
				} else {
					call, _ := live.BeginCall(live.WithTicket(context.Background(), ticket), callee, 0)
					time.Sleep(c.service)
					call.Answered(callee, c.down)
					call.End(&c.down)
				}
				ticket.Leave(work.Done)
				out[i] = decision{queued: ticket.Queued(), window: -1}
				if g, ok := ticket.Grant(); ok {
					out[i].window = int(g.Window)
				}
			})
		}
		wg.Wait()
		for _, c := range accounts {
			c.Close()
		}
		gate.Close()
	})
	return out, zero
}

func TestSimulatorAndServerDecideAlike(t *testing.T) {
	seen := map[work.Reason]int{}
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			compare(t, seen, config(), overload(seed))
		})
	}
	// The comparison proves little if the logs are tame.
	for _, r := range []work.Reason{work.None, work.Delay, work.Infeasible} {
		if seen[r] == 0 {
			t.Errorf("no request ended as %q: the logs do not test that", r)
		}
	}
}

func TestOrdersAndRatesDecideAlike(t *testing.T) {
	seen := map[work.Reason]int{}
	for seed, order := range []schedule.Order{schedule.FIFO, schedule.EDF, schedule.LSTF, schedule.SJF, schedule.SRTF, schedule.LASF} {
		t.Run(order.String(), func(t *testing.T) {
			compare(t, seen, ordered(order, seed%2 == 0), workflows(uint64(seed)))
		})
	}
	for _, r := range []work.Reason{work.None, work.Delay, work.Infeasible, work.Rate} {
		if seen[r] == 0 {
			t.Errorf("no request ended as %q: the logs do not test that", r)
		}
	}
}

// compare feeds the log to both drivers.
func compare(t *testing.T, seen map[work.Reason]int, cfg admission.Config, log []call) {
	t.Helper()
	got, zero := real(t, cfg, log)
	// Estimators begin their windows at multiples of the window's length, so the
	// clocks must agree modulo those, which all divide an hour.
	want := virtual(t, cfg, (zero%mono.Time(time.Hour)+mono.Time(time.Hour))%mono.Time(time.Hour), log)
	differ := 0
	for i := range log {
		seen[want[i].reason]++
		if want[i] != got[i] {
			if differ++; differ <= 3 {
				t.Errorf("request %d at %v: the simulator says %+v, the server %+v", i, log[i].at, want[i], got[i])
			}
		}
	}
	if differ > 0 {
		t.Errorf("%d of %d decisions differ", differ, len(log))
	}
}
