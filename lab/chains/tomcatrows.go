package chains

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/proxy"
)

const (
	// warmup is how long new Tomcats are loaded before anything counts: a virtual
	// machine compiles what it runs often, which takes 8 s, and the queues at 80 % load
	// fill in another 10.
	warmup = 18 * time.Second
	// tomcatRounds is how often fifo and share are run in turn, and tomcatLength how
	// long each time. The waits of a queue at 80 % load are alike for seconds, and a
	// short run tells little. Of the ratio to the law's least, one round still scatters by
	// a tenth.
	tomcatRounds = 4
	tomcatLength = 68 * time.Second
	// tomcatRuns is how many runs make the rows of one size.
	tomcatRuns = 1 + 2*tomcatRounds
)

// tomcats are two workers, as the paper's servers have two cores. They are slower than those of
// the Go services, because a proxy, a virtual machine and a late timer take some milliseconds
// between one request and the next that a slot is not used for. Nobody tells the proxies of
// classes.
var tomcats = setting{workers: 2, mean: 50 * ms, silent: true}

// proxied are what proxies in front of Tomcats do. Without an order what waits, waits in the
// server, whose order is that of arrival. The others have as many slots as a server has workers,
// given back while it calls others, and learn classes from what they see. The same proxies
// stand in front of Go services under names of their own, for tests.
func proxied() (all []bed.Peer) {
	plain := func(*world.World, *world.Service) proxy.Config {
		return proxy.Config{Mode: live.Off, Objective: time.Second}
	}
	ordered := func(order proxy.ClassOrder) func(*world.World, *world.Service) proxy.Config {
		return func(_ *world.World, s *world.Service) proxy.Config {
			return proxy.Config{Objective: 10 * time.Second, Slots: proxy.Slots{Min: s.Workers, Max: s.Workers}, Share: proxy.Share{Order: order, Service: s.Name}}
		}
	}
	for _, m := range []bed.Peer{{Name: "plain", Proxy: plain}, {Name: "fifo", Proxy: ordered(proxy.OneFIFO)}, {Name: "share", Proxy: ordered(proxy.LearnedShare)}} {
		for _, servers := range []bed.Peer{{Name: "Tomcat, ", Program: tomcatProgram}, {Name: "Go, ", Order: bed.Order{InTurn: true}}} {
			servers.Name, servers.Proxy = servers.Name+m.Name, m.Proxy
			all = append(all, servers)
		}
	}
	return all
}

// tomcatRows adds a row for each order in front of Tomcats, and the bars: what share
// makes of fifo, and what the conservation law says that must cost.
func tomcatRows(ctx context.Context, r *experiment.Result, again *int, t *table.Table, size size, seed uint64, show func(string)) error {
	s := tomcats
	s.answer = size.answer
	w := s.mixed(warmup, tomcatLength)
	runs, machine := map[string][]*bed.Played{}, map[string][]string{}
	once := func(order string, seed uint64) error {
		show(order)
		played, void, err := bed.Counted(ctx, again, late(s), []bed.Take{{World: w, Policy: order + "/proxy", Seed: seed}}, Peers()...)
		if err != nil {
			return err
		}
		wrong := 0
		for _, g := range played[0].Report.Groups {
			wrong += g.Failed + g.Refused
		}
		t.Add(latencyRow(order, played[0])...)
		r.Ceiling("failed and refused, "+order+", "+size.name, "", 0, 0, float64(wrong))
		r.Void = append(r.Void, void...)
		runs[order], machine[order] = append(runs[order], played[0]), append(machine[order], void...)
		return nil
	}
	const fifo, share = "Tomcat, fifo", "Tomcat, share"
	if err := once("Tomcat, plain", seed); err != nil {
		return err
	}
	for round := range uint64(tomcatRounds) {
		for _, order := range []string{fifo, share} {
			if err := once(order, seed+round); err != nil {
				return fmt.Errorf("%s: %w", order, err)
			}
		}
	}
	mean := func(order string, group int) float64 {
		s := bed.StretchOf(runs[order], warmup, tomcatLength, group)
		return s.Mean.Seconds()
	}
	sum := func(order string) (l bed.Law) {
		for _, p := range runs[order] {
			one := p.Law()
			l.Add(&one)
		}
		return l
	}
	gain, harm := mean(share, chains)/mean(fifo, chains), mean(share, singles)/mean(fifo, singles)
	ours, theirs := sum(share), sum(fifo)
	perVisit := func(l bed.Law) float64 { return l.Worked.Seconds() / float64(max(l.Finished, 1)) }
	// The least by the law was FIFO's run's, and moved to what the same visits allow.
	// Over all visits the sum of the waits stays, as long as no slot is free while
	// somebody waits: what all waited longer than they would have in order of arrival, the
	// singles need not have. Beside another run the law cannot be told to 3 %: the waits
	// of four minutes in order of arrival scatter by a tenth. The work does not: every
	// request is as much in both.
	all := bed.StretchOf(runs[share], 0, math.MaxInt64, singles)
	needless := ours.Wasted().Seconds() / float64(max(all.Offered, 1))
	r.On(experiment.Machine{Ours: machine[share], Theirs: machine[fifo]}, func() {
		r.Ceiling("chains with share, of fifo, Tomcat, "+size.name, "", 0.65, 0, gain)
		r.Ceiling("singles with share, of the least by the law, Tomcat, "+size.name, "", 1.03, 0, mean(share, singles)/(mean(share, singles)-needless))
		r.Ceiling("time in slots with share, of fifo, Tomcat, "+size.name, "", 1.03, 0, perVisit(ours)/perVisit(theirs))
		r.Ceiling("singles with share, of fifo, Tomcat, "+size.name, "", 1.25, 0, harm)
		r.Ceiling("the better of both with share, of fifo, Tomcat, "+size.name, "", 1, 0, min(gain, harm))
	})
	return nil
}
