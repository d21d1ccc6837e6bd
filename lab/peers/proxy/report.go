package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/table"
)

// mostStolen is the largest measured.Stolen of a run that counts: a tenth of one
// processor, when none of the contenders needs more than half of one.
const mostStolen = 0.1

// measured is one run. All but Lag, Offered and CPU are of the part that counts:
// after the first quarter, at a spike after the step.
type measured struct {
	Load     string  `json:"load"`
	Proxy    string  `json:"proxy"`
	Seed     uint64  `json:"seed"`
	Capacity float64 `json:"capacity"` // requests/s
	// Share is goodput ÷ capacity.
	Share float64 `json:"goodput_share"`
	// P99 is of the served; Refusal and Refusal99 are the time until a refused
	// client knew, its median and p99; Lag is the p99 of the send lag.
	P99       time.Duration `json:"p99_ns"`
	Refusal   time.Duration `json:"refusal_p50_ns"`
	Refusal99 time.Duration `json:"refusal_p99_ns"`
	Lag       time.Duration `json:"lag_p99_ns"`
	// Refused, Late and Failed are shares of the offered requests: answered with
	// another status than 200; not answered within the objective; broken connections.
	Refused float64 `json:"refused"`
	Late    float64 `json:"late"`
	Failed  float64 `json:"failed"`
	// RefusedBy counts refusals by status.
	RefusedBy map[string]uint64 `json:"refused_by,omitempty"`
	Offered   uint64            `json:"offered"`
	// CPU is the proxy's processor time for one offered request.
	CPU time.Duration `json:"cpu_ns"`
	// Stolen is the time that other machines on the same hardware took from the
	// processors of this one, as a share of the run, summed over processors.
	Stolen float64 `json:"stolen"`
	// Valid: the generator was on time and sent all, and the machine had its
	// processors. Invalid says why not.
	Valid   bool     `json:"valid"`
	Invalid []string `json:"invalid,omitempty"`
}

// row is the median of one contender under one load.
type row struct {
	measured
	Least   float64 `json:"least"` // of Share
	Most    float64 `json:"most"`
	Valid   int     `json:"valid"` // repeats
	Repeats int     `json:"repeats"`
}

// summarize makes rows, in the order in which loads and contenders first come.
// Repeats that are not valid are left out where there are valid ones.
func summarize(runs []measured) []row {
	type cell struct {
		load, proxy string
	}
	var order []cell
	var loads []string
	cells := map[cell][]measured{}
	for _, m := range runs {
		c := cell{m.Load, m.Proxy}
		if cells[c] == nil {
			order = append(order, c)
		}
		if !slices.Contains(loads, m.Load) {
			loads = append(loads, m.Load)
		}
		cells[c] = append(cells[c], m)
	}
	slices.SortStableFunc(order, func(a, b cell) int { return slices.Index(loads, a.load) - slices.Index(loads, b.load) })
	var rows []row
	for _, c := range order {
		rows = append(rows, condense(cells[c]))
	}
	return rows
}

func condense(runs []measured) row {
	r := row{measured: measured{Load: runs[0].Load, Proxy: runs[0].Proxy, Seed: runs[0].Seed}, Repeats: len(runs)}
	spoilt := func(m measured) bool { return !m.Valid }
	valid := slices.DeleteFunc(slices.Clone(runs), spoilt)
	r.Valid = len(valid)
	if len(valid) > 0 {
		runs = valid // the others say more about the generator
	}
	shares := of(runs, func(m measured) float64 { return m.Share })
	r.Least, r.Most = slices.Min(shares), slices.Max(shares)
	r.Share = median(shares)
	r.Capacity = median(of(runs, func(m measured) float64 { return m.Capacity }))
	r.P99 = median(of(runs, func(m measured) time.Duration { return m.P99 }))
	r.Refusal = median(of(runs, func(m measured) time.Duration { return m.Refusal }))
	r.Refusal99 = median(of(runs, func(m measured) time.Duration { return m.Refusal99 }))
	r.Lag = median(of(runs, func(m measured) time.Duration { return m.Lag }))
	r.CPU = median(of(runs, func(m measured) time.Duration { return m.CPU }))
	r.Refused = median(of(runs, func(m measured) float64 { return m.Refused }))
	r.Late = median(of(runs, func(m measured) float64 { return m.Late }))
	r.Failed = median(of(runs, func(m measured) float64 { return m.Failed }))
	r.Stolen = median(of(runs, func(m measured) float64 { return m.Stolen }))
	r.Offered = median(of(runs, func(m measured) uint64 { return m.Offered }))
	return r
}

func of[T any](runs []measured, field func(measured) T) []T {
	var list []T
	for _, m := range runs {
		list = append(list, field(m))
	}
	return list
}

// median of a list that is not empty; of an even number the mean of the middle two,
// so that a cell with a spoilt run is not the lower for it.
func median[T float64 | uint64 | time.Duration](list []T) T {
	slices.Sort(list)
	low, high := list[(len(list)-1)/2], list[len(list)/2]
	return low + (high-low)/2
}

func printTable(w io.Writer, rows []row) error {
	if len(rows) == 0 {
		return errors.New("no runs")
	}
	var capacities []float64
	for _, r := range rows {
		capacities = append(capacities, r.Capacity)
	}
	capacity := median(capacities)
	t := table.Table{
		Title: fmt.Sprintf("Reverse proxies before a server of %.0f requests/s, objective %v", capacity, objective),
		Columns: []table.Column{{Name: "load"}, {Name: "proxy"}, {Name: "goodput", Unit: "of capacity", Format: "%.2f"}, {Name: "least to most"},
			{Name: "p99 served", Unit: "ms", Format: "%.1f"}, {Name: "refused knows p50", Unit: "ms", Format: "%.1f"}, {Name: "p99", Unit: "ms", Format: "%.1f"},
			{Name: "refused", Unit: "of offered", Format: "%.2f"}, {Name: "late", Unit: "of offered", Format: "%.2f"},
			{Name: "proxy CPU", Unit: "µs/request", Format: "%.0f"}, {Name: "lag p99", Unit: "ms", Format: "%.2f"}, {Name: "valid"}},
		Note: "Medians of interleaved repeats, after the first quarter of each run, at a spike after the step. " +
			"Servers: one core, GOMAXPROCS=1, GOGC=" + gcPercent + "; generator: another core, GOGC=off. " +
			"refused: any answer but 200; late: no answer within the objective. " +
			"valid: repeats whose generator was on time (lag p99 at most a tenth of the objective) and which other machines did not disturb; others count only if there is no such.",
	}
	for _, r := range rows {
		t.Add(r.Load, r.Proxy, r.Share, fmt.Sprintf("%.2f–%.2f", r.Least, r.Most),
			some(r.P99, time.Millisecond), some(r.Refusal, time.Millisecond), some(r.Refusal99, time.Millisecond),
			r.Refused, r.Late, some(r.CPU, time.Microsecond), some(r.Lag, time.Millisecond), fmt.Sprintf("%d/%d", r.Valid, r.Repeats))
	}
	return t.Print(w)
}

// some is d in units, or nothing if there was none to measure.
func some(d, unit time.Duration) any {
	if d == 0 {
		return nil
	}
	return float64(d) / float64(unit)
}

// readRuns reads the runs in a file, of which there may be none yet.
func readRuns(path string) ([]measured, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []measured
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		var m measured
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return nil, fmt.Errorf("%s:%d: %w, expected a run", path, n, err)
		}
		runs = append(runs, m)
	}
	return runs, nil
}

// addRun adds a run to a file.
func addRun(path string, m measured) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
