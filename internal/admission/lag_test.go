package admission

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// TestLagCountsOnce: what a request waits in a socket before it is seen is three quarters
// of the lag, once, in its age and in what it is told to wait, unless the driver knows when
// it arrived; and none once the lag is not known any more. For the credits the lag counts
// on the way in, where the age of the oldest has it already, and on the way out.
func TestLagCountsOnce(t *testing.T) {
	const lag = 8 * ms
	g := fixed(t, 1)
	now := at(time.Second)
	enter := func(arrived mono.Time) *Ticket {
		k := &Ticket{Arrived: arrived}
		k.Deadline = mono.Never
		g.Arrive(now, k)
		return k
	}
	delay := func(want time.Duration) {
		t.Helper()
		if got := g.Delay(now); got != want {
			t.Errorf("delay %v, want %v", got, want)
		}
	}
	delay(0)
	g.OnLag(now, lag)
	delay(2 * lag) // nobody waits
	for _, tt := range []struct {
		arrived mono.Time
		want    time.Duration
	}{{0, lag * 3 / 4}, {now.Add(-ms), ms}, {now, 0}} {
		queue := g.Expect(now, &Ticket{})
		k := enter(tt.arrived)
		if got := now.Sub(k.Arrived); got != tt.want {
			t.Errorf("a request that arrived at %v: %v ago, want %v", tt.arrived, got, tt.want)
		}
		if got := k.promised - queue; k.state == waiting && got != tt.want {
			t.Errorf("a request that arrived at %v is told to wait %v beyond the queue, want %v", tt.arrived, got, tt.want)
		}
	}
	oldest := g.queue.Oldest().Arrived
	delay(2 * lag) // the oldest is younger than the lag is long
	now = oldest.Add(20 * ms)
	g.OnLag(now, lag)
	delay(20*ms + lag)
	now = now.Add(time.Second)
	if k := enter(0); k.Arrived != now {
		t.Errorf("a second after the last lag a request arrived %v ago, want now", now.Sub(k.Arrived))
	}
	delay(now.Sub(oldest))
}

// TestTheWayOutIsPartOfTheObjective: an answer waits for the processor as its request did. Who
// leaves with less than that left is late, and who could not start before is not let wait.
func TestTheWayOutIsPartOfTheObjective(t *testing.T) {
	const lag = 8 * ms
	g := fixed(t, 1)
	now := at(time.Second)
	g.OnLag(now, lag)
	k := &Ticket{Arrived: now}
	k.Deadline = mono.Never
	if v := g.Arrive(now, k); v != Run {
		t.Fatalf("%v, want run", v)
	}
	last := now.Add(g.Config().Objective - lag)
	if g.Late(last, k) || !g.Late(last+1, k) {
		t.Errorf("late at %v: %v, a moment later: %v, want false and true", last, g.Late(last, k), g.Late(last+1, k))
	}
}

// TestSlotsMakeMessagesWait: where a process uses up the processors, what it runs makes its own
// messages wait, and that is counted with what a request takes; where others use them it is not.
func TestSlotsMakeMessagesWait(t *testing.T) {
	const lag, ran = 8 * ms, 10 * ms
	for _, tt := range []struct {
		own  float64
		want time.Duration
	}{{1, ran + 2*lag}, {0.2, ran}} {
		g := fixed(t, 1)
		now := at(time.Second)
		for range 100 {
			g.OnBusy(time.Duration(tt.own*20*float64(ms)), 20*ms, 1, 0)
		}
		k := &Ticket{Arrived: now}
		k.Deadline = mono.Never
		g.Arrive(now, k)
		now = now.Add(ran)
		g.OnLag(now, lag)
		g.Leave(now, k, work.Done)
		if got := g.Slots().Service(); got != tt.want {
			t.Errorf("a process that uses %v of the processors: a request takes %v, want %v", tt.own, got, tt.want)
		}
	}
}

// TestCheapRefusals: a process that refuses 600 requests in 20 ms cannot have spent 100 µs on
// each. While messages do not wait, what it uses may all be refusals, and more may run; once they
// do, the processors are short, and stay so until they are not used up any more.
func TestCheapRefusals(t *testing.T) {
	g := fixed(t, 4)
	now := at(time.Second)
	busy := func(lag, used time.Duration) int {
		for range 100 {
			now = now.Add(20 * ms)
			g.OnLag(now, lag)
			g.cpu.turned = 600
			g.OnBusy(used, 20*ms, 2, 0)
		}
		return g.Slots().Useful()
	}
	objective := g.Config().Objective
	for i, step := range []struct {
		lag, used time.Duration
		want      int
	}{
		{objective/10 - 1, 20 * ms, 0},
		{objective / 10, 20 * ms, 2},
		{0, 20 * ms, 2},
		{0, 10 * ms, 0},
	} {
		if got := busy(step.lag, step.used); got != step.want {
			t.Errorf("step %d: %d running requests are of use, want %d", i, got, step.want)
		}
	}
}

// TestABurstOnProcessorsIsSeenAtOnce: the average over ten looks is too late for 100 ms of overload. All
// processors in use are enough if messages wait as well, and no reason to think them short if none does.
func TestABurstOnProcessorsIsSeenAtOnce(t *testing.T) {
	for _, c := range []struct {
		lag  time.Duration
		used time.Duration
		want int
	}{{0, 40 * ms, 0}, {5 * ms, 40 * ms, 0}, {10 * ms, 40 * ms, 2}, {10 * ms, 32 * ms, 0}} {
		g, err := New(Config{Objective: 100 * ms})
		if err != nil {
			t.Fatal(err)
		}
		g.OnLag(at(time.Second), c.lag)
		g.OnBusy(c.used, 40*ms, 2, 0)
		if got := g.Slots().Useful(); got != c.want {
			t.Errorf("a lag of %v, %v of 40 ms used: %d are of use, want %d", c.lag, c.used, got, c.want)
		}
	}
}

// TestANeighbourOnTheHost: the processors of a host that are all used are short for a process whose messages
// wait for them, for a while. A neighbour that takes what is left is none of its business.
func TestANeighbourOnTheHost(t *testing.T) {
	g, err := New(Config{Objective: 100 * ms})
	if err != nil {
		t.Fatal(err)
	}
	now := at(time.Second)
	look := func(times int, lag time.Duration, host float64) bool {
		for range times {
			now = now.Add(20 * ms)
			g.OnLag(now, lag)
			g.OnBusy(2*ms, 40*ms, 2, host)
		}
		return g.Slots().Sharing()
	}
	for _, step := range []struct {
		name  string
		times int
		lag   time.Duration
		host  float64
		want  bool
	}{
		{"the host is full, and no message waits", 100, 0, 1, false},
		{"messages wait", 1, ms, 1, true},
		{"none waits any more", 100, 0, 1, true},
		{"none has waited for long", 1200, 0, 1, false},
		{"messages wait on a host that has room", 100, ms, 0.7, false},
	} {
		if got := look(step.times, step.lag, step.host); got != step.want {
			t.Errorf("%s: processors are short: %v, want %v", step.name, got, step.want)
		}
	}
}

// TestAShorterObjectiveForgetsALag: that messages waited while the objective was a minute is forgotten after 256 of the
// objectives that there are now, and not after four hours.
func TestAShorterObjectiveForgetsALag(t *testing.T) {
	g, err := New(Config{Objective: time.Minute, NoCredit: true})
	if err != nil {
		t.Fatal(err)
	}
	now := at(time.Second)
	g.OnLag(now, time.Second)
	for range 50 {
		g.OnBusy(2*ms, 40*ms, 2, 1)
	}
	if !g.limit.Sharing() {
		t.Fatal("all processors of the host are used and messages wait, and nobody shares them")
	}
	if err := g.SetObjective(now, 100*ms); err != nil {
		t.Fatal(err)
	}
	g.OnLag(now, 0)
	for range hostLagged * 100 / 20 {
		g.OnBusy(2*ms, 40*ms, 2, 1)
	}
	if g.limit.Sharing() {
		t.Error("no message has waited for 256 objectives, and processors are short")
	}
}
