package chains

import (
	"context"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	// warmup is how long new Tomcats are loaded before anything is measured: a virtual
	// machine compiles what it runs often, and that is over after some thousand
	// requests.
	warmup = 8 * time.Second
	// tomcatRounds is how often fifo and share are run in turn, and tomcatLength how
	// long each time. The waits of a queue at 80 % load are alike for seconds, and a
	// short run tells little. Of the ratio to the law's least, one round still scatters by
	// a tenth.
	tomcatRounds = 4
	tomcatLength = time.Minute
	// tomcatRuns is how many runs make the rows of one size.
	tomcatRuns = 1 + 2*tomcatRounds
)

// tomcatSetting is that of the Tomcats: two workers, as the paper's servers have two
// cores. They are slower than those of the Go services, because a proxy, a virtual
// machine and a late timer take some milliseconds between one request and the next
// that a slot is not used for.
func tomcatSetting(seed uint64) (Setting, error) {
	return Setting{Workers: 2, Mean: 50 * time.Millisecond, Seed: seed}.withDefaults()
}

// tomcatRows adds a row for each order in front of Tomcats, and the bars: what share
// makes of fifo, and what the conservation law says that must cost.
func tomcatRows(ctx context.Context, r *experiment.Result, again *int, t *table.Table, size string, l Load, show func(string)) error {
	s, err := tomcatSetting(l.Seed)
	if err != nil {
		return err
	}
	b, err := StartTomcats(ctx, s)
	if err != nil {
		return err
	}
	defer b.Close()
	chains := 0.2 * s.Capacity()
	singles := 3 * chains * float64(s.Servers)
	l.Chains, l.Singles, l.Silent = openloop.Steady(chains, tomcatLength), openloop.Steady(singles, tomcatLength), true
	warm := l
	warm.Chains, warm.Singles, warm.From = openloop.Steady(chains, warmup), openloop.Steady(singles, warmup), 0
	if err := b.Front(ctx, "", Modes()[0]); err != nil {
		return err
	}
	if _, err := b.Run(ctx, warm); err != nil {
		return err
	}
	once := func(m Mode, seed uint64) (Measured, Counts, error) {
		show("Tomcat, " + m.Name)
		l := l
		l.Seed = seed
		got, counts, err := run(ctx, r, again, "Tomcat, "+m.Name+", "+size, func(ctx context.Context) (Measured, Counts, error) {
			if err := b.Front(ctx, "", m); err != nil {
				return Measured{}, Counts{}, err
			}
			m, err := b.Run(ctx, l)
			if err != nil {
				return m, Counts{}, err
			}
			c, err := b.Replay()
			return m, c, err
		})
		if err == nil {
			t.Add(latencyRow("Tomcat, "+m.Name, got)...)
			r.Ceiling("failed and refused, Tomcat, "+m.Name+", "+size, "", 0, 0, float64(got.wrong()))
		}
		return got, counts, err
	}
	if _, _, err := once(Modes()[0], l.Seed); err != nil {
		return err
	}
	ordered := map[string]Mode{}
	for _, m := range Ordered() {
		ordered[m.Name] = m
	}
	var fifo, share rounds
	for round := range tomcatRounds {
		for _, x := range []struct {
			name string
			to   *rounds
		}{{"fifo", &fifo}, {"share", &share}} {
			m, c, err := once(ordered[x.name], l.Seed+uint64(round))
			if err != nil {
				return err
			}
			x.to.add(m, c)
		}
	}
	gain, harm := share.ratio(&fifo, work.Interactive), share.ratio(&fifo, work.Default)
	machine := experiment.Machine{Ours: share.disturbed, Theirs: fifo.disturbed}
	r.On(machine, func() {
		r.Ceiling("chains with share, of fifo, Tomcat, "+size, "", 0.65, 0, gain)
	})
	// The least by the law was FIFO's run's, and moved to what the same visits allow.
	// Over all visits the sum of the waits stays, as long as no slot is free while
	// somebody waits: what all waited longer than they would have in order of arrival, the
	// singles need not have. Beside another run the law cannot be told to 3 %: the waits
	// of four minutes in order of arrival scatter by a tenth. The work does not: every
	// request is as much in both.
	singlesMean := share.mean(work.Default)
	needless := (share.visits.Waited - share.visits.FIFO).Seconds() / float64(max(share.singles, 1))
	r.On(machine, func() {
		r.Ceiling("singles with share, of the least by the law, Tomcat, "+size, "", 1.03, 0, singlesMean/(singlesMean-needless))
		r.Ceiling("time in slots with share, of fifo, Tomcat, "+size, "", 1.03, 0, share.visits.perVisit()/fifo.visits.perVisit())
		r.Ceiling("singles with share, of fifo, Tomcat, "+size, "", 1.25, 0, harm)
		r.Ceiling("the better of both with share, of fifo, Tomcat, "+size, "", 1, 0, min(gain, harm))
	})
	return nil
}

// wrong counts requests that got no answer, though their callers waited.
func (m *Measured) wrong() (n int) {
	for _, c := range m.Class {
		n += c.Failed + c.Refused
	}
	return n
}

// rounds are the runs of one order.
type rounds struct {
	class [work.NumClasses]struct { // what counts of the latencies
		sum time.Duration
		n   int
	}
	visits  Counts // of the whole runs, as the proxies saw them
	singles int    // sent in the whole runs
	// disturbed is what the machine's records say of the runs.
	disturbed []string
}

func (t *rounds) add(m Measured, visits Counts) {
	for class, c := range m.Class {
		t.class[class].sum += c.Mean * time.Duration(c.Served)
		t.class[class].n += c.Served
	}
	t.visits = t.visits.plus(visits)
	t.singles += m.Class[work.Default].sent()
	t.disturbed = append(t.disturbed, m.Invalid...)
}

// mean is in seconds.
func (t *rounds) mean(class work.Class) float64 {
	return t.class[class].sum.Seconds() / float64(max(t.class[class].n, 1))
}

func (t *rounds) ratio(of *rounds, class work.Class) float64 {
	return t.mean(class) / of.mean(class)
}
