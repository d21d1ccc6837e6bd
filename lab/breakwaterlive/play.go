package breakwaterlive

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/lab/worlds"
)

// When a run does not count: rule 1 of the harness and what package bed allows.
const (
	// mostLag is the share of the SLO by which requests may be sent late (p99).
	mostLag = 0.1
	// mostStolen and mostOthers are shares of a processor that the host, or other
	// processes, may take.
	mostStolen, mostOthers = 0.05, 0.04
)

// setting is a station: its mean service and the shape of it.
type setting struct {
	mean  time.Duration
	shape worlds.Shape
	tuning
}

func (s *setting) name() string { return fmt.Sprintf("%v, %v", s.mean, s.shape) }

// played is a run and what disturbed it.
type played struct {
	figures
	disturbed []string
}

func cpus() (station, crowd []int) {
	all, err := proc.CPUs()
	if err != nil || len(all) < 2 {
		return nil, nil
	}
	return all[:1], all[1:2]
}

// play plays a load under a policy, in processes of their own.
func (s *setting) play(ctx context.Context, policy string, o crowdOrder) (*played, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at, from := cpus()
	station, err := stationRole.Start(ctx, stationOrder{policy, s.tuning, o.Seed}, proc.Spec{Name: "station", CPUs: at, GOMAXPROCS: 1})
	if err != nil {
		return nil, err
	}
	defer station.Stop(time.Second)
	o.Addr, o.Policy, o.Tuning, o.Shape = station.Addr(), policy, s.tuning, s.shape
	var out bytes.Buffer
	stolen := machine.WatchStolen()
	others := machine.WatchOthers(at, func() time.Duration { return machine.Used(station.Pid()) })
	crowd, err := crowdRole.Start(ctx, o, proc.Spec{Name: "crowd", CPUs: from, GOMAXPROCS: 1, GOGC: "400", Nice: -20, ReadyTimeout: -1, Output: &out})
	if err != nil {
		return nil, err
	}
	if err := crowd.Wait(); err != nil {
		return nil, fmt.Errorf("%w; it wrote: %s", err, crowd.Output())
	}
	p := &played{}
	if err := proc.ReadAnswer(out.String(), &p.figures); err != nil {
		return nil, err
	}
	p.judge(s, policy, stolen(), others())
	return p, nil
}

// judge notes what the machine did. Requests late by a share of the SLO are the crowd's own
// doing where it has too little of a processor, which disturbs figures all the same.
func (p *played) judge(s *setting, policy string, stolen, others float64) {
	note := func(format string, args ...any) {
		p.disturbed = append(p.disturbed, fmt.Sprintf("%s, %s: ", s.name(), policy)+fmt.Sprintf(format, args...))
	}
	if at, _ := cpus(); at == nil {
		note("the machine has one processor, expected two")
	}
	if p.Lag > time.Duration(mostLag*float64(s.SLO)) {
		note("requests left late, p99 %v of an SLO of %v", p.Lag, s.SLO)
	}
	if stolen > mostStolen {
		note("the host took %.0f %% of a processor", 100*stolen)
	}
	if others > mostOthers {
		note("other processes used %.0f %% of the station's processor", 100*others)
	}
}

// measure finds the SLO and the capacity of a station. Both are of runs without control.
func (s *setting) measure(ctx context.Context, seed uint64, length time.Duration) (*played, error) {
	s.tuning = tuning{SLO: time.Second, Mean: s.mean}
	alone, err := s.play(ctx, nothing, crowdOrder{Seed: seed, Clients: 1, Closed: 1, Steps: []step{{For: length / 2}}, Warmup: length / 4})
	if err != nil {
		return nil, err
	}
	if alone.Good == 0 {
		return nil, fmt.Errorf("breakwaterlive: %s: nothing was answered in %v", s.name(), length/2)
	}
	// The mean in a closed loop of one is a service and a round trip.
	once := time.Duration(alone.Seconds / float64(alone.Good) * 1e9)
	full, err := s.play(ctx, nothing, crowdOrder{Seed: seed, Clients: 32, Closed: 64, Steps: []step{{For: length}}, Warmup: length / 4})
	if err != nil {
		return nil, err
	}
	if full.Good == 0 {
		return nil, fmt.Errorf("breakwaterlive: %s: nothing was answered in %v of full load", s.name(), length)
	}
	s.SLO, s.Capacity = (10 * once).Round(time.Microsecond), float64(full.Good)/full.Seconds
	full.disturbed = append(full.disturbed, alone.disturbed...)
	return full, nil
}

// goodput is in shares of the capacity.
func (p *played) goodput(s *setting) float64 { return float64(p.Good) / p.Seconds / s.Capacity }

// told is in shares of the SLO.
func (p *played) toldShare(s *setting) float64 { return float64(p.Told) / float64(s.SLO) }
