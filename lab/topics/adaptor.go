package topics

import (
	"context"
	"fmt"

	"github.com/spillgate/spillgate/internal/placement"
	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// phases are the instants of an adaptor's trial, in seconds.
type phases struct{ shift, cut, end float64 }

// movement is a trial: traffic moves from the first broker to the second; later the first is cut off, and traffic
// moves on to the third.
type movement struct {
	name     string
	rate     float64 // messages a second of the whole topic
	at       phases
	fraction float64 // of the traffic, what moves
}

func (m movement) shift(seed uint64) shift {
	rest := (1 - m.fraction) / 2
	small := m.rate * rest
	return shift{seed: seed, until: m.at.end,
		bucket: placement.Bucket{Rate: 1.1 * m.rate, Burst: placement.SmallestBurst(1/1.1, placement.P99)},
		rates: func(now float64) []float64 {
			large := m.rate * m.fraction
			switch {
			case now < m.at.shift:
				return []float64{large, small, small}
			case now < m.at.cut:
				return []float64{small, large, small}
			}
			return []float64{small, small, large}
		},
		cutOff: func(broker int, now float64) bool { return broker == 0 && now >= m.at.cut },
	}
}

// followers are the contenders of srtm/adaptor.
var followers = []struct {
	name string
	new  func(b placement.Bucket, n int) divider
}{
	{"even, fixed", func(b placement.Bucket, n int) divider { return even(b, n) }},
	{"leases", func(b placement.Bucket, n int) divider { return newLeases(b, n) }},
	{"Spillgate", func(b placement.Bucket, n int) divider { return newAdaptor(b, n) }},
}

// adaptation is srtm/adaptor.
func adaptation() experiment.Experiment {
	return experiment.Experiment{Name: "srtm/adaptor", Title: "A bucket that follows its traffic from broker to broker", Run: runAdaptor,
		About: "A topic on three brokers, bucket of 1.1 times its rate. Most of its traffic moves from the first to the second; later the first is cut off, and goes on " +
			"serving by what it was granted last, while the traffic moves on to the third. One message in a hundred between the brokers and whoever divides the bucket is lost. One bucket for all is the ideal; leases are renewed every 5 s and last 20 s, " +
			"in the manner of Doorman; fixed parts are what an even split has."}
}

func runAdaptor(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	r := &experiment.Result{Quick: o.Quick}
	at := phases{60, 160, 260}
	movements := []movement{{"10,000/s, 8 of 10 move", 10_000, at, .8}, {"1,000/s, 8 of 10 move", 1000, at, .8}, {"1,000/s, 6 of 10 move", 1000, at, .6}, {"100/s, 8 of 10 move", 100, at, .8}}
	if o.Quick {
		movements = movements[:2]
	}
	t := &table.Table{Title: "Wait for tokens while traffic moves", Columns: []table.Column{{Name: "topic"}, {Name: "contender"}, {Name: "p99 before", Unit: "ms", Format: "%.1f"},
		{Name: "p99 in two windows", Unit: "ms", Format: "%.0f"}, {Name: "p99 later", Unit: "ms", Format: "%.1f"}, {Name: "p99 cut off, later", Unit: "ms", Format: "%.0f"}, {Name: "followed", Unit: "s", Format: "%.1f"}, {Name: "followed, cut off", Unit: "s", Format: "%.1f"},
		{Name: "largest sum of rates", Format: "%.3f"}, {Name: "of bursts", Format: "%.3f"}}}
	chart := &plot.Chart{Title: "Part of the rate at the broker that traffic moves to: " + movements[0].name, X: plot.Axis{Label: "time", Unit: "s"}, Y: plot.Axis{Label: "share of the rate"}}
	for _, m := range movements {
		s := m.shift(o.Seed)
		one := s
		one.rates = func(now float64) []float64 {
			sum := 0.0
			for _, x := range s.rates(now) {
				sum += x
			}
			return []float64{sum}
		}
		one.cutOff = func(int, float64) bool { return false }
		ideal := one.play(even(s.bucket, 1))
		t.Add(m.name, "one bucket", ideal.p99(20, at.shift)*ms, ideal.p99(at.shift, at.shift+20)*ms, ideal.p99(at.cut-20, at.cut)*ms, ideal.p99(at.end-20, at.end)*ms, 0, 0, 1, 1)
		out := make([]*shifted, len(followers))
		for i, f := range followers {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			q := s.play(f.new(s.bucket, 3))
			out[i] = q
			t.Add(m.name, f.name, q.p99(20, at.shift)*ms, q.p99(at.shift, at.shift+20)*ms, q.p99(at.cut-20, at.cut)*ms, q.p99(at.end-20, at.end)*ms,
				q.followed(1, at.shift, at.cut), q.followed(2, at.cut, at.end), q.rate, q.burst)
			if m.name == movements[0].name {
				chart.Series = append(chart.Series, q.line(f.name, s.bucket.Rate))
			}
		}
		ours, theirs := out[2], out[1]
		r.Ceiling(m.name+": sum of rates", "", 1+1e-9, 0, ours.rate)
		r.Ceiling(m.name+": sum of bursts", "", 1+1e-9, 0, ours.burst)
		r.Ceiling(m.name+": followed", "s", adaptorWindow, 0, ours.followed(1, at.shift, at.cut))
		r.Ceiling(m.name+": followed, cut off", "s", adaptorWindow, 0, ours.followed(2, at.cut, at.end))
		r.Ceiling(m.name+": against leases, p99 in two windows", "", 1, 0, ours.p99(at.shift, at.shift+20)/theirs.p99(at.shift, at.shift+20))
	}
	r.Table, r.Chart = []*table.Table{t, beginnings(o, r)}, []*plot.Chart{chart}
	r.Notes = append(r.Notes, fmt.Sprintf("followed: from when on the part is as large as what arrives there, and for a window not less than 0.95 of it; a window is %.0f s; waits at the broker that is cut off are left out; a wait is by the part that the broker has when the message arrives, and ends sooner where that grows", adaptorWindow))
	return r, nil
}

// beginnings plays topics that are idle at first and then come to all brokers alike, and stay. Nothing has to follow: the bar is what
// fixed even parts have, with room for what noise moves.
func beginnings(o experiment.Options, r *experiment.Result) *table.Table {
	const end = 200
	t := &table.Table{Title: "Wait for tokens of a topic that begins at all brokers at once", Columns: []table.Column{{Name: "topic"}, {Name: "contender"}, {Name: "p99 in two windows", Unit: "ms", Format: "%.0f"}, {Name: "p99 later", Unit: "ms", Format: "%.0f"}}}
	for _, k := range []struct {
		name     string
		begins   float64
		together int
	}{{"new, 1 at once", 0.5, 1}, {"idle for 20 s, 1 at once", 20, 1}, {"new, 25 at once", 0.5, 25}, {"idle for 20 s, 25 at once", 20, 25}} {
		name, begins, together := k.name, k.begins, k.together
		s := shift{seed: o.Seed, until: end, together: together, cutOff: func(int, float64) bool { return false },
			bucket: placement.Bucket{Rate: 5500, Burst: float64(together) * placement.SmallestBurst(1/1.1, placement.P99)},
			rates: func(now float64) []float64 {
				if now < begins {
					return []float64{0, 0, 0}
				}
				return []float64{5000. / 3, 5000. / 3, 5000. / 3}
			}}
		first, later := make([]float64, len(followers)), make([]float64, len(followers))
		for i, f := range followers {
			q := s.play(f.new(s.bucket, 3))
			first[i], later[i] = q.p99(begins, begins+20)*ms, q.p99(begins+20, end)*ms
			t.Add(name, f.name, first[i], later[i])
		}
		fixed, ours := 0, len(followers)-1
		r.Ceiling(name+": p99 in two windows, of that of fixed even parts", "", 2, 0, first[ours]/first[fixed])
		r.Ceiling(name+": p99 later, of that of fixed even parts", "", 2, 0, later[ours]/later[fixed])
	}
	return t
}

// line is the part of the second broker over time.
func (s *shifted) line(name string, whole float64) plot.Series {
	l := plot.Series{Name: name}
	for i, m := range s.moments {
		if i%10 == 0 {
			l.X, l.Y = append(l.X, m.now), append(l.Y, m.parts[1].Rate/whole)
		}
	}
	return l
}
