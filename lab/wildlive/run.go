package wildlive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The bars.
const (
	floor       = 0.95  // of the goodput of the best
	changeFloor = 0.85  // the same, in the second after a change
	politeFloor = 0.95  // of what polite clients send
	mostLate    = 0.01  // of the answers
	mostRefused = 0.005 // of a light load
	mostSlower  = 1.3   // the p50 of a light load, beside none
)

// repeatsInFull is how often the full form plays each row; the median counts.
const repeatsInFull = 3

// retakesInFull is how often the full form makes a run again that the machine disturbed.
const retakesInFull = 1

// Experiments returns the experiment of all rows and one for each family of them, with
// peers beside the semaphores where requests come over gRPC.
func Experiments(peers ...bed.Peer) []experiment.Experiment {
	about := `Real processes on loopback: services on one processor, all clients on another, which is how every figure is to be read; the
four services of the fan-out, which wait, have both. The gates are told the objective and nothing else. Beside them semaphores of a few settings, in each gated service, and no
control at all, in the same minutes, since processors change their speed. The median of three runs counts. A bar
is void only for what the record of the machine shows: how late requests left, what the host stole, what other processes used.`
	of := func(name, title string, rows []row) experiment.Experiment {
		return experiment.Experiment{Name: name, Title: title, About: about, Live: true,
			Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
				return play(ctx, o, rows, peers)
			}}
	}
	left := rows()
	all := []experiment.Experiment{of("wild/live", "services without any tuning as real processes, beside swept semaphores and none", left)}
	for len(left) > 0 {
		n := 1
		for n < len(left) && left[n].family == left[0].family {
			n++
		}
		all = append(all, of("wild/live-"+left[0].family, "the rows of wild/live that begin with: "+left[0].name, left[:n:n]))
		left = left[n:]
	}
	return all
}

// run is what one policy made of a row.
type run struct {
	bed.Series
	// plain gives it clients that know nothing of credits.
	plain bool
}

func play(ctx context.Context, o experiment.Options, rows []row, peers []bed.Peer) (*experiment.Result, error) {
	repeats, retakes := repeatsInFull, retakesInFull
	if o.Quick {
		repeats, retakes = 1, 0
		if quick := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !r.quick }); len(quick) > 0 {
			rows = quick
		}
	}
	r := &experiment.Result{Quick: o.Quick}
	t := newTable()
	for i, row := range rows {
		runs := row.contenders(o.Quick, peers)
		for repeat := range repeats {
			w, err := row.calibrated(ctx, o.Seed+uint64(repeat))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", row.name, err)
			}
			for k := range runs {
				o.Step(i, len(rows), row.name+": "+runs[k].String())
				w := w
				if runs[k].plain {
					w = plain(w)
				}
				if err := runs[k].Play(ctx, w, o.Seed+uint64(repeat), retakes, peers...); err != nil {
					return nil, fmt.Errorf("%s: %w", row.name, err)
				}
			}
		}
		row.judge(r, t, runs)
	}
	r.Table = []*table.Table{t}
	return r, nil
}

// contenders returns who plays a row: Spillgate first, then semaphores, peers, and none. The
// quick form has no plain clients, one semaphore, and none only where it is judged by.
func (row *row) contenders(quick bool, peers []bed.Peer) (all []run) {
	semaphores := row.semaphores
	if quick {
		semaphores = semaphores[:min(len(semaphores), 1)]
	}
	all = append(all, newRun("spillgate"+cmp.Or(row.ours, row.over)))
	if !quick && row.world.Clients[0].Kind == world.Credits {
		all = append(all, run{bed.Series{Policy: all[0].Policy}, true})
	}
	for _, s := range semaphores {
		all = append(all, newRun(s+row.over))
	}
	if row.over == "" {
		for _, peer := range peers {
			all = append(all, newRun(peer.Name))
		}
	}
	if !quick || row.light || len(semaphores) == 0 {
		all = append(all, newRun("none"+row.over))
	}
	return all
}

func newRun(policy string) run { return run{Series: bed.Series{Policy: policy}} }

// calibrated returns the row's world with rates in requests per second where it has
// multiples of what the machine can do.
func (row *row) calibrated(ctx context.Context, seed uint64) (*world.World, error) {
	w := *row.world
	if row.times == 0 {
		return &w, nil
	}
	capacity, err := bed.Capacity(ctx, &w, "none"+row.over, seed)
	w.Clients = slices.Clone(w.Clients)
	w.Clients[0].Load = world.Load{Steps: []world.Rate{{PerSecond: row.times * capacity}}}
	return &w, err
}

// plain returns a world like w whose clients know nothing of credits.
func plain(w *world.World) *world.World {
	out := *w
	out.Clients = slices.Clone(w.Clients)
	for i := range out.Clients {
		out.Clients[i].Kind = world.Plain
	}
	return &out
}

func (r *run) String() string {
	if r.plain {
		return r.Policy + ", plain clients"
	}
	return r.Policy
}

// figure is the median over the repeats of what f says of each.
func (r *run) figure(f func(*world.Report) float64) float64 { return bed.Median(r.Reports, f) }

func rate(r *world.Report, n int) float64 { return float64(n) / r.Measured.Seconds() }

func share(n, of int) float64 { return float64(n) / float64(max(of, 1)) }

// goodput is that of the group that a row is about, or of all where it is about their
// shares.
func (row *row) goodput(r *world.Report) float64 {
	good := r.Groups[0].Good
	if row.polite {
		for _, g := range r.Groups[1:] {
			good += g.Good
		}
	}
	return rate(r, good)
}

// after is the goodput in the second after the change.
func (row *row) after(r *world.Report) float64 {
	good := 0
	for i, b := range r.Bins {
		if at := time.Duration(i) * r.Bin; at >= row.change && at < row.change+second {
			good += b.Good
		}
	}
	return float64(good)
}

func p50(r *world.Report) float64     { return r.Groups[0].P50.Seconds() }
func p99(r *world.Report) float64     { return r.Groups[0].P99.Seconds() }
func late(r *world.Report) float64    { g := r.Groups[0]; return share(g.Late, g.Good+g.Late) }
func refused(r *world.Report) float64 { g := r.Groups[0]; return share(g.Refused, g.Offered) }
func served(r *world.Report) float64  { return share(r.Groups[0].Good, r.Groups[0].Offered) }
func offered(r *world.Report) float64 { return rate(r, r.Groups[0].Offered) }

func newTable() *table.Table {
	return &table.Table{Title: "Real processes, the median of the runs", Columns: []table.Column{{Name: "world"}, {Name: "policy"},
		{Name: "offered", Unit: "/s", Format: "%.0f"}, {Name: "goodput", Unit: "/s", Format: "%.0f"}, {Name: "in each run", Unit: "/s"},
		{Name: "served", Unit: "of offered", Format: "%.3f"}, {Name: "refused", Unit: "of offered", Format: "%.4f"}, {Name: "late", Unit: "of answers", Format: "%.4f"},
		{Name: "p50", Unit: "ms", Format: "%.1f"}, {Name: "p99", Unit: "ms", Format: "%.1f"}, {Name: "limits", Unit: "of the first service"}, {Name: "machine"}},
		Note: "offered, served, refused, late and times are of the first group of clients"}
}

// judge adds the rows of the table and the bars of a row.
func (row *row) judge(r *experiment.Result, t *table.Table, runs []run) {
	for i := range runs {
		run := &runs[i]
		var each []string
		for _, report := range run.Reports {
			each = append(each, fmt.Sprintf("%.0f", row.goodput(report)))
		}
		t.Add(row.name, run.String(), run.figure(offered), run.figure(row.goodput), strings.Join(each, " "), run.figure(served), run.figure(refused),
			run.figure(late), 1e3*run.figure(p50), 1e3*run.figure(p99), limitsOf(run.Reports), strings.Join(run.Disturbed(), "; "))
	}
	none := &runs[len(runs)-1]
	best, bestAfter := none, none
	rivals := slices.IndexFunc(runs, func(r run) bool { return !strings.HasPrefix(r.Policy, "spillgate") })
	for i := range runs[rivals:] {
		if run := &runs[rivals+i]; run.figure(row.goodput) > best.figure(row.goodput) {
			best = run
		}
		if run := &runs[rivals+i]; run.figure(row.after) > bestAfter.figure(row.after) {
			bestAfter = run
		}
	}
	for i := range runs[:rivals] {
		ours := &runs[i]
		name := row.name
		if ours.plain {
			name += ", plain clients"
		}
		r.On(experiment.Machine{Ours: ours.Disturbed(), Theirs: best.Disturbed()}, func() {
			r.Floor(name+": goodput", " of the best", floor, 0.05, ours.figure(row.goodput)/best.figure(row.goodput))
		})
		if row.change > 0 {
			r.On(experiment.Machine{Ours: ours.Disturbed(), Theirs: bestAfter.Disturbed()}, func() {
				r.Floor(name+": goodput in the second after", " of the best", changeFloor, 0.05, ours.figure(row.after)/bestAfter.figure(row.after))
			})
		}
		row.judgeAlone(r, name, ours, none)
	}
}

// judgeAlone adds the bars that need no semaphore.
func (row *row) judgeAlone(r *experiment.Result, name string, ours, none *run) {
	objective := row.world.Objective.Seconds()
	r.On(experiment.Machine{Ours: ours.Disturbed()}, func() {
		if row.polite {
			r.Floor(name+": polite served", " of what they send", politeFloor, 0.03, ours.figure(served))
		}
		if row.family != "rare" { // whose long requests are late by nature
			r.Ceiling(name+": p99", " of the objective", 1, 0.1, ours.figure(p99)/objective)
			r.Ceiling(name+": late", " of the answers", mostLate, 0.01, ours.figure(late))
		}
		if row.light {
			r.Ceiling(name+": refused", " of what is offered", mostRefused, 0.005, ours.figure(refused))
		}
	})
	if row.light {
		r.On(experiment.Machine{Ours: ours.Disturbed(), Theirs: none.Disturbed()}, func() {
			r.Ceiling(name+": p50", " of that without control", mostSlower, 0.2, ours.figure(p50)/none.figure(p50))
		})
	}
}

// limitsOf says between which limits the first service was after the warm-up.
func limitsOf(reports []*world.Report) string {
	least, most := 0, 0
	for _, r := range reports {
		limits := r.Services[0].Limits
		for _, l := range limits[max(len(limits)-int(r.Measured/r.Bin), 0):] {
			if most = max(most, l); least == 0 || l < least {
				least = l
			}
		}
	}
	if most == 0 {
		return ""
	}
	return fmt.Sprintf("%d … %d", least, most)
}
