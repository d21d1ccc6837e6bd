package chains

import (
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

func overallLive() experiment.Experiment {
	return experiment.Experiment{
		Name:  "d3g/overall-live",
		Title: "chains and single requests of the paper's two sizes, on Tomcat behind the proxy and on Go services",
		About: `Four servers, chains that visit all beside requests for one, answers of 100 to 200 KB and of 200 to 400 KB. On Tomcat
10, unmodified, each server is behind a spillgate proxy that learns which requests go on: with gates that let everything pass,
then with as many slots as workers, in order of arrival and in the order of share.Controller. On Go services the same requests
are in both orders too. The paper's servers are others: beside its milliseconds, what counts is the ratio between the two
orders. What the conservation law says singles must lose, each run tells of itself: what its proxies let in is replayed in
order of arrival. The quick form leaves out Tomcat and the larger size.`,
		Live: true,
		Run:  runOverallLive,
	}
}

// oneKB is the answer where size does not matter.
var oneKB = world.Size{Least: 1000, Most: 1000}

// size is one of the paper's. It gives no upper bound for the large ones.
type size struct {
	name                     string
	answer                   world.Size
	chains, singles          string // the paper's means
	bestChains, worstSingles float64
}

var sizes = []size{
	{"100–200 KB", world.Size{Least: 100_000, Most: 200_000}, "110 → 95", "60 → 75", 95. / 110, 75. / 60},
	{"≥ 200 KB", world.Size{Least: 200_000, Most: 400_000}, "120 → 80", "~75", 80. / 120, 75. / 60},
}

// mixed are three singles for each chain at a server, 80 % load in all. The paper gives no
// rates; a third less for chains, as it reports, is beyond what priority can do at
// 60 % load (share.Load.Priority: 0.68 of FIFO).
func (s setting) mixed(warmup, length time.Duration) *world.World {
	rate := 0.2 * s.capacity()
	return s.world("overall", warmup, length, steadily(rate), steadily(3*rate*servers))
}

func runOverallLive(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	length, from, sizes := 25*time.Second, 10*time.Second, sizes
	if o.Quick {
		length, from, sizes = 14*time.Second, 7*time.Second, sizes[:1]
	} else if _, err := findTomcat(); err != nil {
		return nil, fmt.Errorf("%w; the quick form needs none", err)
	}
	r, again := &experiment.Result{Quick: o.Quick}, retakes(o, 1, 8)
	papers := &table.Table{Title: "The paper's means before and after", Columns: []table.Column{{Name: "size"}, {Name: "chains", Unit: "ms"}, {Name: "singles", Unit: "ms"}}}
	r.Table = append(r.Table, papers)
	done, of := 0, len(sizes)*2
	if !o.Quick {
		of += len(sizes) * tomcatRuns
	}
	show := func(what string) { o.Step(done, of, what); done++ }
	for _, size := range sizes {
		papers.Add(size.name, size.chains, size.singles)
		t := latencyTable("Answers of " + size.name)
		s := setting{workers: 1, mean: steady, answer: size.answer}
		var got [2]*bed.Played
		var voids [2][]string
		for i, order := range []string{"fifo", "share"} {
			show("Go, " + order)
			played, void, err := bed.Counted(ctx, again, late(s), []bed.Take{{World: s.mixed(from, length), Policy: inGo(order), Seed: o.Seed}}, Peers()...)
			if err != nil {
				return nil, err
			}
			r.Void, voids[i], got[i] = append(r.Void, void...), void, played[0]
			t.Add(latencyRow("Go, "+order, got[i])...)
		}
		ratio := func(group int) float64 {
			fifo, share := counted(got[0], group), counted(got[1], group)
			return float64(share.Mean) / float64(fifo.Mean)
		}
		r.On(experiment.Machine{Ours: voids[1], Theirs: voids[0]}, func() {
			r.Ceiling("chains with share, of fifo, Go, "+size.name, "", size.bestChains, 0.05, ratio(chains))
			r.Ceiling("singles with share, of fifo, Go, "+size.name, "", size.worstSingles, 0.05, ratio(singles))
		})
		if !o.Quick {
			if err := tomcatRows(ctx, r, again, t, size, o.Seed, show); err != nil {
				return nil, err
			}
		}
		r.Table = append(r.Table, t)
	}
	o.Step(of, of, "done")
	return r, nil
}
