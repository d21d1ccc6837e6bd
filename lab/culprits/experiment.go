package culprits

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The bars, of what is left of the run without a culprit.
const (
	leastRate   = 0.96
	mostP99     = 1.16
	mostDropped = 0.0001
	mostAfter   = time.Second // from the onset to the decision
)

// repeats is how often the full form plays a scene, with other seeds.
const repeats = 5

// disturbed is how much of a processor others may use before a run says nothing.
const disturbed = 0.1

// Experiments returns one for each scene.
func Experiments() (all []experiment.Experiment) {
	for _, s := range scenes() {
		all = append(all, experiment.Experiment{Name: "atropos/" + s.name, Title: s.title, About: s.about, Live: true,
			Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) { return run(ctx, o, &s) }})
	}
	return slices.Concat(all, etcdExperiments(), goExperiments(), searchExperiments(), solrExperiments(), []experiment.Experiment{quiet(), quietWeb(), quietSearch(), quietServices(), overhead()})
}

func scenes() []scene { return slices.Concat(mariadbScenes(), postgresScenes(), apacheScenes()) }

// usualWarm is how long a run goes on before the onset: a guard that was started a second ago knows of
// no normal times.
const usualWarm = 3 * time.Second

// mostLoad is the largest share of what a server does alone that it is sent: with more it is overloaded
// without any culprit.
const mostLoad = 0.75

// quickLasts is how long the quick form measures at most, so that all contenders take less than a
// minute. The culprit is as much smaller.
const quickLasts = 3500 * ms

// draw lets a seed vary onset, load and size by half and double; the first repeat of a
// quick run varies nothing, and is short.
func (s *scene) draw(seed uint64, plain bool) plan {
	p := plan{warm: usualWarm, rest: s.lasts, rate: s.rate, size: 1, seed: seed}
	if plain {
		p.rest = min(p.rest, quickLasts)
		p.size = float64(p.rest) / float64(s.lasts)
		return p
	}
	rng := rand.New(rand.NewPCG(seed, 0x61747230))
	vary := func() float64 { return 0.5 * (1 + 3*rng.Float64()) } // 0.5 to 2
	p.warm = time.Duration(float64(usualWarm) * vary())
	p.rate *= 0.5 + rng.Float64() // more than 1.5 times is beyond this machine for some
	if s.load > 0 {
		p.rate = min(p.rate, s.rate*mostLoad/s.load)
	}
	p.size = vary()
	p.rest = max(time.Duration(float64(s.lasts)*p.size), 2*settle)
	return p
}

// result is one contender's run of one repeat.
type result struct {
	figures
	played *played
}

func run(ctx context.Context, o experiment.Options, s *scene) (*experiment.Result, error) {
	b, err := s.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	defer func() { b.stop() }()
	all := contenders()
	if s.contenders != nil {
		all = s.contenders()
	}
	if o.Quick && s.slow {
		all = slices.DeleteFunc(all, func(c contender) bool { return c.rule })
	}
	n := repeats
	if o.Quick {
		n = 1
	}
	if err := s.calibrate(ctx, b, o.Seed); err != nil {
		return nil, fmt.Errorf("%s: calibration: %w", s.name, err)
	}
	if err := s.mended(ctx, b); err != nil {
		return nil, err
	}
	results := make([][]result, len(all))
	var fell []string
	for repeat := range n {
		p := s.draw(o.Seed+uint64(repeat), o.Quick)
		for i, c := range all {
			o.Step(repeat*len(all)+i, n*len(all), c.name)
			p.alone = c.alone
			played, err := play(ctx, s, b, p, c)
			if err != nil {
				return nil, err
			}
			results[i] = append(results[i], result{played.figures(s.objective), played})
			if err := s.mended(ctx, b); err != nil && !b.over() {
				return nil, err
			}
			if b.over() {
				fell = append(fell, fmt.Sprintf("%s, repeat %d", c.name, repeat+1))
				if b, err = s.anew(ctx, b, o.Seed); err != nil {
					return nil, fmt.Errorf("%s: the server ended (%s) and could not be started anew: %w", s.name, c.name, err)
				}
			}
		}
	}
	r := s.judge(o, all, results)
	if len(fell) > 0 {
		r.Notes = append(r.Notes, "The server ended by itself, and was started anew for the next run, with: "+strings.Join(fell, "; ")+".")
	}
	if o.Quick || len(s.statements) == 0 {
		return r, nil
	}
	closed, err := s.closed(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	r.Table = append(r.Table, closed)
	return r, nil
}

// over reports whether the server has ended by itself, as one does whose memory a culprit has filled.
func (b *bench) over() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// anew removes what is left of a server that has ended, and starts another one for the runs that follow.
func (s *scene) anew(ctx context.Context, b *bench, seed uint64) (*bench, error) {
	next, err := s.start(ctx)
	if err != nil {
		return b, err
	}
	b.stop()
	if err := warmUp(ctx, s, next, seed); err != nil {
		return next, err
	}
	return next, s.mended(ctx, next)
}

// warmUp plays a second that is not measured. Servers that take long to start are Java's: they
// compile what they run often, and the first run would be the slowest.
func warmUp(ctx context.Context, s *scene, b *bench, seed uint64) error {
	length := time.Second
	if s.slow {
		length = 6 * time.Second
	}
	_, err := play(ctx, s, b, plan{warm: length, rest: ms, rate: s.rate, alone: true, seed: seed}, contender{})
	return err
}

// judge makes the table and the bars.
func (s *scene) judge(o experiment.Options, all []contender, results [][]result) *experiment.Result {
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: fmt.Sprintf("%s, objective %v, from %v after the onset on, worst of %d", s.title, s.objective, settle, len(results[0])),
		Columns: []table.Column{{Name: "contender"}, {Name: "answered", Unit: "/s", Format: "%.0f"}, {Name: "of no culprit", Format: "%.3f"},
			{Name: "p99", Unit: "ms", Format: "%.1f"}, {Name: "times no culprit", Format: "%.2f"}, {Name: "late", Format: "%.3f"}, {Name: "dropped", Format: "%.4f"},
			{Name: "cancels of the culprit"}, {Name: "of others"}, {Name: "decided", Unit: "ms after the onset", Format: "%.0f"}, {Name: "first late", Unit: "ms after the onset", Format: "%.0f"}, {Name: "others used", Unit: "processors", Format: "%.2f"}},
		Note: "hand-set limits: " + s.nativeTitle + "; first late: when the first request that left after the onset missed the objective, which no decision can be expected to come before"}
	for i, c := range all {
		for k := range results[i] {
			mine, none := &results[i][k], &results[0][k]
			right, wrong, after := mine.played.right()
			rate, p99 := mine.rate/none.rate, float64(mine.p99)/float64(none.p99)
			name := c.name
			if len(results[i]) > 1 {
				name = fmt.Sprintf("%s, %d", c.name, k+1)
			}
			t.Add(name, mine.rate, rate, float64(mine.p99)/float64(ms), p99, mine.late, mine.dropped, right, wrong, float64(after)/float64(ms), float64(mine.played.harm(s.objective))/float64(ms), mine.played.others)
			if i == len(all)-1 {
				s.bars(r, k, len(results[i]), mine, none, right, wrong, after)
			}
		}
	}
	r.Table = append(r.Table, t)
	return r
}

// bars holds ours of one repeat to what is promised.
func (s *scene) bars(r *experiment.Result, k, n int, mine, none *result, right, wrong int, after time.Duration) {
	name := s.name
	if n > 1 {
		name = fmt.Sprintf("%s, seed %d", s.name, k+1)
	}
	r.Ceiling(name+": cancels of others", "", 0, 0, float64(wrong))
	if s.nobody {
		return
	}
	m := experiment.Machine{Ours: void(mine), Theirs: void(none)}
	r.On(m, func() {
		r.Floor(name+": throughput", " of no culprit", leastRate, 0.02, mine.rate/none.rate)
		r.Ceiling(name+": p99", " times that of no culprit", mostP99, 0.84, float64(mine.p99)/float64(none.p99))
	})
	r.Ceiling(name+": dropped", " of the requests", mostDropped, 0, mine.dropped)
	r.Floor(name+": cancels of the culprit", "", 1, 0, float64(right))
	if right > 0 {
		r.On(m, func() { r.Ceiling(name+": decided after", " s", mostAfter.Seconds(), 0.2, after.Seconds()) })
	}
}

// void says how others disturbed a run.
func void(r *result) []string {
	if r.played.others <= disturbed {
		return nil
	}
	return []string{fmt.Sprintf("other processes used %.2f processors", r.played.others)}
}

// processors are all of this machine.
func processors() []int {
	var all []int
	for i := range runtime.NumCPU() {
		all = append(all, i)
	}
	return all
}
