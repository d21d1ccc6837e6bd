package admission

import (
	"math/rand/v2"
	stdslices "slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// stall has nothing end for a time. A culprit, if one is found, is to blame.
func (b *bench) stall(length time.Duration, found bool) {
	serves := b.serves
	b.serves = time.Hour
	b.run(length, nil)
	if found {
		b.gate.OnCulprit(b.now, true)
	}
	b.serves = serves
	for _, v := range b.inside {
		v.ends = b.now.Add(time.Duration(b.rng.ExpFloat64() * float64(serves)))
	}
}

// Victims that are late when the culprit lets go are answered, after those that can be in time: what comes from then on is.
func TestLateVictimsAreServedLast(t *testing.T) {
	for seed := range uint64(8) {
		b := newBench(t, seed)
		b.run(2*time.Second, nil)
		b.shed = 0
		b.stall(2*benchObjective, true)
		let := b.now
		b.late = func(v *benched) bool { return v.ticket.Arrived > let && b.gate.Late(b.now, &v.ticket) }
		b.run(9*benchObjective, nil)
		if b.shed > 0 || b.tardy > 0 || b.gate.Waiting() > 20 {
			t.Errorf("seed %d: %d shed, %d of those that came later late, %d wait; expected none but a few that wait", seed, b.shed, b.tardy, b.gate.Waiting())
		}
	}
}

// Where far fewer requests end than usual and no culprit is found, those that wait aside are refused.
func TestPatienceEnds(t *testing.T) {
	for seed := range uint64(4) {
		b := newBench(t, seed)
		b.run(2*time.Second, nil)
		b.shed, b.serves = 0, 20*b.serves
		b.run(2*time.Second, nil)
		if w := b.gate.Waiting(); w > 0 && b.gate.Oldest().since < b.now.Add(-3*b.gate.cfg.Hold) {
			t.Fatalf("seed %d: %d wait, one since %v; expected none for longer than %v", seed, w, b.now.Sub(b.gate.Oldest().since), 3*b.gate.cfg.Hold)
		}
		if b.shed == 0 {
			t.Errorf("seed %d: none was refused", seed)
		}
	}
}

// In an overload as many requests end as usual: nearly all that are refused are refused on arrival.
func TestOverloadIsRefusedOnArrival(t *testing.T) {
	aside, shed := 0, 0
	for seed := range uint64(4) {
		b := newBench(t, seed)
		b.run(2*time.Second, nil)
		b.shed, b.rate = 0, 30*b.rate
		b.setAside = 0
		b.run(time.Second/2, func() { b.gate.OnCulprit(b.now, false) })
		aside, shed = aside+b.setAside, shed+b.shed
	}
	if shed == 0 || aside > shed/20 {
		t.Errorf("%d refused, %d set aside before; expected one in twenty at most", shed, aside)
	}
}

// A caller's deadline ends the wait aside, and so does the caller.
func TestAsideIsLeft(t *testing.T) {
	b := newBench(t, 1)
	b.run(2*time.Second, nil)
	b.serves = time.Hour
	b.run(3*benchObjective, nil)
	b.gate.OnCulprit(b.now, true)
	var tickets [2]Ticket
	for i := range tickets {
		k := &tickets[i]
		k.Arrived, k.Deadline, k.Owner = b.now, b.now.Add(benchObjective), &benched{}
		if v := b.gate.Arrive(b.now, k); v != Wait {
			t.Fatalf("ticket %d: %v, expected %v", i, v, Wait)
		}
		b.gate.queue.Remove(&k.task)
		b.gate.waiters.remove(k)
		b.gate.setAside(b.now, k)
	}
	if !b.gate.Cancel(b.now, &tickets[0]) || b.gate.Cancel(b.now, &tickets[0]) {
		t.Error("a ticket that waits aside was not cancelled once")
	}
	end := tickets[1].Deadline
	if at := b.gate.NextWake(); at > end {
		t.Errorf("the next wake is at %v, expected by %v", at, end)
	}
	for b.now < end {
		b.now = min(b.gate.NextWake(), end)
		b.gate.OnWake(b.now)
		for k, v := b.gate.Next(b.now); k != nil; k, v = b.gate.Next(b.now) {
			b.verdict(k.Owner.(*benched), v)
		}
	}
	if r := tickets[1].Reason(); r != work.Expired {
		t.Errorf("refused for %v, expected %v", r, work.Expired)
	}
}

// Requests that wait aside are no crowd: they take no credits from clients that wait for one.
func TestWhoWaitsAsideIsNoCrowd(t *testing.T) {
	g := fixed(t, 2, func(c *Config) { c.Hold = 300 * ms })
	client := g.Pool().Register(at(0))
	var asked [2]Ticket
	for i := range asked {
		asked[i].Client, asked[i].Deadline = client, mono.Never
		if v := g.Arrive(at(0), &asked[i]); v != Run {
			t.Fatalf("ticket %d: %v, expected %v", i, v, Run)
		}
	}
	g.OnCulprit(at(0), true)
	var plain [3]Ticket
	for i := range plain {
		plain[i].Deadline = mono.Never
		if v := g.Arrive(at(0), &plain[i]); v != Wait {
			t.Fatalf("plain ticket %d: %v, expected %v", i, v, Wait)
		}
		g.queue.Remove(&plain[i].task)
		g.lays(at(0), &plain[i], work.Delay)
	}
	if g.aside.Len() != len(plain) || g.crowded() {
		t.Errorf("%d wait aside, a crowd: %v; expected %d and none", g.aside.Len(), g.crowded(), len(plain))
	}
	if b := g.Because(at(0), &asked[0]); b.Waiting != len(plain) {
		t.Errorf("a refusal would tell of %d that wait, expected %d", b.Waiting, len(plain))
	}
	for i := range asked {
		g.Leave(at(ms), &asked[i], work.Done)
		g.Next(at(ms))
	}
	if g.hold.backlog != len(plain) {
		t.Errorf("%d waited when requests began to end again, expected %d: those aside are victims as well", g.hold.backlog, len(plain))
	}
	if g.unasked != 2 || !g.crowded() {
		t.Errorf("%d of clients without credits run, a crowd: %v; expected 2 and one", g.unasked, g.crowded())
	}
	g.Cancel(at(ms), &plain[2])
	g.Leave(at(ms), &plain[0], work.Done)
	g.Leave(at(ms), &plain[1], work.Done)
	if g.unasked != 0 {
		t.Errorf("%d of clients without credits are counted, expected none", g.unasked)
	}
}

// Without the AQM nobody is overtaken for being late.
func TestNobodyWaitsAsideWithoutAQM(t *testing.T) {
	g := fixed(t, 1, func(c *Config) { c.Hold, c.NoAQM = 300*ms, true })
	var first, second, third Ticket
	for i, k := range []*Ticket{&first, &second, &third} {
		k.Deadline = mono.Never
		g.Arrive(at(time.Duration(i)*100*ms), k)
	}
	g.OnCulprit(at(200*ms), true)
	g.Leave(at(250*ms), &first, work.Done)
	if k, v := g.Next(at(250 * ms)); k != &second || v != Run {
		t.Errorf("the next is the oldest: %v, %v; expected true, %v", k == &second, v, Run)
	}
}

// Whatever happens, each request that waits is named once, or is cancelled. Where nothing happens any more, the gate is woken until all
// have been.
func TestEachThatWaitsIsNamedOnce(t *testing.T) {
	aside := 0
	for seed := range uint64(12) {
		p := &passage{rng: rand.New(rand.NewPCG(seed, 2))}
		g, err := New(Config{Objective: benchObjective, Hold: 3 * benchObjective, QueueLimit: 40, Slots: slots.Config{Min: 4, Max: 4}})
		if err != nil {
			t.Fatal(err)
		}
		p.gate, p.client = g, g.Pool().Register(0)
		for range 8000 {
			p.step()
			if p.named(t); t.Failed() {
				return
			}
			aside += min(g.aside.Len(), 1)
		}
		g.Drain()
		for end := p.now.Add(80 * benchObjective); len(p.waits) > 0; p.named(t) {
			if p.now = max(p.now, g.NextWake()); p.now > end || t.Failed() {
				t.Fatalf("seed %d: %d wait in vain, %d aside; the next wake is at %v", seed, len(p.waits), g.aside.Len(), p.now)
			}
			g.OnWake(p.now)
		}
		for len(p.runs) > 0 {
			p.leave(len(p.runs) - 1)
		}
		if g.Waiting() != 0 || g.unasked != 0 || g.limit.InUse() != 0 || g.pool.Pending() != 0 {
			t.Errorf("seed %d: in the end %d wait, %d plain ones, %d slots, %d pending; expected none", seed, g.Waiting(), g.unasked, g.limit.InUse(), g.pool.Pending())
		}
	}
	if aside == 0 {
		t.Error("nobody ever waited aside")
	}
}

// passage is what a driver does with a gate, by chance.
type passage struct {
	gate        *Gate
	client      *credit.Client
	rng         *rand.Rand
	now         mono.Time
	stall       mono.Time // up to when nothing ends
	waits, runs []*Ticket
}

func (p *passage) step() {
	p.now = p.now.Add(time.Duration(p.rng.ExpFloat64() * float64(time.Millisecond)))
	switch what := p.rng.IntN(1000); {
	case what < 500:
		k := &Ticket{Source: p.rng.Uint64N(3) + 1}
		k.Class, k.Deadline, k.Attempt = work.Class(p.rng.IntN(int(work.NumClasses))), mono.Never, p.rng.IntN(4)/3
		if p.rng.IntN(3) == 0 {
			k.Deadline = p.now.Add(time.Duration(p.rng.IntN(600)) * time.Millisecond)
		}
		if p.rng.IntN(2) == 0 {
			k.Client = p.client
		}
		p.take(k, p.gate.Arrive(p.now, k))
	case what < 960:
		if len(p.runs) > 0 && p.now >= p.stall {
			p.leave(p.rng.IntN(len(p.runs)))
		}
	case what < 980:
		if len(p.waits) > 0 {
			i := p.rng.IntN(len(p.waits))
			k := p.waits[i]
			p.waits = append(p.waits[:i], p.waits[i+1:]...)
			if p.gate.Cancel(p.now, k) {
				p.gate.Reply(p.now, k)
			} else {
				p.waits = append(p.waits, k) // it was named a moment ago, and Next says so
			}
		}
	case what < 985:
		p.gate.OnCulprit(p.now, p.rng.IntN(4) == 0)
	case what < 990:
		p.gate.OnDoubt(p.now)
	case what < 992:
		p.stall = p.now.Add(time.Duration(p.rng.IntN(500)) * time.Millisecond)
	}
	if p.gate.NextWake() <= p.now {
		p.gate.OnWake(p.now)
	}
}

func (p *passage) leave(i int) {
	k := p.runs[i]
	p.runs = append(p.runs[:i], p.runs[i+1:]...)
	p.gate.Leave(p.now, k, work.Done)
	p.gate.Reply(p.now, k)
}

func (p *passage) take(k *Ticket, v Verdict) {
	switch v {
	case Wait:
		p.waits = append(p.waits, k)
	case Run:
		p.runs = append(p.runs, k)
	case Shed:
		p.gate.Reply(p.now, k)
	}
}

// named takes whom Next names.
func (p *passage) named(t *testing.T) {
	for k, v := p.gate.Next(p.now); k != nil; k, v = p.gate.Next(p.now) {
		i := stdslices.Index(p.waits, k)
		if i < 0 || v == Wait {
			t.Fatalf("named as %v is one that waits: %v; expected one that waits", v, i >= 0)
		}
		p.waits = append(p.waits[:i], p.waits[i+1:]...)
		p.take(k, v)
	}
	if g := p.gate; g.Waiting() != len(p.waits) || g.limit.InUse()+g.limit.Lent() != len(p.runs) {
		t.Fatalf("%d wait and %d run, the gate says %d and %d", len(p.waits), len(p.runs), g.Waiting(), g.limit.InUse()+g.limit.Lent())
	}
}

// The departure that ends all patience, because as many end as usual again, frees a slot, which one that waits aside has; the others are refused.
func TestTheLastSlotIsForOneAside(t *testing.T) {
	g := fixed(t, 1, func(c *Config) { c.Hold = 300 * ms })
	var all [3]Ticket
	for i := range all {
		all[i].Deadline = mono.Never
		if v := g.Arrive(at(0), &all[i]); (v == Run) != (i == 0) {
			t.Fatalf("ticket %d: %v", i, v)
		}
	}
	g.OnCulprit(at(0), true)
	for i := range all[1:] {
		g.queue.Remove(&all[i+1].task)
		g.lays(at(0), &all[i+1], work.Delay)
	}
	now := g.patience()
	g.Leave(now, &all[0], work.Done)
	runs, shed := 0, 0
	for k, v := g.Next(now); k != nil; k, v = g.Next(now) {
		if v == Run {
			runs++
		} else {
			shed++
		}
	}
	if runs != 1 || shed != 1 {
		t.Errorf("%d run, %d are refused, expected one each", runs, shed)
	}
}
