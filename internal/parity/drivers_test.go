package parity

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// scene is a server with a node, and clients with wallets, far enough apart that
// decisions at one end depend on those at the other.
type scene struct {
	clients  int
	workers  int
	service  time.Duration // mean, exponential
	deadline time.Duration // 0: none
	rates    []mesh.Change // requests/s
	node     node.Config
	delay    time.Duration // of the network, each way
	length   time.Duration
	seed     uint64
}

// simulated lets the simulator play s, and returns what each policy did.
func (s *scene) simulated(t *testing.T) (*tapedDoor, []*tapedSender) {
	t.Helper()
	const zero = mono.Time(time.Hour) // of every simulated world
	senders := make([]*tapedSender, s.clients)
	var door *tapedDoor
	w, err := mesh.New(mesh.Config{
		Seed: s.seed, Length: s.length, Timeout: -1, Network: mesh.Network{Delay: s.delay},
		Services:  []mesh.Service{{Name: "a", Objective: s.node.Objective, Resources: []mesh.Resource{{Name: "workers", Capacity: s.workers}}}},
		Workflows: []mesh.Workflow{{Name: "w", Root: mesh.Stage{Service: "a", Steps: []mesh.Step{mesh.Work(mesh.Exp(s.service))}}, Deadline: mesh.Deadline{After: s.deadline}}},
		Groups:    []mesh.Group{{Load: mesh.Load{Steps: s.rates}, Clients: s.clients}},
		Control: mesh.Control{
			Door: func(uint64, mesh.Place) (baseline.Door, error) {
				n, err := node.New(s.node)
				door = newTapedDoor(n, zero)
				return door, err
			},
			Sender: func(_ uint64, from, _ mesh.Place) (baseline.Sender, error) {
				sender, err := newTapedSender(zero)
				senders[from.Process] = sender
				return sender, err
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Run(); err != nil {
		t.Fatal(err)
	}
	return door, senders
}

// network carries messages: each after the same time, in the order in which they were
// sent, and the next when all that the last one caused has come to rest. Goroutines that
// wake together send in any order: what they send is ranked, as a policy names those
// first that came first.
type network struct {
	delay time.Duration
	mail  chan message
	queue messages
	done  atomic.Int64 // how many were delivered
}

type message struct {
	at        mono.Time
	sent      int64 // after how many others were delivered
	rank, seq int
	do        func()
}

type messages []message

func (q messages) Len() int { return len(q) }
func (q messages) Less(i, k int) bool {
	a, b := &q[i], &q[k]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sent, b.sent), cmp.Compare(a.rank, b.rank), cmp.Compare(a.seq, b.seq)) < 0
}
func (q messages) Swap(i, k int) { q[i], q[k] = q[k], q[i] }
func (q *messages) Push(m any)   { *q = append(*q, m.(message)) }
func (q *messages) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// send has do called at the other end.
func (n *network) send(rank int, do func()) {
	n.mail <- message{at: live.Now().Add(n.delay), sent: n.done.Load(), rank: rank, do: do}
}

// carry delivers until the end.
func (n *network) carry(end <-chan struct{}) {
	timer, seq := time.NewTimer(time.Hour), 0
	for {
		wait := time.Hour
		if len(n.queue) > 0 {
			wait = max(n.queue[0].at.Sub(live.Now()), 0)
		}
		timer.Reset(wait)
		select {
		case m := <-n.mail:
			m.seq = seq
			seq++
			heap.Push(&n.queue, m)
		case <-timer.C:
			if len(n.queue) > 0 && n.queue[0].at <= live.Now() {
				n.done.Add(1)
				heap.Pop(&n.queue).(message).do()
			}
		case <-end:
			return
		}
		synctest.Wait()
	}
}

// until is a context that says when a request has no more budget, and does not end
// then: the policy decides.
type until struct {
	context.Context
	at time.Time
}

func (u until) Deadline() (time.Time, bool) { return u.at, !u.at.IsZero() }

// served lets package live play the same requests: those that the senders submitted,
// each of which takes at the server what it took there.
func (s *scene) served(t *testing.T, submitted [][]submission, took map[visitor]time.Duration) (door *tapedDoor, senders []*tapedSender) {
	synctest.Test(t, func(t *testing.T) {
		// The clock of a bubble begins long before the process. Estimators begin their
		// windows at multiples of an hour's parts.
		time.Sleep(time.Duration(max(-live.Now(), 0)))
		time.Sleep(time.Hour - time.Duration(live.Now()%mono.Time(time.Hour)))
		zero := live.Now()
		n, err := node.New(s.node)
		if err != nil {
			t.Fatal(err)
		}
		door = newTapedDoor(n, zero)
		server := &station{scene: s, zero: zero, door: door, gate: live.NewGateOf(door, s.node.Objective), took: took, net: &network{delay: s.delay, mail: make(chan message, 1000)}}
		end := make(chan struct{})
		go server.net.carry(end)
		for _, list := range submitted {
			sender, err := newTapedSender(zero)
			if err != nil {
				t.Fatal(err)
			}
			senders = append(senders, sender)
			server.play(sender, list)
		}
		time.Sleep(s.length + 5*time.Minute)
		for _, o := range server.outlets {
			o.Close()
		}
		server.gate.Close()
		close(end)
	})
	return door, senders
}

// station is the live side of a scene.
type station struct {
	*scene
	zero    mono.Time
	gate    *live.Gate
	net     *network
	outlets []*live.Outlet
	took    map[visitor]time.Duration
	met     int // clients that came
	door    *tapedDoor
}

// play begins to send a client's requests.
func (s *station) play(sender *tapedSender, list []submission) {
	var account *live.Client
	number, arrived := 0, 0
	outlet := live.NewOutlet(sender, func(demand int) {
		s.net.send(0, func() { account.OnDemand(demand) })
	})
	s.outlets = append(s.outlets, outlet)
	arrive := func(sub submission, sending *live.Sending, sent mono.Time) {
		if account == nil {
			// A grant of its own goes out after the answers of its instant.
			account = s.gate.Connect(func(g wire.Grant) { s.net.send(math.MaxInt, func() { outlet.OnGrant(g) }) })
			number = s.met
			s.met++
		}
		who := visitor{number, arrived}
		arrived++
		r := live.Request{Client: account, Request: work.Request{Workflow: "w", Priority: sub.priority, Demand: sending.Demand(), Asks: sending.Asks()}}
		if sub.deadline >= 0 {
			r.Deadline = live.Now().Add(s.zero.Add(sub.deadline).Sub(sent)) // the budget travels
		}
		go s.serve(r, who, func(f baseline.Feedback) {
			s.net.send(order(s.door.tape, s.door.replied, who), func() { sending.Answered(f) })
		})
	}
	for _, sub := range list {
		go func() {
			time.Sleep(sub.at)
			ctx := until{Context: context.Background()}
			if sub.deadline >= 0 {
				ctx.at = time.Now().Add(sub.deadline - sub.at)
			}
			if sending, err := outlet.Submit(ctx, sub.priority); err == nil {
				sent := live.Now()
				s.net.send(order(sender.tape, sender.let, any(sending)), func() { arrive(sub, sending, sent) })
			}
		}()
	}
}

// serve is a request's passage through the server.
func (s *station) serve(r live.Request, who visitor, reply func(baseline.Feedback)) {
	var f baseline.Feedback
	ticket, err := s.gate.Enter(context.Background(), r)
	if refusal := (*live.Refusal)(nil); errors.As(err, &refusal) {
		f.Reason, f.Grant, f.HasGrant = refusal.Reason, refusal.Grant, refusal.HasGrant
		reply(f)
		return
	}
	d, ran := s.took[who]
	if !ran {
		d = time.Minute // beyond the end of what was simulated
	}
	time.Sleep(d)
	ticket.Leave(work.Done)
	f.Grant, f.HasGrant = ticket.Grant()
	reply(f)
}

// TestDriversDecideAlike: the simulator's own driver and package live, given the same
// requests, call a node and the wallets of its clients with the same events at the same
// instants, and so get the same answers.
func TestDriversDecideAlike(t *testing.T) {
	seen := ""
	for _, s := range scenes() {
		t.Run(fmt.Sprintf("deadline=%v/seed=%d", s.deadline, s.seed), func(t *testing.T) {
			door, senders := s.simulated(t)
			var submitted [][]submission
			for _, sender := range senders {
				submitted = append(submitted, sender.submitted)
			}
			liveDoor, liveSenders := s.served(t, submitted, door.took)
			same(t, "the server", door.lines, liveDoor.lines)
			same(t, "the server's grants", door.granted, liveDoor.granted)
			for i := range senders {
				same(t, fmt.Sprint("client ", i), senders[i].lines, liveSenders[i].lines)
			}
			seen += strings.Join(door.lines, "\n")
			for _, sender := range senders {
				seen += strings.Join(sender.lines, "\n")
			}
			if len(door.lines) < 1000 {
				t.Errorf("only %d events: the comparison proves little", len(door.lines))
			}
		})
	}
	// The comparison proves little if the scenes are tame.
	for _, what := range []string{"wait", "tell demand", "grant", work.Delay.String(), work.Infeasible.String(), work.WalletExpired.String()} {
		if !strings.Contains(seen, what) {
			t.Errorf("nothing was %q: the scenes do not test that", what)
		}
	}
}

// The seeds are those of scenes in which no two events fall on one nanosecond, whose
// order nobody defines: of seeds 1 to 113 they do with 3.
func scenes() (all []*scene) {
	for seed, deadline := range []time.Duration{0, 150 * time.Millisecond, 400 * time.Millisecond} {
		all = append(all, &scene{
			clients: 5, workers: 4, service: 10 * time.Millisecond, deadline: deadline, delay: 3 * time.Millisecond,
			rates: []mesh.Change{{Rate: 280}, {At: 2 * time.Second, Rate: 1200}, {At: 5 * time.Second, Rate: 200}},
			node:  node.Config{Config: admission.Config{Objective: 200 * time.Millisecond, Credit: credit.Config{Epoch: 1}}}, length: 7 * time.Second, seed: uint64(seed) + 20,
		})
	}
	return all
}

// same compares what a policy did, up to the end of the simulation.
func same(t *testing.T, who string, simulated, served []string) {
	t.Helper()
	if len(served) < len(simulated) {
		t.Errorf("%s: %d events live, %d simulated", who, len(served), len(simulated))
	}
	for i := range min(len(simulated), len(served)) {
		if simulated[i] != served[i] {
			t.Errorf("%s, event %d of %d: simulated %q, live %q", who, i, len(simulated), simulated[i], served[i])
			return
		}
	}
}
