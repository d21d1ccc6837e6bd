package stage

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// shopOf starts a shop of three servers and returns their addresses, the first one
// first, and what ends them, with all that they wrote.
func shopOf(t *testing.T, like Shop) ([]string, func() []Line) {
	t.Helper()
	var addrs []string
	var stops []func() ([]Line, error)
	for _, name := range []string{"last", "middle", "first"} {
		s := like
		s.Name = name
		if len(addrs) > 0 {
			s.Next = addrs[0]
		}
		c, stop := play(t, s.run)
		stops = append(stops, stop)
		select {
		case addr := <-c.addr:
			addrs = append([]string{addr}, addrs...)
		case <-time.After(time.Minute):
			t.Fatalf("%s does not listen", name)
		}
	}
	return addrs, func() []Line {
		var all []Line
		for _, stop := range stops {
			lines, err := stop()
			if err != nil {
				t.Error(err)
			}
			all = append(all, lines...)
		}
		return all
	}
}

// Checkouts and reads in both orders: every request ends, each has a mean, and with
// shares the first server finds out what a checkout is, tells the others, and all
// of them decide. (Who is how fast is up to the machine, and the demo's to show.)
func TestShop(t *testing.T) {
	for _, shares := range []bool{false, true} {
		like := Shop{Shares: shares, Objective: time.Minute, Workers: 2, Mean: 2 * time.Millisecond, Seed: 4, Period: 20 * time.Millisecond}
		addrs, stop := shopOf(t, like)
		steady := func(rate float64) openloop.Profile { return openloop.Steady(rate, 3*time.Second) }
		lines := load(t, Load{
			Conns: 2, Objective: 30 * time.Second, Timeout: time.Minute, Seed: 3, // which no machine is too slow for
			Flows: []Flow{{Checkouts, addrs[:1], steady(20)}, {Reads, addrs, steady(100)}},
		})
		written := stop()
		outcomes := map[string]Outcome{}
		points := map[string][]Point{}
		for _, l := range lines {
			if l.Outcome != nil {
				outcomes[l.Outcome.Tenant] = *l.Outcome
			}
			if l.Progress != nil {
				points[l.Progress.Tenant] = append(points[l.Progress.Tenant], l.Progress.New...)
				if l.Progress.Began.IsZero() {
					t.Errorf("%s began at %v", l.Progress.Tenant, l.Progress.Began)
				}
			}
		}
		for _, name := range []string{Checkouts, Reads} {
			o := outcomes[name]
			if tot := o.Totals; tot.Served != tot.Offered || tot.Offered == 0 {
				t.Errorf("shares %v, %s: %+v, want all served", shares, name, tot)
				continue
			}
			if s := o.Steps[0]; s.MeanMS <= 0 || s.P95MS <= 0 || len(points[name]) != 12 {
				t.Errorf("shares %v, %s: step %+v and %d points, want a mean, a p95 and 12", shares, name, s, len(points[name]))
			}
		}
		// A checkout takes what three servers take, 2 ms each, and no less however fast the machine is.
		if c := outcomes[Checkouts]; len(c.Steps) == 1 && c.Steps[0].MeanMS < 4.5 {
			t.Errorf("shares %v: a checkout takes %v ms", shares, c.Steps[0].MeanMS)
		}
		decided := map[string]Weighing{}
		for _, l := range written {
			if l.Weighing != nil {
				decided[l.Weighing.Server] = *l.Weighing
				if w := l.Weighing.Weight; w <= 0 || w > 1 || l.Weighing.Reason == "" || l.Weighing.At.IsZero() {
					t.Errorf("a decision is %+v", *l.Weighing)
				}
			}
		}
		if !shares {
			if len(decided) != 0 {
				t.Errorf("servers in order of arrival decided %+v", decided)
			}
			continue
		}
		for server, why := range map[string]string{"first": "hops", "middle": ByCaller, "last": ByCaller} {
			if d := decided[server]; d.Checkout.Class != "interactive" || d.Checkout.Why != why || d.Read.Class != "default" {
				t.Errorf("%s: %+v, want checkouts to be interactive because of %s, and reads not", server, d, why)
			}
		}
	}
}

func TestTimes(t *testing.T) {
	s := &times{}
	zero := time.Unix(1_000, 0)
	for i := range 100 {
		s.add(zero.Add(time.Duration(i)*10*time.Millisecond), time.Duration(i+1)*time.Millisecond)
	}
	for _, test := range []struct {
		from, to  time.Duration
		mean, p95 float64
	}{
		{0, time.Second, 50.5, 96},
		{0, 20 * time.Millisecond, 1.5, 2},
		{2 * time.Second, 3 * time.Second, 0, 0},
	} {
		if mean, p95 := s.meant(zero.Add(test.from), zero.Add(test.to)); mean != test.mean || p95 != test.p95 {
			t.Errorf("from %v to %v: mean %v, p95 %v; want %v, %v", test.from, test.to, mean, p95, test.mean, test.p95)
		}
	}
	// What was meant to leave before and answered after counts where it was answered.
	if mean, _ := s.answered(zero.Add(1000*time.Millisecond), zero.Add(2*time.Second)); mean < 91 || mean > 100 {
		t.Errorf("answered in the second second: a mean of %v ms, want that of the last ones", mean)
	}
	var none *times
	if mean, p95 := none.meant(zero, zero.Add(time.Hour)); mean != 0 || p95 != 0 {
		t.Errorf("no times: %v, %v", mean, p95)
	}
}

func TestWaitShare(t *testing.T) {
	for _, test := range []struct {
		objective, budget time.Duration
		want              float64
	}{
		{100 * time.Millisecond, time.Second, 0.05},
		{time.Second, 100 * time.Millisecond, 1},
		{time.Second, 0, 0}, // the default
	} {
		if got := (Service{Objective: test.objective, Budget: test.budget}).waitShare(); got != test.want {
			t.Errorf("objective %v of a budget of %v: %v, want %v", test.objective, test.budget, got, test.want)
		}
	}
}
