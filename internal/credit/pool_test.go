package credit

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// original is the configuration of the paper's server, with none of ours.
func original(target time.Duration) Config {
	return Config{TargetDelay: target, Interval: 10 * time.Microsecond, MinTotal: 10, MaxWindow: 64, InitialWindow: 1}
}

// TestResize checks the control law against numbers worked out by hand from its
// formula. With no idle credits it is the paper's, but for the step, which
// shrinks towards the target.
func TestResize(t *testing.T) {
	const target = 80 * time.Microsecond
	tests := []struct {
		name    string
		clients int
		total   float64
		issued  int
		pending int
		rate    float64
		refused float64
		delay   time.Duration
		want    float64
	}{
		{"no delay, 1,000 clients: one credit", 1000, 500, 500, 500, 10, 0, 0, 501},
		{"no delay, 10,000 clients: ten credits", 10_000, 500, 500, 500, 10, 0, 0, 510},
		{"no delay, few clients: never under one", 3, 20, 20, 20, 10, 0, 0, 21},
		{"three quarters of the target: a quarter of the step", 10_000, 500, 500, 500, 10, 0, 60 * time.Microsecond, 502.5},
		{"at target: nothing lost", 1000, 500, 500, 500, 10, 0, 80 * time.Microsecond, 500},
		{"twice the target: 2 %", 1000, 500, 500, 500, 10, 0, 160 * time.Microsecond, 490},
		{"eleven times the target: 20 %", 1000, 500, 500, 500, 10, 0, 880 * time.Microsecond, 400},
		{"far over target: at most half", 1000, 500, 500, 500, 10, 0, 8 * time.Second, 250},
		{"never under the cores", 1000, 12, 12, 12, 10, 0, 8 * time.Second, 10},
		// 400 idle credits at 10 requests an interval are used up in 40 intervals:
		// a fortieth of the speed.
		{"idle credits: a cut of 0.05 %", 1000, 500, 500, 100, 10, 0, 160 * time.Microsecond, 499.75},
		{"idle credits: a step of one, not ten", 10_000, 500, 500, 100, 10, 0, 0, 501},
		{"the last cut not taken up: no further one", 1000, 500, 600, 600, 10, 0, 8 * time.Second, 500},
		{"a tenth refused: 0.2 %", 1000, 500, 500, 500, 10, 0.1, 80 * time.Microsecond, 499},
		{"all refused: half, and 2 % of that", 1000, 500, 500, 500, 10, 1, 80 * time.Microsecond, 245},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := NewPool(original(target))
			if err != nil {
				t.Fatal(err)
			}
			p.clients, p.issued, p.pending, p.peak = tt.clients, tt.issued, tt.pending, float64(tt.pending)
			p.total, p.rate, p.refused = tt.total, tt.rate, tt.refused
			p.resize(tt.delay)
			if got := p.total; got < tt.want-1e-9 || got > tt.want+1e-9 {
				t.Errorf("total = %v, want %v", got, tt.want)
			}
		})
	}
}

// TestPool runs the narrated scripts under testdata/pool.
func TestPool(t *testing.T) {
	datadriven.Walk(t, "testdata/pool", func(t *testing.T, path string) {
		var p *Pool
		clients := map[string]*Client{}
		names := map[*Client]string{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			at := mono.Time(0)
			if d.HasArg("at") {
				var s string
				d.ScanArgs(t, "at", &s)
				dur, err := time.ParseDuration(s)
				if err != nil {
					d.Fatalf(t, "at: %v", err)
				}
				at = mono.Time(dur)
			}
			number := func(key string) int {
				n := 0
				d.MaybeScanArgs(t, key, &n)
				return n
			}
			who := func() (string, *Client) {
				var name string
				d.ScanArgs(t, "client", &name)
				return name, clients[name]
			}
			grant := func(g wire.Grant) {
				fmt.Fprintf(&out, "window=%d seq=%d\n", g.Window, g.Seq)
			}
			switch d.Cmd {
			case "pool":
				cfg := Config{TargetDelay: 80 * time.Microsecond, Interval: 10 * time.Microsecond, MinTotal: 4, InitialWindow: 1, Lease: 640 * time.Microsecond}
				cfg.NoSpeculation = d.HasArg("no-speculation")
				var err error
				if p, err = NewPool(cfg); err != nil {
					return err.Error()
				}
			case "register":
				for _, name := range strings.Fields(d.Input) {
					c := p.Register(at)
					clients[name], names[c] = c, name
				}
			case "deregister":
				_, c := who()
				p.Deregister(at, c)
			case "request":
				_, c := who()
				if !p.OnRequest(at, c, number("demand")) {
					out.WriteString("over its window\n")
				}
			case "demand":
				_, c := who()
				p.OnDemand(at, c, number("n"))
			case "reply":
				_, c := who()
				grant(p.OnReply(at, c))
			case "wake":
				delay := time.Duration(0)
				if d.HasArg("delay") {
					var s string
					d.ScanArgs(t, "delay", &s)
					delay, _ = time.ParseDuration(s)
				}
				for i := max(number("times"), 1); i > 0; i-- {
					p.OnWake(at, delay)
					at = at.Add(10 * time.Microsecond)
				}
			case "grants":
				for c, g, ok := p.NextGrant(); ok; c, g, ok = p.NextGrant() {
					fmt.Fprintf(&out, "%s: ", names[c])
					grant(g)
				}
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			if err := p.Check(); err != nil {
				d.Fatalf(t, "%v", err)
			}
			drained, hungry := p.Drained()
			fmt.Fprintf(&out, "total=%d issued=%d drained=%d hungry=%d", p.Total(), p.Issued(), drained, hungry)
			if !d.HasArg("brief") {
				for _, name := range sortedNames(clients) {
					if c := clients[name]; !c.gone && len(clients) <= 8 {
						out.WriteString("\n  " + name + ": window=" + strconv.Itoa(c.window) + " pending=" + strconv.Itoa(c.pending) + " demand=" + strconv.Itoa(c.demand))
					}
				}
			}
			return out.String() + "\n"
		})
	})
}

func sortedNames(m map[string]*Client) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	for i := range names {
		for j := i; j > 0 && names[j] < names[j-1]; j-- {
			names[j], names[j-1] = names[j-1], names[j]
		}
	}
	return names
}

// TestShortLivedClientsLeaveNothingBehind: after 3,000 clients came and went,
// those who stay have what they would have had without them.
func TestShortLivedClientsLeaveNothingBehind(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	stays := p.Register(0)
	now := mono.Time(0)
	for range 3000 {
		now = now.Add(50 * time.Microsecond)
		c := p.Register(now)
		p.OnRequest(now, c, 5)
		p.OnWake(now, 2*time.Millisecond) // overloaded all the while
		p.OnReply(now, c)
		p.Deregister(now, c)
		p.Deregister(now, c) // a second time does nothing
	}
	if p.Clients() != 1 || p.Pending() != 0 || p.Issued() != stays.Window() {
		t.Fatalf("clients %d, pending %d, issued %d, want 1, 0, %d", p.Clients(), p.Pending(), p.Issued(), stays.Window())
	}
	for range 200 {
		now = now.Add(125 * time.Microsecond)
		p.OnRequest(now, stays, 50)
		p.OnWake(now, 0)
		p.OnReply(now, stays)
	}
	if got := stays.Window(); got < 32 {
		t.Errorf("the client who stayed has a window of %d, want it to grow with its demand of 50", got)
	}
}

// TestDelayThatIsNotSampledDoesNotLinger: an interval without samples falls back
// to what OnWake is told, so the pool cannot be stuck over or under target.
func TestDelayThatIsNotSampledDoesNotLinger(t *testing.T) {
	p, err := NewPool(original(80 * time.Microsecond))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		p.Register(0)
	}
	p.OnDelay(time.Second)
	p.OnDelay(time.Microsecond) // the largest sample counts, not the last
	p.OnWake(mono.Time(time.Second), 0)
	if p.Delay() != time.Second {
		t.Fatalf("delay %v, want 1s", p.Delay())
	}
	before := p.Total()
	p.OnWake(mono.Time(2*time.Second), 0)
	if p.Delay() != 0 || p.Total() <= before {
		t.Errorf("delay %v, total %d after %d; want 0s and growth", p.Delay(), p.Total(), before)
	}
}

// TestFloodersGainNothing: a client that ignores its window is told apart, and
// its window does not grow by what it sends.
func TestFloodersGainNothing(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: time.Millisecond, InitialWindow: 4})
	if err != nil {
		t.Fatal(err)
	}
	flooder, honest := p.Register(0), p.Register(0)
	now := mono.Time(time.Millisecond)
	p.OnWake(now, 3*time.Millisecond)
	over := 0
	for range 1000 {
		if !p.OnRequest(now, flooder, WindowLimit) {
			over++
		}
	}
	if over < 990 {
		t.Errorf("%d of 1000 requests were told to be over the window, want nearly all", over)
	}
	p.OnRequest(now, honest, 3)
	for range 1000 {
		now = now.Add(time.Microsecond)
		p.OnWake(now, 3*time.Millisecond)
		p.OnReply(now, flooder)
	}
	if flooder.Window() > 4 {
		t.Errorf("the flooder's window is %d, want it no larger than the 4 it started with", flooder.Window())
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}

// TestPoolProperties drives a pool with random events and checks the package's
// invariants after each.
func TestPoolProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPool(Config{
			TargetDelay:   80 * time.Microsecond,
			MaxWindow:     rapid.IntRange(1, 70).Draw(t, "maxWindow"),
			InitialWindow: 1,
			MinTotal:      rapid.IntRange(1, 20).Draw(t, "minTotal"),
			NoSpeculation: rapid.Bool().Draw(t, "noSpeculation"),
			Lease:         200 * time.Microsecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		now := mono.Time(0)
		var clients []*Client
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "dt")))
			var c *Client
			if len(clients) > 0 {
				c = clients[rapid.IntRange(0, len(clients)-1).Draw(t, "who")]
			}
			switch op := rapid.IntRange(0, 10).Draw(t, "op"); {
			case op == 0 || c == nil:
				clients = append(clients, p.Register(now))
			case op == 1:
				p.OnRequest(now, c, rapid.IntRange(-5, 100).Draw(t, "demand"))
			case op == 2:
				if c.pending > 0 {
					before := c.window
					g := p.OnReply(now, c)
					if int(g.Window) != c.window || c.window < min(before, c.pending) {
						t.Fatalf("reply said %d, window %d, pending %d", g.Window, c.window, c.pending)
					}
				}
			case op == 3:
				p.OnDemand(now, c, rapid.IntRange(-5, 100).Draw(t, "demand"))
			case op == 4:
				p.OnWake(now, time.Duration(rapid.IntRange(0, 400_000).Draw(t, "delay")))
			case op == 5:
				p.Deregister(now, c)
			case op == 7:
				p.OnUse(now, c, float64(rapid.IntRange(0, 100).Draw(t, "had")), 100, 100)
			case op == 8:
				p.OnPeer(c, uint64(rapid.IntRange(0, 3).Draw(t, "peer")))
			case op == 10:
				p.ByReply(c, rapid.Bool().Draw(t, "by reply"))
			case op == 9:
				p.OnWorkflow(c, rapid.IntRange(-1, 66).Draw(t, "workflow"))
			case op == 6:
				for _, g, ok := p.NextGrant(); ok; _, g, ok = p.NextGrant() {
					if int(g.Window) > p.cfg.MaxWindow {
						t.Fatalf("granted %d, at most %d allowed", g.Window, p.cfg.MaxWindow)
					}
				}
			}
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			if p.Total() < p.cfg.MinTotal {
				t.Fatalf("total %d under the least, %d", p.Total(), p.cfg.MinTotal)
			}
		}
	})
}

// TestNobodyStarves: with one credit for a hundred clients that all want it,
// each gets its turn.
func TestNobodyStarves(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: 80 * time.Microsecond, Interval: 10 * time.Microsecond, InitialWindow: 1, MinTotal: 1})
	if err != nil {
		t.Fatal(err)
	}
	const n = 100
	served := map[*Client]int{}
	var clients []*Client
	for range n {
		c := p.Register(0)
		clients = append(clients, c)
		p.OnDemand(0, c, 1)
	}
	now := mono.Time(0)
	for range 40 * n {
		now = now.Add(10 * time.Microsecond)
		p.OnWake(now, 240*time.Microsecond) // over target: the pool shrinks to one
		for _, c := range clients {
			if c.window > c.pending {
				p.OnRequest(now, c, 1)
				p.OnReply(now, c)
				served[c]++
				break
			}
		}
	}
	least, most := served[clients[0]], 0
	for _, c := range clients {
		least, most = min(least, served[c]), max(most, served[c])
	}
	if least == 0 || most > 20*least {
		t.Errorf("between %d and %d requests a client, want nobody without and none with far more", least, most)
	}
}

// TestLease: a client keeps its credits for a lease after its last sign of life, and
// no longer if somebody waits for them.
func TestLease(t *testing.T) {
	const lease = 800 * time.Microsecond
	for _, calls := range [][]time.Duration{nil, {50 * time.Microsecond}, {300 * time.Microsecond, 390 * time.Microsecond}, {700 * time.Microsecond}} {
		p, err := NewPool(Config{TargetDelay: 80 * time.Microsecond, Interval: 10 * time.Microsecond, InitialWindow: 1, Lease: lease, NoSpeculation: true})
		if err != nil {
			t.Fatal(err)
		}
		waits, silent := p.Register(0), p.Register(0)
		p.OnDemand(0, silent, 1) // has the only credit
		p.OnDemand(0, waits, 1)
		var last, lost mono.Time
		for now := mono.Time(0); now < mono.Time(3*lease) && lost == 0; now = now.Add(10 * time.Microsecond) {
			p.OnWake(now, 80*time.Microsecond) // as it should be: the pool stays as it is
			if len(calls) > 0 && now == mono.Time(calls[0]) {
				last, calls = now, calls[1:]
				p.OnDemand(now, silent, 0)
			}
			if silent.Window() == 0 {
				lost = now
			}
		}
		if over := lost.Sub(last) - lease; over <= 0 || over > 10*time.Microsecond {
			t.Errorf("heard of at %v, without credits at %v: want a lease of %v between, and at most an interval more", last, lost, lease)
		}
		if waits.Window() == 0 {
			t.Error("what was taken back went to nobody")
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkRequestReply(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) {
			p, err := NewPool(Config{TargetDelay: time.Millisecond})
			if err != nil {
				b.Fatal(err)
			}
			clients := make([]*Client, n)
			for i := range clients {
				clients[i] = p.Register(0)
			}
			b.ReportAllocs()
			now, i := mono.Time(0), 0
			for b.Loop() {
				now = now.Add(time.Microsecond)
				c := clients[i%n]
				i++
				p.OnRequest(now, c, 1)
				p.OnWake(now, 0)
				p.OnReply(now, c)
				for _, _, ok := p.NextGrant(); ok; _, _, ok = p.NextGrant() {
				}
			}
		})
	}
}

// TestDemandBehindSlowRequestsWidensTheWindow: a client with requests that take
// long reports its demand without one, and gets what is free.
func TestDemandBehindSlowRequestsWidensTheWindow(t *testing.T) {
	p, err := NewPool(Config{TargetDelay: time.Millisecond, InitialWindow: 2})
	if err != nil {
		t.Fatal(err)
	}
	c := p.Register(0)
	p.OnWake(0, 0)
	for range 2 {
		p.OnRequest(0, c, 0)
	}
	for p.NextWake() < 1e6 {
		p.OnWake(p.NextWake(), 0)
	}
	for _, _, ok := p.NextGrant(); ok; _, _, ok = p.NextGrant() {
	}
	if c.Window() != 2 || p.Total() <= 2 {
		t.Fatalf("window %d of %d credits, want 2 of more", c.Window(), p.Total())
	}
	p.OnDemand(1e6, c, 3)
	got, g, ok := p.NextGrant()
	if !ok || got != c || g.Window <= 2 || int(g.Window) > p.Total() {
		t.Errorf("granted %+v, %v, want a window above 2 and at most %d", g, ok, p.Total())
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
