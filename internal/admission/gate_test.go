package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

const ms = time.Millisecond

func at(d time.Duration) mono.Time { return mono.Time(d) }

// fixed returns a gate of n slots that never move, with an objective of 100 ms.
func fixed(t testing.TB, n int, change ...func(*Config)) *Gate {
	t.Helper()
	cfg := Config{Objective: 100 * ms, Slots: slots.Config{Min: n, Max: n}}
	for _, f := range change {
		f(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGate runs the narrated scripts under testdata/gate.
func TestGate(t *testing.T) {
	datadriven.Walk(t, "testdata/gate", func(t *testing.T, path string) {
		var g *Gate
		tickets := map[string]*Ticket{}
		clients := map[string]*credit.Client{}
		now := time.Duration(0)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			duration := func(key string) (time.Duration, bool) {
				if !d.HasArg(key) {
					return 0, false
				}
				var s string
				d.ScanArgs(t, key, &s)
				v, err := time.ParseDuration(s)
				if err != nil {
					d.Fatalf(t, "%s: %v", key, err)
				}
				return v, true
			}
			if v, ok := duration("at"); ok {
				now = v
			}
			verdict := func(ticket *Ticket, v Verdict) {
				fmt.Fprintf(&out, "%s: %v", ticket.Owner, v)
				if v == Shed {
					fmt.Fprintf(&out, " %v, come back after %v", ticket.Reason(), g.Pushback(at(now), ticket))
				}
				if grant, ok := g.Reply(at(now), ticket); ok {
					fmt.Fprintf(&out, ", window %d", grant.Window)
				}
				out.WriteString("\n")
			}
			next := func() {
				for ticket, v := g.Next(at(now)); ticket != nil; ticket, v = g.Next(at(now)) {
					verdict(ticket, v)
				}
			}
			switch d.Cmd {
			case "gate":
				n := 0
				d.ScanArgs(t, "slots", &n)
				g = fixed(t, n)
			case "connect":
				for _, name := range strings.Fields(d.Input) {
					clients[name] = g.Pool().Register(at(now))
				}
			case "arrive":
				for _, name := range strings.Fields(d.Input) {
					ticket := &Ticket{Owner: name}
					ticket.Deadline = mono.Never
					if budget, ok := duration("budget"); ok {
						ticket.Deadline = at(now + budget)
					}
					if since, ok := duration("since"); ok {
						ticket.Arrived = at(since)
					}
					ticket.Waited, _ = duration("waited")
					d.MaybeScanArgs(t, "attempt", &ticket.Attempt)
					var client string
					d.MaybeScanArgs(t, "client", &client)
					ticket.Client = clients[client]
					tickets[name] = ticket
					verdict(ticket, g.Arrive(at(now), ticket))
				}
			case "leave":
				for _, name := range strings.Fields(d.Input) {
					g.Leave(at(now), tickets[name], work.Done)
					if grant, ok := g.Reply(at(now), tickets[name]); ok {
						fmt.Fprintf(&out, "%s: window %d\n", name, grant.Window)
					}
					next()
				}
			case "cancel":
				for _, name := range strings.Fields(d.Input) {
					fmt.Fprintf(&out, "%s: was waiting: %v\n", name, g.Cancel(at(now), tickets[name]))
				}
			case "wake":
				g.OnWake(at(now))
				next()
			case "drain":
				g.Drain()
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			fmt.Fprintf(&out, "running=%d waiting=%d delay=%v next wake=%v\n", g.Slots().InUse(), g.Waiting(), g.Delay(at(now)), g.NextWake())
			return out.String()
		})
	})
}

// TestAQMRecovers: once the queue is above the threshold everything that comes is
// refused, and when it has drained, everything is admitted, though no admitted
// request refreshed the delay in between.
func TestAQMRecovers(t *testing.T) {
	g := fixed(t, 1)
	for range 9 { // a request takes a microsecond, but for one
		quick := &Ticket{}
		quick.Deadline = mono.Never
		g.Arrive(at(0), quick)
		g.Leave(at(time.Microsecond), quick, work.Done)
	}
	running := &Ticket{}
	running.Deadline = mono.Never
	g.Arrive(at(0), running)
	waiter := &Ticket{}
	waiter.Deadline = mono.Never
	g.Arrive(at(0), waiter)
	for i := range 20 {
		late := &Ticket{}
		late.Deadline = mono.Never
		if v := g.Arrive(at(82*ms+time.Duration(i)), late); v != Shed || late.Reason() != work.Delay {
			t.Fatalf("%v %v with a queue 82 ms old, want it shed for delay", v, late.Reason())
		}
	}
	g.Leave(at(85*ms), running, work.Done)
	if next, v := g.Next(at(85 * ms)); next != waiter || v != Run {
		t.Fatalf("the waiter was not run: %v", v)
	}
	g.Leave(at(96*ms), waiter, work.Done)
	again := &Ticket{}
	again.Deadline = mono.Never
	if v := g.Arrive(at(97*ms), again); v != Run {
		t.Errorf("%v %v at an empty server, want it to run", v, again.Reason())
	}
}

// TestDelayIsReadNotConsumed: two readers at one instant see the same delay.
func TestDelayIsReadNotConsumed(t *testing.T) {
	g := fixed(t, 1)
	for range 2 {
		ticket := &Ticket{}
		ticket.Deadline = mono.Never
		g.Arrive(at(0), ticket)
	}
	first, second := g.Delay(at(30*ms)), g.Delay(at(30*ms))
	if first != 30*ms || second != first {
		t.Errorf("delay read as %v, then %v, want 30ms twice", first, second)
	}
}

// TestPoolShrinksUnderDelay: a long queue reaches the pool, and the windows that
// ride on replies, refusals among them, shrink.
func TestPoolShrinksUnderDelay(t *testing.T) {
	g := fixed(t, 1)
	c := g.Pool().Register(at(0))
	window := c.Window()
	for range 4 {
		ticket := &Ticket{Client: c}
		ticket.Deadline = mono.Never
		g.Arrive(at(0), ticket)
	}
	total := g.Pool().Total()
	for i := range 200 {
		now := at(50*ms + time.Duration(i)*ms/4)
		refused := &Ticket{Client: c}
		refused.Deadline = now.Add(-1)
		if v := g.Arrive(now, refused); v != Shed {
			t.Fatalf("an expired request: %v", v)
		}
		grant, ok := g.Reply(now, refused)
		if !ok {
			t.Fatal("a refusal without credits")
		}
		window = int(grant.Window)
	}
	if g.Pool().Total() >= total {
		t.Errorf("pool %d, was %d before the delay", g.Pool().Total(), total)
	}
	if window != c.Window() || window < c.Pending() {
		t.Errorf("window %d on the reply, %d in the books, %d pending", window, c.Window(), c.Pending())
	}
}

// TestGrantsFollowTheHandler: the window on a reply is decided when the handler
// has ended, not when the request came.
func TestGrantsFollowTheHandler(t *testing.T) {
	g := fixed(t, 1)
	c := g.Pool().Register(at(0))
	ticket := &Ticket{Client: c}
	ticket.Deadline = mono.Never
	g.Arrive(at(0), ticket)
	if _, ok := g.Reply(at(0), ticket); ok {
		t.Fatal("credits before the handler has run")
	}
	g.Leave(at(ms), ticket, work.Done)
	if _, ok := g.Reply(at(ms), ticket); !ok {
		t.Fatal("no credits after it")
	}
	if _, ok := g.Reply(at(ms), ticket); ok {
		t.Fatal("credits twice for one request")
	}
	if c.Pending() != 0 {
		t.Errorf("%d pending, want 0", c.Pending())
	}
}

func TestConfigReportsEveryMistake(t *testing.T) {
	_, err := New(Config{TargetDelay: -1, MaxDelay: -1, QueueLimit: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"Objective", "TargetDelay", "MaxDelay", "QueueLimit"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
}

func BenchmarkArriveLeave(b *testing.B) {
	g, err := New(Config{Objective: 100 * ms})
	if err != nil {
		b.Fatal(err)
	}
	c := g.Pool().Register(0)
	var ticket Ticket
	now := mono.Time(0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		ticket = Ticket{Client: c}
		ticket.Deadline = mono.Never
		if g.Arrive(now, &ticket) != Run {
			b.Fatal(ticket.Reason())
		}
		g.Leave(now.Add(1), &ticket, work.Done)
		g.Reply(now.Add(1), &ticket)
	}
}

// TestIdleTimeIsNoPace: a server with one slot, idle for most of the time, queues
// who comes while it is busy. Were the time between two departures its pace, idle
// or not, a tenth of the capacity would be too much for it.
func TestIdleTimeIsNoPace(t *testing.T) {
	g, err := New(Config{Objective: 200 * time.Millisecond, Slots: slots.Config{Min: 1, Max: 1}, NoCredit: true})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Second)
	for i := range 100 {
		first, second := &Ticket{}, &Ticket{}
		first.Deadline, second.Deadline = mono.Never, mono.Never
		if v := g.Arrive(now, first); v != Run {
			t.Fatalf("request %d: %v, expected to run: nobody is there", i, v)
		}
		if v := g.Arrive(now.Add(10*time.Millisecond), second); v != Wait {
			t.Fatalf("request %d: %v, expected to wait for 10 ms of 200", i, v)
		}
		now = now.Add(20 * time.Millisecond)
		g.Leave(now, first, work.Done)
		if next, v := g.Next(now); next != second || v != Run {
			t.Fatalf("request %d: %v, expected its turn", i, v)
		}
		now = now.Add(20 * time.Millisecond)
		g.Leave(now, second, work.Done)
		now = now.Add(360 * time.Millisecond)
	}
}

// TestTimeBackwards: a driver that reads its clock before it has its turn tells of
// departures at instants out of order. They must not leave the gate with a pace
// below nothing, at which it refuses everybody.
func TestTimeBackwards(t *testing.T) {
	g, err := New(Config{Objective: 100 * time.Millisecond, Slots: slots.Config{Min: 1, Max: 1}, NoCredit: true})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Second)
	arrive := func() *Ticket {
		t := &Ticket{}
		t.Deadline = mono.Never
		g.Arrive(now, t)
		return t
	}
	running := arrive()
	for i := range 50 {
		next := arrive()
		if next.Reason() != work.None {
			t.Fatalf("request %d: %v, expected to wait behind one", i, next.Reason())
		}
		now = now.Add(-time.Millisecond)
		g.Leave(now, running, work.Done)
		if running, _ = g.Next(now); running != next {
			t.Fatalf("request %d: did not get its turn", i)
		}
	}
}

// TestBusy: a process that uses up its processors needs no more running requests than
// these; one that uses them up refusing does, and one that has time again does.
func TestBusy(t *testing.T) {
	g, err := New(Config{Objective: 100 * ms, Slots: slots.Config{Min: 1, Max: 1}, QueueLimit: 1, NoCredit: true})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(0)
	var running Ticket
	running.Deadline = mono.Never
	if v := g.Arrive(now, &running); v != Run {
		t.Fatalf("the first request: %v", v)
	}
	for _, s := range []struct {
		what    string
		used    time.Duration // of 40 ms, in two processors
		refused int           // requests in each period
		want    int
	}{
		{"idle", ms, 0, 0}, {"busy", 39 * ms, 0, 2}, {"less busy", 28 * ms, 0, 2}, {"idle again", 20 * ms, 0, 0},
		{"busy with refusals", 39 * ms, 300, 0}, {"and with both", 39 * ms, 30, 2},
	} {
		for range 100 {
			now = now.Add(20 * ms)
			for range s.refused {
				var late Ticket
				late.Deadline = now
				if v := g.Arrive(now, &late); v != Shed {
					t.Fatalf("a request whose time is over: %v", v)
				}
			}
			g.OnBusy(s.used, 40*ms, 2, 0)
		}
		if got := g.limit.Useful(); got != s.want {
			t.Errorf("%s: %d running requests are of use, want %d", s.what, got, s.want)
		}
	}
}

// TestShortOfProcessors: where the processors are short, fewer may wait, and those who
// do may start until it is even whether their answers come in time.
func TestShortOfProcessors(t *testing.T) {
	queue := func(used time.Duration) (waiting int, latest time.Duration, g *Gate) {
		g, err := New(Config{Objective: 100 * ms, Slots: slots.Config{Min: 1, Max: 1}, NoCredit: true})
		if err != nil {
			t.Fatal(err)
		}
		client, now := g.Pool().Register(0), mono.Time(time.Second)
		arrive := func() (*Ticket, Verdict) {
			r := &Ticket{Client: client}
			r.Deadline = mono.Never
			client = g.Pool().Register(now)
			return r, g.Arrive(now, r)
		}
		running, _ := arrive()
		for i := range 100 {
			next, _ := arrive()
			now = now.Add(time.Duration(1+i%2*4) * ms)
			g.OnBusy(used, 20*ms, 1, 0)
			g.Leave(now, running, work.Done)
			if got, v := g.Next(now); got != next || v != Run {
				t.Fatalf("request %d: %v, expected its turn", i, v)
			}
			running = next
		}
		first, _ := arrive()
		for waiting = 1; ; waiting++ {
			if _, v := arrive(); v != Wait {
				break
			}
		}
		return waiting, g.staleAt(first).Sub(now), g
	}
	many, early, _ := queue(10 * ms)
	few, late, g := queue(20 * ms)
	if few >= many {
		t.Errorf("%d may wait, and %d while processors are to spare; want fewer", few, many)
	}
	if want := 100*ms - g.worth.hope; late != want || early >= late {
		t.Errorf("they may start after %v, and after %v while processors are to spare; want %v, and less", late, early, want)
	}
}
