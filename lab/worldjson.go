package lab

import (
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// The types of this file are the JSON that "lab world --json" prints. Times are in
// seconds, counts are of the measured time, those of bins of each bin. Names do not
// change their meaning; new ones may come.

type jsonWorld struct {
	World            string    `json:"world"`
	ObjectiveSeconds float64   `json:"objective_seconds"`
	Runs             []jsonRun `json:"runs"`
}

type jsonRun struct {
	Policy          string        `json:"policy"`
	Seed            uint64        `json:"seed"`
	MeasuredSeconds float64       `json:"measured_seconds"`
	Void            string        `json:"void,omitempty"`
	Groups          []jsonGroup   `json:"groups"`
	Services        []jsonService `json:"services"`
	BinSeconds      float64       `json:"bin_seconds"`
	Bins            []jsonCounts  `json:"bins"`
}

type jsonCounts struct {
	Offered  int `json:"offered"`
	Good     int `json:"good"`
	Late     int `json:"late"`
	Refused  int `json:"refused"`
	Expired  int `json:"expired"`
	Failed   int `json:"failed"`
	Attempts int `json:"attempts"`
}

type jsonGroup struct {
	Name string `json:"name"`
	jsonCounts
	P50Seconds  float64        `json:"p50_seconds"`
	P99Seconds  float64        `json:"p99_seconds"`
	MaxSeconds  float64        `json:"max_seconds"`
	ToldSeconds float64        `json:"told_seconds"`
	Reasons     map[string]int `json:"refused_by_reason"`
	Clients     []jsonCounts   `json:"clients,omitempty"`
}

type jsonService struct {
	Name        string  `json:"name"`
	Begun       int     `json:"begun"`
	Finished    int     `json:"finished"`
	Wasted      int     `json:"wasted"`
	Refused     int     `json:"refused"`
	BusySeconds float64 `json:"busy_seconds"`
	Limits      []int   `json:"limits,omitempty"`
}

// worldJSON returns what is printed of results.
func worldJSON(w *world.World, results []played) jsonWorld {
	out := jsonWorld{World: w.Name, ObjectiveSeconds: w.Objective.Seconds()}
	for _, p := range results {
		for _, r := range p.reports {
			run := jsonRun{Policy: p.policy, Seed: r.Seed, MeasuredSeconds: r.Measured.Seconds(), Void: r.Void, BinSeconds: r.Bin.Seconds(), Bins: countsJSON(r.Bins)}
			for i := range r.Groups {
				run.Groups = append(run.Groups, groupJSON(&r.Groups[i]))
			}
			for _, s := range r.Services {
				run.Services = append(run.Services, jsonService{s.Name, s.Begun, s.Finished, s.Wasted, s.Refused, s.Busy.Seconds(), s.Limits})
			}
			out.Runs = append(out.Runs, run)
		}
	}
	return out
}

func groupJSON(g *world.GroupReport) jsonGroup {
	out := jsonGroup{
		Name: g.Name, jsonCounts: jsonCounts(g.Counts), P50Seconds: g.P50.Seconds(), P99Seconds: g.P99.Seconds(), MaxSeconds: g.Max.Seconds(), ToldSeconds: g.Told.Seconds(),
		Reasons: map[string]int{}, Clients: countsJSON(g.Clients),
	}
	for reason, n := range g.Reasons {
		if n > 0 {
			out.Reasons[work.Reason(reason).String()] = n
		}
	}
	return out
}

func countsJSON(all []world.Counts) []jsonCounts {
	var out []jsonCounts
	for _, c := range all {
		out = append(out, jsonCounts(c))
	}
	return out
}
