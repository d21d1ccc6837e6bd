package placement

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

const second = mono.Time(time.Second)

// Traffic moves from one broker to the other: the bucket has followed a window later.
func TestAdaptorFollows(t *testing.T) {
	a, err := NewAdaptor(0, AdaptorConfig{Bucket: Bucket{1000, 100}, Brokers: 2})
	if err != nil {
		t.Fatal(err)
	}
	at := mono.Time(0)
	play := func(steps int, rates ...float64) {
		for range steps {
			at += second
			for i, r := range rates {
				a.Report(at, i, Report{Messages: r, Backlog: r / 10, Version: a.Grant(i).Version})
			}
			a.Step(at)
		}
	}
	play(12, 800, 100)
	near(t, "rate of the busy one", a.Grant(0).Rate, 1000*8./9, .1)
	play(11, 100, 800)
	near(t, "rate after the shift", a.Grant(1).Rate, 1000*8./9, .1)
	near(t, "burst after the shift", a.Grant(1).Burst, 100*8./9, .1)
	version := a.Grant(0).Version
	play(20, 102, 797)
	if a.Grant(0).Version != version {
		t.Error("noise changed a grant")
	}
}

// obeying is a broker on the other side of a bad network.
type obeying struct {
	grant Grant
	up    bool
}

func (o *obeying) bucket(now mono.Time) Bucket {
	if now >= o.grant.Expires {
		return o.grant.Floor
	}
	return o.grant.Bucket
}

// Whatever is late, lost or dead, what all let through together never exceeds the bucket;
// and when all is well again it is used to the full.
func TestAdaptorNeverExceeds(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 1 + rng.IntN(6)
		whole := Bucket{1000, 50}
		a, err := NewAdaptor(0, AdaptorConfig{Bucket: whole, Brokers: n})
		if err != nil {
			t.Fatal(err)
		}
		brokers := make([]obeying, n)
		type sent struct {
			due    mono.Time
			broker int
			grant  Grant
			report *Report
		}
		var under []sent
		for i := range brokers {
			brokers[i] = obeying{a.Grant(i), true}
		}
		load := make([]float64, n)
		for at := mono.Time(0); at < 200*second; at += second / 4 {
			calm := at > 120*second // the network and all brokers are well again
			for i := range under {
				if m := under[i]; m.due <= at && m.due >= 0 {
					under[i].due = -1
					if m.report != nil {
						a.Report(at, m.broker, *m.report)
					} else if m.grant.Version >= brokers[m.broker].grant.Version {
						brokers[m.broker].grant = m.grant
					}
				}
			}
			if at%second == 0 {
				late := func() mono.Time {
					if calm {
						return at
					}
					return at + mono.Time(rng.Int64N(int64(second/2)))
				}
				lost := func() bool { return !calm && rng.IntN(4) == 0 }
				for i := range brokers {
					if rng.IntN(8) == 0 && at < 150*second || load[i] == 0 {
						load[i] = 1000 * rng.Float64()
					}
					if !calm && rng.IntN(20) == 0 {
						brokers[i].up = !brokers[i].up
					}
					if brokers[i].up = brokers[i].up || calm; brokers[i].up && !lost() {
						under = append(under, sent{due: late(), broker: i, report: &Report{Messages: load[i], Backlog: load[i] / 20, Version: brokers[i].grant.Version}})
					}
				}
				a.Step(at)
				for i := range brokers {
					if brokers[i].up && !lost() {
						under = append(under, sent{due: late(), broker: i, grant: a.Grant(i)})
					}
				}
			}
			var sum Bucket
			for i := range brokers {
				b := brokers[i].bucket(at)
				sum.Rate, sum.Burst = sum.Rate+b.Rate, sum.Burst+b.Burst
			}
			if sum.Rate > whole.Rate*(1+1e-9) || sum.Burst > whole.Burst*(1+1e-9) {
				t.Fatalf("seed %d, %v: %+v of %+v", seed, time.Duration(at), sum, whole)
			}
			if at == 199*second && (sum.Rate < .9*whole.Rate || sum.Burst < .9*whole.Burst) {
				t.Fatalf("seed %d: only %+v of %+v is used when all is well", seed, sum, whole)
			}
		}
	}
}

// A silent broker is at its floor after two windows, and the others have its part a step later.
func TestAdaptorGivesUpTheSilent(t *testing.T) {
	a, err := NewAdaptor(0, AdaptorConfig{Bucket: Bucket{1000, 100}, Brokers: 2})
	if err != nil {
		t.Fatal(err)
	}
	for at := second; at <= 40*second; at += second {
		if at <= 5*second {
			a.Report(at, 1, Report{Messages: 500, Backlog: 10, Version: a.Grant(1).Version})
		}
		a.Report(at, 0, Report{Messages: 500, Backlog: 10, Version: a.Grant(0).Version})
		a.Step(at)
		if at == 25*second && a.Grant(1).Expires != at {
			t.Errorf("the silent one's grant ends at %v", time.Duration(a.Grant(1).Expires))
		}
	}
	if g := a.Grant(1); g.Bucket != g.Floor {
		t.Errorf("the silent one has %+v", g)
	}
	near(t, "the other one's rate", a.Grant(0).Rate, 975, 1e-6)
}

func TestAdaptorConfig(t *testing.T) {
	_, err := NewAdaptor(0, AdaptorConfig{Bucket: Bucket{-1, .5}, Brokers: 0, Window: -1, Floor: 1, Change: -1})
	for _, word := range []string{"Rate is -1", "Burst is 0.5", "Brokers is 0", "Window is -1ns", "Floor is 1", "Change is -1"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is missing in %v", word, err)
		}
	}
}

// Reports with impossible figures count as none.
func TestAdaptorOfNonsense(t *testing.T) {
	a, err := NewAdaptor(0, AdaptorConfig{Bucket: Bucket{1000, 100}, Brokers: 3})
	if err != nil {
		t.Fatal(err)
	}
	var zero float64
	for at := second; at < 30*second; at += second {
		a.Report(at, 0, Report{zero / zero, -1, -5, zero / zero, 1 << 60})
		a.Report(at, 1, Report{1 / zero, math.MaxInt64, 1 / zero, 1 / zero, 0})
		a.Report(at-2*second, 2, Report{1, 1, 1, 1, 1})
		a.Step(at)
		for i := range 3 {
			if g := a.Grant(i); !(g.Rate > 0 && g.Rate <= 1000 && g.Burst > 0 && g.Burst <= 100) {
				t.Fatalf("%+v", g)
			}
		}
	}
}

// Traffic moves and messages wait: the bucket has followed a few steps later, not a window, though each report
// confirms only the grant of the step before.
func TestAdaptorFollowsWhatWaits(t *testing.T) {
	a, err := NewAdaptor(0, AdaptorConfig{Bucket: Bucket{1100, 26}, Brokers: 3})
	if err != nil {
		t.Fatal(err)
	}
	waiting := make([]float64, 3)
	obeyed := []Grant{a.Grant(0), a.Grant(1), a.Grant(2)}
	step := func(at mono.Time, rates ...float64) {
		for i, r := range rates {
			waiting[i] = max(0, waiting[i]+r-obeyed[i].Rate)
			a.Report(at, i, Report{Messages: r, Backlog: 5 + waiting[i], Waiting: waiting[i], Version: obeyed[i].Version})
		}
		a.Step(at)
		for i := range rates {
			obeyed[i] = a.Grant(i)
		}
	}
	for k := 1; k <= 30; k++ {
		step(mono.Time(k)*second, 800, 100, 100)
	}
	if waiting[0] > 0 {
		t.Fatalf("%v wait before anything moves", waiting)
	}
	for k := 31; k <= 35; k++ {
		step(mono.Time(k)*second, 100, 800, 100)
	}
	if obeyed[1].Rate < 800 {
		t.Errorf("five steps later %v/s of 800/s", obeyed[1].Rate)
	}
	for k := 36; k <= 60; k++ {
		step(mono.Time(k)*second, 100, 800, 100)
	}
	if waiting[1] > 0 || obeyed[0].Rate < 100 || obeyed[0].Burst < 1 {
		t.Errorf("half a minute later %v wait; %+v", waiting, obeyed)
	}
}

// Publishers are moved: their part is there before their messages are, and never counted twice.
func TestAdaptorMoved(t *testing.T) {
	a, err := NewAdaptor(0, AdaptorConfig{Bucket: Bucket{1100, 26}, Brokers: 2})
	if err != nil {
		t.Fatal(err)
	}
	at := mono.Time(0)
	step := func(rates ...float64) {
		at += second
		for i, r := range rates {
			a.Report(at, i, Report{Messages: r, Backlog: r / 100, Version: a.Grant(i).Version})
		}
		a.Step(at)
	}
	for range 12 {
		step(900, 100)
	}
	a.Moved(at, 0, 1, 500)
	a.Moved(at, 0, 0, 5)
	a.Moved(at, 0, 1, -5)
	step(900, 100)
	step(900, 100)
	if a.Grant(1).Rate < 500 || a.Grant(1).Burst < 10 || a.Grant(0).Rate > 600 {
		t.Errorf("two steps later: %+v and %+v", a.Grant(0).Bucket, a.Grant(1).Bucket)
	}
	if got := Slice(Bucket{1100, 26}, 1000); got != 50 {
		t.Errorf("a slice of %v/s, half of what there is to spare is 50/s", got)
	}
}

// An Adaptor that follows another one counts what brokers obey as in use until they
// confirm less.
func TestAdopt(t *testing.T) {
	whole := Bucket{Rate: 100, Burst: 10}
	a, err := NewAdaptor(0, AdaptorConfig{Bucket: whole, Brokers: 2})
	if err != nil {
		t.Fatal(err)
	}
	second := mono.Time(time.Second)
	a.Adopt(0, Bucket{Rate: 70, Burst: 7}, 5, 20*second)
	a.Adopt(1, Bucket{}, 0, 20*second)
	versions := [2]uint64{5, 0}
	for n := range 10 {
		now := mono.Time(n+1) * second
		for i := range versions {
			a.Report(now, i, Report{Messages: 40, Backlog: 4, Version: versions[i]})
		}
		a.Step(now)
		if sum := a.Use(0).Rate + a.Use(1).Rate; sum > whole.Rate {
			t.Fatalf("after %d s both may use %v of %v", n+1, sum, whole.Rate)
		}
		if n == 3 {
			if got := a.Use(0).Rate; got != 70 || a.Grant(1).Rate > 30 {
				t.Errorf("before it confirms, the first may use %v and the second has %v", got, a.Grant(1).Rate)
			}
		}
		versions[1] = a.Grant(1).Version
		if n >= 3 {
			versions[0] = a.Grant(0).Version
		}
	}
	for i := range versions {
		if got := a.Grant(i).Rate; got < 45 || got > 55 {
			t.Errorf("broker %d has %v of an even load", i, got)
		}
	}
}

// A topic that was idle begins at all its brokers, whose reports come one after the other: no part is taken from those that are
// heard last, and none follows the noise of traffic that stays where it is, in whatever bursts it comes and though one report in a hundred is lost.
func TestAdaptorOfATopicThatBegins(t *testing.T) {
	for together, least := range map[float64]float64{1: 0.9, 25: 0.8} { // three steps are less sure the larger the bursts are
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 9))
			a, err := NewAdaptor(0, AdaptorConfig{Bucket: Bucket{5500, 750}, Brokers: 3})
			if err != nil {
				t.Fatal(err)
			}
			told := make([]mono.Time, 3)
			for k := 1; k <= 600; k++ {
				now := mono.Time(k) * second / 10
				for i := range told {
					if (k+3*i)%10 != 0 {
						continue
					}
					r := Report{Span: time.Duration(now - told[i]), Version: a.Grant(i).Version}
					if now > 20*second {
						mean := 5000. / 3 * min(r.Span.Seconds(), now.Sub(20*second).Seconds()) / together
						r.Messages = together * max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()))
						r.Backlog = together * (1 + rng.ExpFloat64())
					}
					if told[i] = now; rng.IntN(100) > 0 {
						a.Report(now, i, r)
					}
				}
				if k%10 == 0 {
					a.Step(now)
				}
				for i := range told {
					if g := a.Grant(i); g.Rate < 5500./3*least {
						t.Fatalf("seed %d, bursts of %v, %v: broker %d of three has %.0f of 5500/s", seed, together, time.Duration(now), i, g.Rate)
					}
				}
			}
		}
	}
}

// A broker that gets a message now and then does not keep the others' parts from following their traffic.
func TestAdaptorBesideASporadicBroker(t *testing.T) {
	a, err := NewAdaptor(0, AdaptorConfig{Bucket: Bucket{1000, 100}, Brokers: 3})
	if err != nil {
		t.Fatal(err)
	}
	at := mono.Time(0)
	play := func(steps int, rates ...float64) {
		for range steps {
			at += second
			for i, r := range rates {
				a.Report(at, i, Report{Messages: r, Backlog: r / 10, Version: a.Grant(i).Version})
			}
			a.Step(at)
		}
	}
	play(12, 800, 100, 0)
	had := a.Grant(0).Rate
	play(1, 100, 800, 1) // its first message, as the others' traffic moves
	play(1, 100, 800, 0)
	if now := a.Grant(0).Rate; now > .97*had {
		t.Errorf("two steps after traffic has moved, the broker that it left has %.0f, before %.0f", now, had)
	}
	for range 30 {
		play(9, 100, 800, 0)
		play(1, 100, 800, 1)
		sum := a.Grant(0).Rate + a.Grant(1).Rate + a.Grant(2).Rate
		if sum < 990 || sum > 1000.001 {
			t.Fatalf("the parts are %.1f together", sum)
		}
	}
}
