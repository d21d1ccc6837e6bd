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

	"github.com/spillgate/spillgate/admission"
	"github.com/spillgate/spillgate/credit"
	"github.com/spillgate/spillgate/live"
	"github.com/spillgate/spillgate/mono"
	"github.com/spillgate/spillgate/sim"
	"github.com/spillgate/spillgate/work"
)

// call is one line of the log: a request, and what its handler will do.
type call struct {
	at      time.Duration // after the start
	client  int           // -1: one without credits
	demand  int
	budget  time.Duration // 0: none
	service time.Duration
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

func config() admission.Config {
	return admission.Config{Objective: 10 * time.Second, Credit: credit.Config{Epoch: 1}}
}

// virtual drives the pure gate through the simulator's engine.
func virtual(t *testing.T, log []call) []decision {
	gate, err := admission.New(config())
	if err != nil {
		t.Fatal(err)
	}
	type event struct {
		arrive, leave int // call, or -1
	}
	var engine sim.Engine[event]
	out := make([]decision, len(log))
	tickets := make([]admission.Ticket, len(log))
	accounts := make([]*credit.Client, clients)
	for i := range accounts {
		accounts[i] = gate.Pool().Register(0)
	}
	end := func(now mono.Time, i int) {
		t := &tickets[i]
		out[i] = decision{reason: t.Reason(), queued: t.Queued(), window: -1}
		if t.Reason() != work.None {
			out[i].pushback = gate.Pushback(now, t)
		}
		if g, ok := gate.Reply(now, t); ok {
			out[i].window = int(g.Window)
		}
	}
	settle := func(now mono.Time) {
		for t, v := gate.Next(now); t != nil; t, v = gate.Next(now) {
			i := t.Owner.(int)
			if v == admission.Run {
				engine.At(now.Add(log[i].service), event{-1, i})
			} else {
				end(now, i)
			}
		}
		for _, _, ok := gate.Pool().NextGrant(); ok; _, _, ok = gate.Pool().NextGrant() {
		}
	}
	settle(0)
	for i, c := range log {
		engine.At(mono.Time(c.at), event{i, -1})
	}
	// The driver's timer: one, moved only to an earlier instant.
	timer := mono.Never
	for engine.Len() > 0 || timer != mono.Never {
		timer = min(timer, gate.NextWake())
		e, ok := engine.Next(timer)
		if !ok || e.arrive < 0 && e.leave < 0 {
			if engine.Len() == 0 && timer == mono.Never {
				break
			}
			now := timer
			timer = mono.Never
			engine.Advance(now)
			gate.OnWake(now)
			settle(now)
			if engine.Len() == 0 && gate.Waiting() == 0 {
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
			switch gate.Arrive(now, ticket) {
			case admission.Run:
				engine.At(now.Add(c.service), event{-1, i})
			case admission.Shed:
				end(now, i)
			}
		default:
			gate.Leave(now, &tickets[e.leave], work.Done)
			end(now, e.leave)
		}
		settle(now)
	}
	return out
}

// real drives package live: a goroutine a request, real timers on a clock that
// stands still while anything runs.
func real(t *testing.T, log []call) []decision {
	out := make([]decision, len(log))
	synctest.Test(t, func(t *testing.T) {
		gate, err := live.NewGate(live.GateConfig{Config: config()})
		if err != nil {
			t.Fatal(err)
		}
		accounts := make([]*live.Client, clients)
		for i := range accounts {
			accounts[i] = gate.Connect(nil)
		}
		start := live.Now()
		var wg sync.WaitGroup
		for i, c := range log {
			wg.Go(func() {
				time.Sleep(c.at)
				r := live.Request{Request: work.Request{Demand: c.demand}}
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
				time.Sleep(c.service)
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
	return out
}

func TestSimulatorAndServerDecideAlike(t *testing.T) {
	seen := map[work.Reason]int{}
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			log := overload(seed)
			want, got := virtual(t, log), real(t, log)
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
		})
	}
	// The comparison proves little if the logs are tame.
	for _, r := range []work.Reason{work.None, work.Delay, work.Infeasible} {
		if seen[r] == 0 {
			t.Errorf("no request ended as %q: the logs do not test that", r)
		}
	}
}
