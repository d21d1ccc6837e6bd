package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/work"
)

// shop is a service of eight workers behind a node, which serve each request for 20 ms,
// first come, first served. Clients send as fast as their credits allow, each with as
// many requests to send as the story says. The culprit keeps the workers from beginning.
type shop struct {
	node    *Node
	engine  sim.Engine[shopEvent]
	clients []*credit.Client
	windows []int
	flying  []int
	wants   int
	line    []*buyer // of those that wait for a worker
	busy    int
	report  *buyer // the culprit, nil if it is not there
	seized  bool   // it runs
	done    int
}

type buyer struct {
	ticket admission.Ticket
	client int // -1: the culprit
}

type shopEvent struct {
	what  byte // s: clients send, e: a worker ends, o: a look
	buyer *buyer
}

const (
	workers = 8
	serves  = 20 * time.Millisecond
	looks   = 50 * time.Millisecond
)

func (s *shop) begin(t *testing.T, clients, wants int, hold time.Duration) {
	n, err := New(Config{Config: admission.Config{Objective: 100 * time.Millisecond, Hold: hold}})
	if err != nil {
		t.Fatal(err)
	}
	*s = shop{node: n, wants: wants, windows: make([]int, clients), flying: make([]int, clients)}
	for range clients {
		s.clients = append(s.clients, n.Connect(0))
	}
	s.engine.At(0, shopEvent{what: 's'})
	s.engine.At(0, shopEvent{what: 'o'})
}

func (s *shop) until(at mono.Time) {
	for {
		e, ok := s.engine.Next(at)
		if !ok {
			return
		}
		now := s.engine.Now()
		switch e.what {
		case 's':
			s.send(now)
			s.engine.At(now.Add(time.Millisecond), e)
		case 'e':
			s.busy--
			s.leave(now, e.buyer, work.Done)
		case 'o':
			s.node.Look(now)
			s.engine.At(now.Add(looks), e)
		}
		s.turn(now)
	}
}

// send lets every client send what it has credits for, and ask if it has none.
func (s *shop) send(now mono.Time) {
	for c := range s.clients {
		if s.windows[c] == 0 {
			s.node.OnDemand(now, s.clients[c], s.wants)
		}
		for range min(s.windows[c], s.wants) - s.flying[c] {
			s.arrive(now, &buyer{client: c})
		}
	}
}

func (s *shop) arrive(now mono.Time, b *buyer) {
	b.ticket.Deadline = mono.Never
	if b.client >= 0 {
		b.ticket.Client, b.ticket.Demand = s.clients[b.client], s.wants-s.flying[b.client]
		s.flying[b.client]++
	}
	b.ticket.Owner = b
	s.verdict(now, b, s.node.Arrive(now, &b.ticket))
}

func (s *shop) verdict(now mono.Time, b *buyer, v admission.Verdict) {
	switch v {
	case admission.Run:
		if s.seized = s.seized || b == s.report; b != s.report {
			s.line = append(s.line, b)
			s.serve(now)
		}
	case admission.Shed:
		s.answer(now, b)
	}
}

// serve has idle workers begin.
func (s *shop) serve(now mono.Time) {
	for !s.seized && s.busy < workers && len(s.line) > 0 {
		s.engine.At(now.Add(serves), shopEvent{what: 'e', buyer: s.line[0]})
		s.line = s.line[1:]
		s.busy++
	}
}

func (s *shop) leave(now mono.Time, b *buyer, o work.Outcome) {
	s.serve(now)
	s.node.Leave(now, &b.ticket, o)
	s.answer(now, b)
	s.done++
}

func (s *shop) answer(now mono.Time, b *buyer) {
	f := s.node.Feedback(now, &b.ticket)
	if b.client < 0 {
		return
	}
	s.flying[b.client]--
	if f.HasGrant {
		s.windows[b.client] = int(f.Grant.Window)
	}
}

// turn does what the node wants done.
func (s *shop) turn(now mono.Time) {
	if s.node.NextWake() <= now {
		s.node.OnWake(now)
	}
	for t, v := s.node.Next(now); t != nil; t, v = s.node.Next(now) {
		s.verdict(now, t.Owner.(*buyer), v)
	}
	for c, grant, ok := s.node.NextGrant(); ok; c, grant, ok = s.node.NextGrant() {
		for i := range s.clients {
			if s.clients[i] == c {
				s.windows[i] = int(grant.Window)
			}
		}
	}
}

// TestCulpritStory runs testdata/culprit. Commands:
//
//	shop clients=N wants=M [hold=D] clients with M requests each to send, always
//	until at=INSTANT
//	culprit                         a request comes that keeps the workers
//	suspect                         somebody is suspected
//	mark                            it is cancelled
//	leave                           it lets go
//
// Each prints the credits, how many requests ended, how many wait, and whether the gate keeps victims.
func TestCulpritStory(t *testing.T) {
	var s shop
	datadriven.RunTest(t, "testdata/culprit", func(t *testing.T, d *datadriven.TestData) string {
		now := s.engine.Now()
		switch d.Cmd {
		case "shop":
			var clients, wants int
			d.ScanArgs(t, "clients", &clients)
			d.ScanArgs(t, "wants", &wants)
			var hold string
			d.MaybeScanArgs(t, "hold", &hold)
			keeps, _ := time.ParseDuration(hold)
			s.begin(t, clients, wants, keeps)
		case "until":
			var text string
			d.ScanArgs(t, "at", &text)
			at, err := time.ParseDuration(text)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			s.done = 0
			s.until(mono.Time(at))
		case "culprit":
			for !s.seized { // it comes again until it is let in
				if s.report == nil || s.report.ticket.Reason() != work.None {
					s.report = &buyer{client: -1}
					s.arrive(now, s.report)
				}
				now = now.Add(time.Millisecond)
				s.until(now)
			}
		case "suspect":
			s.node.Suspect(now)
		case "mark":
			s.node.Mark(now, &s.report.ticket)
		case "leave":
			b := s.report
			s.report, s.seized = nil, false
			s.leave(now, b, work.Cancelled)
		default:
			d.Fatalf(t, "unknown command %q", d.Cmd)
		}
		gate, keeps := s.node.Gate(), ""
		if gate.Holding(s.engine.Now()) {
			keeps = " keeps"
		}
		return fmt.Sprintf("credits=%d ended=%d waiting=%d%s\n", gate.Pool().Total(), s.done, gate.Waiting(), keeps)
	})
}

// TestCulpritThatCameLongAgo: a request that came when hardly anybody was there blocks the others minutes later. What
// the pool had then is no part of the incident, and it does not shrink to that when the request leaves.
func TestCulpritThatCameLongAgo(t *testing.T) {
	n, err := New(Config{Config: admission.Config{Objective: 100 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Second)
	report := &admission.Ticket{}
	report.Deadline = mono.Never
	if v := n.Arrive(now, report); v != admission.Run {
		t.Fatalf("the first request: %v, expected it to run", v)
	}
	came := n.Gate().Pool().Total()
	for range 50 {
		n.Connect(now)
	}
	n.Gate().Pool().SetTotal(now, 100)
	before := n.Gate().Pool().Total()
	for range 100 {
		now = now.Add(looks)
		n.Look(now)
	}
	if came >= before/2 || n.Gate().Pool().Total() != before {
		t.Fatalf("%d credits at first, then %d and at last %d, expected far more", came, before, n.Gate().Pool().Total())
	}
	n.Mark(now, report)
	now = now.Add(looks)
	n.Leave(now, report, work.Cancelled)
	if got := n.Gate().Pool().Total(); got != before {
		t.Errorf("%d credits once the culprit has left, expected %d as before, not %d as when it came", got, before, came)
	}
}
