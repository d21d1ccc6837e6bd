package arena

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// The children's garbage collection, part of every result: at the default of
// 100, collection alone looks like an overload on one core.
const (
	serverGOGC    = "400"
	generatorGOGC = "off"
	generatorMem  = "GOMEMLIMIT=1GiB"
)

const defaultConns = 100

// Plan is what to run. Zero fields take the default named in their comment.
type Plan struct {
	// Controllers take part, in this order. Required.
	Controllers []Controller
	// Loads are multiples of the capacity. Default 1, 2 and 4; a load of Spike
	// is a step from 0.4 to 1.4.
	Loads []float64
	// Settings are the servers. Default Settings().
	Settings []Setting
	// Repeats is how often everything runs; medians count. Default 3.
	Repeats int
	// Length is the time of one run. Default 5 s. It is at least Objectives times
	// the setting's objective. Default 0.
	Length     time.Duration
	Objectives int
	// Conns is the number of connections. Default 100.
	Conns int
	// Seed decides arrivals and service times.
	Seed uint64
	// Skip leaves cells out; nil leaves out none.
	Skip func(s Setting, load float64, controller string) bool
	// Retakes is how many runs at most are made again because the machine
	// disturbed them, all in all. Default 0.
	Retakes int
	// Patience is how long all runs together may wait for a machine that has
	// nothing else to do. Default 0.
	Patience time.Duration
	// Progress, if not nil, is told of every run.
	Progress func(done, of int, what string)
}

// Spike as a load is a step from 0.4 to 1.4 times the capacity at two fifths of
// the run.
const Spike = -1

// Row is the median of one controller under one load.
type Row struct {
	Station    string  `json:"station"`
	Load       float64 `json:"load"` // Spike: the step
	Controller string  `json:"controller"`
	// Share is goodput ÷ capacity, after the first quarter of the run. At a
	// spike it is that of the time after the step.
	Share float64 `json:"goodput_share"`
	// Least and Most are the extremes of the repeats, Each is what each of them got, −1
	// for one that is left out. All repeats of a plan are in the same order.
	Least float64   `json:"least"`
	Most  float64   `json:"most"`
	Each  []float64 `json:"each"`
	// P99 is of the served, Refusal and Refusal99 the time until a refused client
	// knew, its median and p99; all of the part that counts. Lag is the p99 of
	// the send lag.
	P99       time.Duration `json:"p99_ns"`
	Refusal   time.Duration `json:"refusal_p50_ns"`
	Refusal99 time.Duration `json:"refusal_p99_ns"`
	Lag       time.Duration `json:"lag_p99_ns"`
	// Settled is the time from the step until goodput stays above 0.8 of what it
	// could be; negative: never. Zero without a step.
	Settled time.Duration `json:"settled_ns,omitempty"`
	// Valid counts the repeats that the machine did not disturb. If there are any,
	// the other repeats are left out of all numbers. Why says what was wrong with
	// the last of those.
	Valid   int    `json:"valid"`
	Repeats int    `json:"repeats"`
	Why     string `json:"why,omitempty"`
}

// Outcome is what Run found.
type Outcome struct {
	// Capacity is in requests per second, by station; that of "sleep" is known,
	// that of "spin" the median of those measured at the start of each repeat.
	Capacity map[string]float64 `json:"capacity"`
	Rows     []Row              `json:"rows"`
	Seed     uint64             `json:"seed"`
	Length   time.Duration      `json:"length_ns"`
}

func (p Plan) withDefaults() (Plan, error) {
	if len(p.Loads) == 0 {
		p.Loads = []float64{1, 2, 4}
	}
	if len(p.Settings) == 0 {
		p.Settings = Settings()
	}
	if p.Repeats == 0 {
		p.Repeats = 3
	}
	if p.Length == 0 {
		p.Length = 5 * time.Second
	}
	if p.Conns == 0 {
		p.Conns = defaultConns
	}
	var errs []error
	if len(p.Controllers) == 0 {
		errs = append(errs, errors.New("arena: no controllers"))
	}
	if p.Repeats < 0 || p.Length < 0 || p.Objectives < 0 || p.Conns < 0 {
		errs = append(errs, fmt.Errorf("arena: Repeats, Length, Objectives, Conns are %d, %v, %d, %d, expected above 0", p.Repeats, p.Length, p.Objectives, p.Conns))
	}
	for _, load := range p.Loads {
		if load != Spike && !(load > 0) {
			errs = append(errs, fmt.Errorf("arena: a load is %v, expected above 0 or Spike", load))
		}
	}
	return p, errors.Join(errs...)
}

// sample is one run.
type sample struct {
	Measured
	share   float64
	settled time.Duration
}

// Run runs the plan. It returns early with the context's error when ctx ends.
func Run(ctx context.Context, p Plan) (*Outcome, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, err
	}
	out := &Outcome{Capacity: map[string]float64{}, Seed: p.Seed, Length: p.Length}
	type cell struct {
		setting    Setting
		load       float64
		controller string
	}
	samples := map[cell][]sample{}
	var cells []cell
	for _, s := range p.Settings {
		for _, load := range p.Loads {
			for _, c := range p.Controllers {
				if p.Skip != nil && p.Skip(s, load, c.Name) {
					continue
				}
				cells = append(cells, cell{s, load, c.Name})
			}
		}
	}
	total, done := (len(cells)+len(p.Settings))*p.Repeats, 0
	progress := func(what string) {
		if p.Progress != nil {
			p.Progress(done, total, what)
		}
		done++
	}
	capacities := map[string][]float64{}
	for repeat := range p.Repeats {
		// Anew in each repeat: on a machine that is now fast and now slow, the
		// reference must have been there when the runs were.
		capacity := map[string]float64{}
		for _, s := range p.Settings {
			progress("capacity of " + s.Name)
			p.Patience -= AwaitQuiet(ctx, p.Patience)
			if capacity[s.Name], err = p.capacity(ctx, s); err != nil {
				return nil, err
			}
			capacities[s.Name] = append(capacities[s.Name], capacity[s.Name])
		}
		for _, c := range cells {
			progress(fmt.Sprintf("%s %s %s", c.setting.Name, loadName(c.load), c.controller))
			p.Patience -= AwaitQuiet(ctx, p.Patience)
			one, err := p.one(ctx, c.setting, c.load, c.controller, capacity[c.setting.Name], p.Seed+uint64(repeat))
			for err == nil && !one.Result.Valid && p.Retakes > 0 {
				p.Retakes--
				p.Patience -= AwaitQuiet(ctx, p.Patience)
				one, err = p.one(ctx, c.setting, c.load, c.controller, capacity[c.setting.Name], p.Seed+uint64(repeat))
			}
			if err != nil {
				return nil, fmt.Errorf("arena: %s, %s, %s: %w", c.setting.Name, loadName(c.load), c.controller, err)
			}
			samples[c] = append(samples[c], one)
		}
	}
	for _, s := range p.Settings {
		out.Capacity[s.Name] = median(capacities[s.Name])
	}
	for _, c := range cells {
		out.Rows = append(out.Rows, summarize(c.setting.Name, c.load, c.controller, samples[c]))
	}
	return out, nil
}

// capacity returns what the station can do: known for sleep, measured for spin,
// where gRPC itself takes part of the processor.
func (p Plan) capacity(ctx context.Context, s Setting) (float64, error) {
	if s.Station == "sleep" {
		return float64(s.Slots) / s.Mean.Seconds(), nil
	}
	got, err := pair(ctx, order{Role: "capacity", Controller: p.Controllers[0].Name, Setting: s, Conns: p.Conns}, "none")
	return got.Capacity, err
}

func (p Plan) one(ctx context.Context, s Setting, load float64, controller string, capacity float64, seed uint64) (sample, error) {
	length := max(p.Length, time.Duration(p.Objectives)*s.Objective)
	profile := openloop.Steady(load*capacity, length)
	from := length / 4
	if load == Spike {
		from = length * 2 / 5
		profile = openloop.Profile{{Rate: 0.4 * capacity, For: from}, {Rate: 1.4 * capacity, For: length - from}}
	}
	got, err := Measure(ctx, Job{Controller: controller, Setting: s, Profile: profile, From: from, Conns: p.Conns, Seed: seed})
	if err != nil {
		return sample{}, err
	}
	one := sample{Measured: got}
	good := 0.0
	for _, w := range got.Result.Windows {
		if w.From >= from && w.To <= length {
			good += float64(w.Good)
		}
	}
	one.share = good / (length - from).Seconds() / capacity
	if load == Spike {
		one.settled = settled(got.Result.Windows, from, length, 0.8*capacity)
	}
	return one, nil
}

// settled returns how long after the step the last window ended whose goodput
// was below enough, or −1 if that was the last window of all.
func settled(windows []measure.Span, step, end time.Duration, enough float64) time.Duration {
	last, at := time.Duration(0), time.Duration(0)
	for _, w := range windows {
		if w.From < step || w.To > end {
			continue
		}
		last = w.To
		if w.Goodput < enough {
			at = w.To - step
		}
	}
	if at > 0 && at == last-step {
		return -1
	}
	return at
}

func summarize(station string, load float64, controller string, samples []sample) Row {
	row := Row{Station: station, Load: load, Controller: controller, Least: math.Inf(1), Repeats: len(samples)}
	late := func(s sample) bool { return !s.Result.Valid }
	valid := slices.DeleteFunc(slices.Clone(samples), late)
	for _, s := range samples {
		row.Each = append(row.Each, s.share)
		if late(s) {
			row.Why = strings.Join(s.Result.Invalid, "; ")
			if len(valid) > 0 {
				row.Each[len(row.Each)-1] = -1
			}
		}
	}
	if len(valid) > 0 {
		samples = valid // the others say more about the generator
	}
	var shares []float64
	var p99, refusal, refusal99, lag, settled []time.Duration
	for _, s := range samples {
		shares = append(shares, s.share)
		p99 = append(p99, s.Counted.Latency.P99)
		refusal = append(refusal, s.Counted.Refusal.P50)
		refusal99 = append(refusal99, s.Counted.Refusal.P99)
		lag = append(lag, s.Result.SendLag.P99)
		if s.settled < 0 {
			s.settled = math.MaxInt64
		}
		settled = append(settled, s.settled)
		row.Least, row.Most = min(row.Least, s.share), max(row.Most, s.share)
		if s.Result.Valid {
			row.Valid++
		}
	}
	row.Share, row.P99, row.Lag = median(shares), median(p99), median(lag)
	row.Refusal, row.Refusal99 = median(refusal), median(refusal99)
	if row.Settled = median(settled); row.Settled == math.MaxInt64 {
		row.Settled = -1
	}
	return row
}

// Beside returns the row's goodput ÷ that of another of the same plan: the median of the
// repeats in which both have one, as what slows the machine down slows a repeat of
// both, and the number of these.
func (r Row) Beside(other Row) (ratio float64, repeats int) {
	var ratios []float64
	for i := range min(len(r.Each), len(other.Each)) {
		if r.Each[i] >= 0 && other.Each[i] > 0 {
			ratios = append(ratios, r.Each[i]/other.Each[i])
		}
	}
	if len(ratios) == 0 {
		return 0, 0
	}
	return median(ratios), len(ratios)
}

// median of a list that is not empty; of an even number the lower one.
func median[T float64 | time.Duration](list []T) T {
	slices.Sort(list)
	return list[(len(list)-1)/2]
}

func loadName(load float64) string {
	if load == Spike {
		return "0.4→1.4"
	}
	return fmt.Sprintf("%gx", load)
}
