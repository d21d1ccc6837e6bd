package wild

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/lab/worlds"
)

// replies is a row of wild/replies: so many clients, which together send a multiple of what the server can do.
type replies struct {
	clients int
	times   float64
	users   int // above 0: of each client, in a closed loop
}

func (e replies) String() string {
	if e.users > 0 {
		return fmt.Sprintf("%d clients of %d users", e.clients, e.users)
	}
	return fmt.Sprintf("%d clients, %vx", e.clients, e.times)
}

// rounds is how many requests of each client the server can answer while a world is judged.
const rounds = 8

func (e replies) world(byReply bool) row {
	r := base(200*ms, 10*ms, worlds.Exponential, e.times)
	w := r.world
	w.Name = e.String()
	g := &w.Clients[0]
	g.Clients, g.ByReply = e.clients, byReply
	if e.users > 0 {
		g.Load = world.Load{Users: e.clients * e.users, Think: 20 * ms}
	}
	w.Warmup = 3 * time.Second
	w.Length = w.Warmup + max(5*time.Second, time.Duration(rounds*float64(e.clients)/r.capacity()*float64(time.Second)))
	return r
}

func repliesRows(quick bool) []replies {
	all := []replies{{50, 2, 0}, {50, 4, 0}, {500, 2, 0}, {500, 4, 0}, {50, 0, 4}, {500, 0, 4}}
	if !quick {
		all = append(all, replies{5000, 2, 0}, replies{5000, 4, 0})
	}
	return all
}

func repliesExperiment() experiment.Experiment {
	return experiment.Experiment{
		Name:  "wild/replies",
		Title: "clients that hear of credits with answers alone, as over HTTP, beside the same ones that hear at any time",
		About: `Many clients ask for more than the server can do: at times of their own, or four users each that ask again 20 ms after
an answer or a refusal. The worst seed counts. Each client is to be served, in as many requests as the server can answer of each
eight times; one that nothing tells of a free credit has to ask for it.`,
		Run: runReplies,
	}
}

// portions are what the clients of a world had in time, the least first.
func portions(p *experiment.Played) []float64 {
	var all []float64
	for _, c := range p.Seen.Groups[0].Clients {
		all = append(all, float64(c.Good))
	}
	slices.Sort(all)
	return all
}

func runReplies(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	seeds, all := 5, repliesRows(o.Quick)
	if o.Quick {
		seeds = 2
	}
	policy := contenders.Spillgate(contenders.Setting{Objective: 200 * ms, Cores: workers, Service: 10 * ms})
	byReply := []bool{true, false}
	var cells []experiment.Cell
	for _, e := range all {
		for _, yes := range byReply {
			for seed := range seeds {
				cells = append(cells, experiment.Cell{Name: e.String(), World: e.world(yes).world, Control: policy, Seed: o.Seed + uint64(seed), Cost: float64(e.clients)})
			}
		}
	}
	reports, err := experiment.Run(ctx, o, cells)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Clients that hear replies alone, worst seed", Columns: []table.Column{{Name: "world"}, {Name: "credits"},
		{Name: "goodput", Unit: "of the capacity", Format: "%.3f"}, {Name: "served of the worst client", Unit: "of the mean", Format: "%.2f"},
		{Name: "of the worst in a hundred", Unit: "of the mean", Format: "%.2f"}, {Name: "clients never served"},
		{Name: "p99", Unit: "of the objective", Format: "%.2f"}, {Name: "refused known", Unit: "of the objective", Format: "%.2f"}, {Name: "refused by the server", Unit: "of offered", Format: "%.3f"}}}
	for _, e := range all {
		for _, yes := range byReply {
			var s crowd
			for _, report := range reports[:seeds] {
				s.see(report, e.world(yes))
			}
			reports = reports[seeds:]
			how := "with replies"
			if !yes {
				how = "at any time"
			}
			t.Add(e.String(), how, s.goodput, s.worst, s.hundredth, s.never, s.p99, s.told, s.refused)
			if yes {
				r.Floor(e.String()+": goodput", " of the capacity", floor, 0.03, s.goodput)
				r.Ceiling(e.String()+": clients never served", "", 0, 0, float64(s.never))
				r.Ceiling(e.String()+": refusals known after", " of the objective", 0.2, 0.05, s.told)
			}
		}
	}
	r.Table = []*table.Table{t}
	return r, nil
}

// crowd is the worst of several seeds.
type crowd struct {
	seen                                          bool
	goodput, worst, hundredth, p99, told, refused float64
	never                                         int
}

func (s *crowd) see(p *experiment.Played, r row) {
	had := portions(p)
	sum, never := 0.0, 0
	for _, n := range had {
		if sum += n; n == 0 {
			never++
		}
	}
	mean := max(sum/float64(len(had)), 1e-9)
	if !s.seen {
		*s = crowd{seen: true, goodput: math.Inf(1), worst: math.Inf(1), hundredth: math.Inf(1)}
	}
	g, objective := &p.Seen.Groups[0], float64(r.world.Objective)
	s.goodput = min(s.goodput, p.Goodput()/r.capacity())
	s.worst, s.hundredth = min(s.worst, had[0]/mean), min(s.hundredth, had[len(had)/100]/mean)
	s.never = max(s.never, never)
	s.p99, s.told = max(s.p99, float64(g.P99)/objective), max(s.told, float64(g.Told)/objective)
	s.refused = max(s.refused, float64(p.Total.RefusedByServer())/float64(max(p.Total.Offered, 1)))
}
