package workflowslive

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
)

// control says what the gates do.
type control string

const (
	deadlines control = "deadlines only"
	rated     control = "rates"
	ratedFair control = "rates+fair"
)

// flow is a workflow and its load. Times are means of exponential ones.
type flow struct {
	Name    string           `json:"name"`
	Profile openloop.Profile `json:"profile"`
	// Work is done at a partition server, with the semaphore if Lock, and then
	// Reads times Read at extent nodes, one after the other.
	Work  time.Duration `json:"work_ns"`
	Lock  bool          `json:"lock,omitempty"`
	Reads int           `json:"reads"`
	Read  time.Duration `json:"read_ns"`
	// Pinned sends all requests to the first partition server.
	Pinned bool `json:"pinned,omitempty"`
}

// alone returns what a request takes on average that is in nobody's way.
func (f *flow) alone() time.Duration { return f.Work + time.Duration(f.Reads)*f.Read }

// stretch is a part of a run, from its start.
type stretch struct {
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
}

// setting is a run without its control.
type setting struct {
	Flows []flow `json:"flows"`
	// Slots are the workers of an extent node, Workers those of a partition
	// server, Permits those of its semaphore.
	Slots, Workers, Permits int
	// Target is the queueing delay above which something is overloaded: a third of
	// what requests take that are in nobody's way, or less.
	Target time.Duration `json:"target_ns"`
	// Deadline is how long callers wait.
	Deadline time.Duration `json:"deadline_ns"`
	// Period is the time after which the requests of a workflow ask for the same
	// work again: the length of the stretches.
	Period    time.Duration `json:"period_ns"`
	Stretches []stretch     `json:"stretches"`
	Seed      uint64        `json:"seed"`
}

func (s *setting) validate() error {
	var errs []error
	if s.Slots < 1 || s.Workers < 1 || s.Permits < 1 {
		errs = append(errs, fmt.Errorf("workflowslive: %d slots, %d workers and %d permits, expected 1 or more of each", s.Slots, s.Workers, s.Permits))
	}
	if s.Deadline <= 0 || s.Period <= 0 || s.Target <= 0 {
		errs = append(errs, fmt.Errorf("workflowslive: the deadline is %v, the period %v and the target %v, expected more than 0", s.Deadline, s.Period, s.Target))
	}
	if len(s.Flows) == 0 {
		errs = append(errs, errors.New("workflowslive: no workflows"))
	}
	for _, f := range s.Flows {
		if err := f.Profile.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("workflowslive: %s: %w", f.Name, err))
		}
	}
	return errors.Join(errs...)
}

// plan is what one request does; it travels as its body.
type plan struct {
	PS    int           `json:"ps"`
	Work  time.Duration `json:"work_ns"`
	Lock  bool          `json:"lock,omitempty"`
	Reads []read        `json:"reads,omitempty"`
}

type read struct {
	EN   int           `json:"en"`
	Work time.Duration `json:"work_ns"`
}

// plan returns what the i-th request of a workflow does.
func (s *setting) plan(f, i int) plan {
	w := &s.Flows[f]
	period := max(1, int(w.Profile.RateAt(w.Profile.Duration()-1)*s.Period.Seconds()))
	// Small integers, far apart: mix spreads them.
	draw := s.Seed<<40 ^ uint64(f)<<32 ^ uint64(i%period)
	next := func() uint64 { draw += 0x9e3779b97f4a7c15; return mix(draw) }
	p := plan{Lock: w.Lock, Work: exponential(w.Work, next()), PS: int(next() % tierSize)}
	if w.Pinned {
		p.PS = 0
	}
	for range w.Reads {
		p.Reads = append(p.Reads, read{int(next() % tierSize), exponential(w.Read, next())})
	}
	return p
}

// mix is the finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func exponential(mean time.Duration, chance uint64) time.Duration {
	u := (float64(chance>>11) + 0.5) / (1 << 53)
	return time.Duration(-float64(mean) * math.Log(u))
}

// wide is a limit that no load of these experiments reaches: where requests
// wait for others, it is not the gate that bounds them.
const wide = 20_000

// gate returns the gate of a process of a tier.
func (s *setting) gate(t tier, c control) live.GateConfig {
	n := wide
	if t == extent {
		n = s.Slots
	}
	cfg := live.GateConfig{Service: string(t), Config: admission.Config{
		Objective: s.Deadline, TargetDelay: s.Target, NoCredit: true, NoAQM: true,
		Slots: slots.Config{Min: n, Max: n, Initial: n}, QueueLimit: wide,
		Schedule: s.schedule(c),
	}}
	if c != deadlines {
		cfg.Rates = &rates.Config{}
		if t == partition {
			cfg.Rates.Resources = []rates.Resource{{Name: "workers", Capacity: float64(s.Workers)}, {Name: "semaphore", Capacity: float64(s.Permits)}}
		}
	}
	return cfg
}

func (s *setting) schedule(c control) schedule.Config {
	return schedule.Config{Fair: c == ratedFair}
}
