package bed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/world"
)

// Series is what came of a world under one policy, each time that it was played.
type Series struct {
	Policy  string
	Reports []*world.Report
	// Looks are those of each run.
	Looks [][]Look
}

// Play adds a run that is Counted: it is made again, up to retakes times, if the machine
// disturbed it.
func (s *Series) Play(ctx context.Context, w *world.World, seed uint64, retakes int, peers ...Peer) error {
	disturbed := func(_ Take, p *Played) string { return p.Report.Void }
	played, _, err := Counted(ctx, &retakes, disturbed, []Take{{w, s.Policy, seed}}, peers...)
	if err != nil {
		return err
	}
	s.Reports, s.Looks = append(s.Reports, played[0].Report), append(s.Looks, played[0].Looks)
	return nil
}

// Disturbed says what disturbed which runs.
func (s *Series) Disturbed() (all []string) {
	for _, r := range s.Reports {
		if r.Void != "" {
			all = append(all, fmt.Sprintf("%s, seed %d: %s", s.Policy, r.Seed, r.Void))
		}
	}
	return all
}

// Counted returns the runs that nothing disturbed. If there are none it returns all, and
// what disturbed them.
func (s *Series) Counted() (runs []*world.Report, disturbed []string) {
	for _, r := range s.Reports {
		if r.Void == "" {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return s.Reports, s.Disturbed()
	}
	return runs, nil
}

// Beside returns what f says of the runs, as a ratio to what it says of those of another
// series in the same repeats: the median, as what slows the machine down slows both, and
// the number of the repeats of which both runs are counted.
func (s *Series) Beside(other *Series, f func(*world.Report) float64) (ratio float64, repeats int) {
	var ratios []float64
	mine, _ := s.Counted()
	theirs, _ := other.Counted()
	for i := range min(len(s.Reports), len(other.Reports)) {
		a, b := s.Reports[i], other.Reports[i]
		if f(b) > 0 && slices.Contains(mine, a) && slices.Contains(theirs, b) {
			ratios = append(ratios, f(a)/f(b))
		}
	}
	if len(ratios) == 0 {
		return 0, 0
	}
	slices.Sort(ratios)
	return ratios[(len(ratios)-1)/2], len(ratios)
}

// Median returns the median of what f says of runs, of which there is one or more; of an
// even number the lower one.
func Median(runs []*world.Report, f func(*world.Report) float64) float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, f(r))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// Capacity returns how many requests per second of the first group are answered when 32 users
// keep asking and wait for as long as it takes: where services compute, only the machine knows.
func Capacity(ctx context.Context, w *world.World, policy string, seed uint64) (float64, error) {
	loop := *w
	loop.Clients = slices.Clone(w.Clients)
	loop.Clients[0].Load, loop.Clients[0].Deadline = world.Load{Users: 32}, -1
	loop.Warmup, loop.Length = 500*time.Millisecond, 2*time.Second
	r, err := Run(ctx, &loop, policy, seed)
	if err != nil {
		return 0, err
	}
	return float64(r.Groups[0].Good+r.Groups[0].Late) / r.Measured.Seconds(), nil
}
