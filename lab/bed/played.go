package bed

import (
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// played puts together what the processes said.
func (b *bed) played(results []tallied, record Record) *Played {
	r := &world.Report{World: b.plan.Name, Policy: b.order.Policy, Seed: b.order.Seed, Measured: b.plan.Length - b.plan.Warmup,
		Bin: bin, Bins: make([]world.Counts, (b.plan.Length+bin-1)/bin), Void: record.void(b.plan.Objective)}
	for _, g := range results {
		r.Groups = append(r.Groups, g.Group)
		for i := range g.Bins {
			addCounts(&r.Bins[i], &g.Bins[i])
		}
	}
	out := &Played{Report: r, Record: record}
	for _, g := range results {
		out.Requests = append(out.Requests, g.Requests)
	}
	for i := range b.plan.Services {
		s := &b.plan.Services[i]
		var looks []Look
		report := world.ServiceReport{Name: s.Name}
		for _, seat := range b.seen {
			if seat.order.Service == s.Name {
				mine := readLooks(seat.output.String())
				b.addLooks(&report, mine)
				if l := limits(mine, len(r.Bins)); seat.order.Replica == 1 && l != nil {
					report.Limits = l
				}
				looks = append(looks, mine...)
			}
		}
		r.Services = append(r.Services, report)
		out.Looks = append(out.Looks, looks...)
	}
	return out
}

// addLooks adds what a seat did after the warm-up: of each process that sat there the
// last look, less that at the end of the warm-up.
func (b *bed) addLooks(to *world.ServiceReport, looks []Look) {
	var warm Look
	for i, l := range looks {
		if l.At <= b.plan.Warmup {
			warm = l
		}
		if last := i+1 == len(looks) || looks[i+1].Used < l.Used; !last {
			continue
		}
		to.Begun += l.Begun - warm.Begun
		to.Finished += l.Finished - warm.Finished
		to.Wasted += l.Wasted - warm.Wasted
		to.Busy += l.Busy - warm.Busy
		for reason, n := range l.Shed {
			to.Refused += int(n - warm.Shed[reason])
		}
		warm = Look{}
	}
}

// limits returns the limit at the end of each bin, nil if there never is one.
func limits(looks []Look, bins int) []int {
	var all []int
	for _, l := range looks {
		if l.Limit > 0 && all == nil {
			all = make([]int, bins)
		}
		if at := int(l.At/bin) - 1; all != nil && at >= 0 && at < bins {
			all[at] = l.Limit
		}
	}
	return all
}

// Used is the processor time that all processes of the services have used.
func (p *Played) Used() (d time.Duration) {
	for i := range p.Looks {
		if last := i+1 == len(p.Looks) || p.Looks[i+1].At < p.Looks[i].At; last {
			d += p.Looks[i].Used
		}
	}
	return d
}
