package wild

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The bars: the least share of the best semaphore's goodput, over the whole and in
// the second after a change.
const (
	floor       = 0.95
	changeFloor = 0.85
)

// fullSeeds is how many seeds the full form plays, of which the worst counts.
const fullSeeds = 20

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{{
		Name:  "wild/single",
		Title: "one service without any tuning, with only the objective set, beside the best hand-set semaphore",
		About: `Each row is a world: service times near the objective, rare long requests, heavy tails, long polls, slowdowns,
stalls, bursts, deadlines of one objective to none. The worst seed counts. A semaphore is told the number of workers; its
queue is the best of a sweep for that world and seed; beside long polls it is told of twice their number too. Which queue
is best varies from seed to seed by chance: "one semaphore" is the best over all seeds, judged alike, without a bar. A world
is judged for as long as that one needs to be within 3 % of the best on its worst seed; slowdowns come back up to twelve times.`,
		Run: run,
	}, {
		Name:  "wild/greedy",
		Title: "polite clients beside one that sends all it can, with only the objective set",
		About: `Twenty clients send a part of an equal share each; one sends once or ten times what the server can do, and obeys its
window or floods. The polite are to get what they ask for, and the server is to stay full. The worst seed counts. The
semaphore, told the number of workers, serves whoever comes first.`,
		Run: runGreedy,
	}, {
		Name:  "wild/hosts",
		Title: "several services on the same processors, call graphs and retries, with only the objective set",
		About: `Each row is a described world: services that share processors, messages that cost some, call trees, clients that
retry, connect in masses or have workflows of different weight, replicas of different speed. The worst seed counts. The best
of several semaphores, the same at each service, is chosen for each world and seed.`,
		Run: runHosts,
	}, randomExperiment(), graphsExperiment(), insideExperiment(), partsExperiment(), repliesExperiment()}
}

// plain is Spillgate in front of clients that know no credits.
func plain(s contenders.Setting) mesh.Control {
	return mesh.Control{
		Name: "spillgate, plain clients",
		Door: func(_ uint64, at mesh.Place) (baseline.Door, error) {
			return mesh.NewNode(admission.Config{Objective: s.Objective, NoCredit: true, Schedule: schedule.Config{Senders: contenders.Senders}}, at)
		},
	}
}

// played is what one policy made of one world.
type played struct{ whole, second seen }

// seen is what became of the requests of some parts of a run.
type seen struct {
	offered, good, late, refused int
	latency                      sim.Histogram
}

func (s *seen) add(c mesh.Count) {
	s.offered += c.Offered
	s.good += c.Good
	s.late += c.Late
	s.refused += c.AllRefused()
	s.latency.Merge(&c.Latency)
}

// cell is a row that one policy plays.
type cell struct {
	row row
	experiment.Cell
}

// play runs a cell and keeps what is judged.
func play(ctx context.Context, c *cell) (played, error) {
	report, err := experiment.Play(ctx, &c.Cell)
	if err != nil {
		return played{}, err
	}
	return look(c.row, report), nil
}

func run(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	seeds, all := fullSeeds, rows(o.Quick)
	if o.Quick {
		seeds = 2
	}
	var cells []cell
	var contenderOf, first []int // of each cell; of each row
	names := []string{contenders.Name, "plain clients"}
	for _, r := range all {
		s := contenders.Setting{Objective: r.world.Objective, Cores: workers, Service: r.service}
		policies := []mesh.Control{contenders.Spillgate(s), plain(s)}
		for _, queue := range []int{0, 2, workers / 2, workers, 2 * workers, 4 * workers} {
			policies = append(policies, contenders.Semaphore(s, workers+2*r.held, queue))
		}
		first = append(first, len(cells))
		for seed := range seeds {
			for i, p := range policies {
				cells = append(cells, cell{r, experiment.Cell{Name: r.name, World: r.world, Control: p, Seed: o.Seed + uint64(seed), Bin: 100 * time.Millisecond}})
				contenderOf = append(contenderOf, i)
			}
		}
	}
	reports, err := experiment.Each(ctx, o, cells, func(c *cell) (string, float64) { return c.Name, c.Cost }, play)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Goodput beside the best semaphore, worst seed", Columns: []table.Column{{Name: "world"}, {Name: "clients"},
		{Name: "goodput", Unit: "of the best", Format: "%.3f"}, {Name: "in the median seed", Format: "%.3f"}, {Name: "second after the change", Unit: "of the best", Format: "%.3f"},
		{Name: "p99", Unit: "of the objective", Format: "%.2f"}, {Name: "late", Unit: "of answers", Format: "%.4f"},
		{Name: "refused", Unit: "of offered", Format: "%.4f"}, {Name: "semaphore's p99", Unit: "of the objective", Format: "%.2f"}}}
	first = append(first, len(cells))
	for i, row := range all {
		mine := reports[first[i]:first[i+1]]
		for who, name := range names {
			v := judge(row, mine, contenderOf[first[i]:first[i+1]], who)
			t.Add(row.name, name, v.goodput, v.median, v.second, v.p99, v.late, v.refused, v.rival)
			r.Floor(fmt.Sprintf("%s, %s: goodput", row.name, name), " of the best semaphore", floor, 0.03, v.goodput)
			if len(row.changes) > 0 {
				r.Floor(fmt.Sprintf("%s, %s: goodput in the second after", row.name, name), " of the best semaphore", changeFloor, 0.03, v.second)
			}
		}
		v := hindsight(row, mine, contenderOf[first[i]:first[i+1]], len(names))
		t.Add(row.name, "one semaphore", v.goodput, v.median, v.second, v.p99, v.late, v.refused, v.rival)
	}
	r.Table = []*table.Table{t}
	return r, nil
}

// verdict is the worst of a policy over the seeds of a world, and the median of the
// goodput.
type verdict struct{ goodput, median, second, p99, late, refused, rival float64 }

// judge compares contender who with the best semaphore, seed by seed.
func judge(row row, reports []played, contender []int, who int) verdict {
	policies := 0
	for _, c := range contender {
		policies = max(policies, c+1)
	}
	worst := verdict{second: 1e9}
	var goodput []float64
	for at := 0; at < len(reports); at += policies {
		seed := reports[at : at+policies]
		mine, best, bestSecond := seed[who], 1, 1
		for _, s := range seed[2:] {
			if s.whole.good > best {
				best = s.whole.good
				worst.rival = max(worst.rival, ofObjective(row, &s.whole))
			}
			bestSecond = max(bestSecond, s.second.good)
		}
		answers := max(mine.whole.good+mine.whole.late, 1)
		goodput = append(goodput, float64(mine.whole.good)/float64(best))
		worst.second = min(worst.second, float64(mine.second.good)/float64(bestSecond))
		worst.p99 = max(worst.p99, ofObjective(row, &mine.whole))
		worst.late = max(worst.late, float64(mine.whole.late)/float64(answers))
		worst.refused = max(worst.refused, float64(mine.whole.refused)/float64(max(mine.whole.offered, 1)))
	}
	slices.Sort(goodput)
	worst.goodput, worst.median = goodput[0], goodput[len(goodput)/2]
	return worst
}

// hindsight is the verdict on the semaphore that does best over all seeds: what is left
// of the best of each seed, with nothing to adapt to but chance.
func hindsight(row row, reports []played, contender []int, from int) verdict {
	var best verdict
	for who := from; who <= slices.Max(contender); who++ {
		if v := judge(row, reports, contender, who); v.goodput > best.goodput {
			best = v
		}
	}
	return best
}

func look(r row, report *experiment.Played) (p played) {
	for _, part := range r.judged {
		p.whole.add(report.Between(part.from, part.to))
	}
	for _, change := range r.changes {
		p.second.add(report.Between(change, change+time.Second))
	}
	return p
}

func ofObjective(r row, s *seen) float64 {
	return float64(s.latency.Quantile(0.99)) / float64(r.world.Objective)
}
