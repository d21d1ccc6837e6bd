package arena

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/harness/proc"
)

// Job is one run: a server under a controller, and a load.
type Job struct {
	// Controller is the name of one of those that Child was given.
	Controller string
	Setting    Setting
	// Profile is the load.
	Profile openloop.Profile
	// From is where the part of the run begins that counts.
	From time.Duration
	// Conns is the number of connections. Default 100.
	Conns int
	// Cold connects and sends nothing before the run. Otherwise each connection
	// carries one call first, so that none is made for the first time in the run.
	Cold bool
	// Changes are the station's changes of speed, counted from the start of the
	// run.
	Changes []Change
	// Seed decides arrivals and service times.
	Seed uint64
}

// Change makes a station slower, or fast again.
type Change struct {
	At       time.Duration `json:"at_ns"`
	Slowness float64       `json:"slowness"` // 1 is the normal speed, 4 takes four times as long
}

// Measured is what came of a run.
type Measured struct {
	// Result is the whole run. It is not valid if the generator was late or the
	// machine took much of a processor away.
	Result measure.Result `json:"result"`
	// Counted is the part from Job.From to the end of the load.
	Counted measure.Span `json:"counted"`
}

// preparation is how long a server and its generator have to get ready for a run
// that begins at a given instant. 100 connections take 1.2 s, but a machine that
// others share may stand still for as long: then there is twice the time, and so on
// preparations times.
const (
	preparation  = 3 * time.Second
	preparations = 3
)

// Measure makes a run, which takes as long as its profile and about half a
// second; with Changes, three seconds.
func Measure(ctx context.Context, j Job) (Measured, error) {
	o := order{Role: "load", Setting: j.Setting, Profile: j.Profile, Conns: j.Conns, Seed: j.Seed, From: j.From, Cold: j.Cold, Changes: j.Changes}
	if o.Conns == 0 {
		o.Conns = defaultConns
	}
	var got answer
	for i := range preparations {
		if len(o.Changes) > 0 {
			o.Begin = time.Now().Add(preparation << i)
		}
		var err error
		if got, err = pair(ctx, o, j.Controller); err != nil || got.Late == 0 {
			return got.Measured, err
		}
	}
	return Measured{}, fmt.Errorf("arena: the generator was ready %v after the run was to begin, %v after it was started; run it when the machine is not busy",
		got.Late.Round(time.Millisecond), (preparation<<(preparations-1) + got.Late).Round(time.Millisecond))
}

// pair starts a server under the given controller and a generator, and returns
// the generator's answer.
func pair(ctx context.Context, o order, controller string) (answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cpus, err := proc.CPUs()
	if err != nil {
		return answer{}, err
	}
	serverCPU, generatorCPU := cpus[0], cpus[len(cpus)-1]
	// A process that keeps its processor busy must leave some of it to the system:
	// to the thread, for one, that delivers packets when there are many. Real-time
	// processes do so only in stalls of 50 ms.
	busy := o.Setting.Station == "spin"
	serving := o
	serving.Role, serving.Controller = "server", controller
	server, err := role.Start(ctx, serving, proc.Spec{Name: "server", CPUs: []int{serverCPU}, GOMAXPROCS: o.Setting.procs(), GOGC: serverGOGC, RealTime: !busy, Nice: -20})
	if err != nil {
		return answer{}, err
	}
	defer server.Stop(time.Second)

	var output bytes.Buffer
	o.Addr, o.Controller = server.Addr(), controller
	before := readUsage(serverCPU, server.Pid())
	generator, err := role.Start(ctx, o, proc.Spec{Name: "generator", CPUs: []int{generatorCPU}, GOMAXPROCS: 1, GOGC: generatorGOGC,
		Env: []string{generatorMem}, RealTime: !busy, Nice: -20, ReadyTimeout: -1, Output: &output})
	if err != nil {
		return answer{}, err
	}
	patience := time.AfterFunc(o.Profile.Duration()+60*time.Second, cancel)
	defer patience.Stop()
	if err := generator.Wait(); err != nil {
		return answer{}, fmt.Errorf("%w; server: %s", err, server.Output())
	}
	lost := readUsage(serverCPU, server.Pid()).lostSince(before, busy)
	var got answer
	if err := proc.ReadAnswer(output.String(), &got); err != nil {
		return got, fmt.Errorf("the generator: %w; it wrote: %s", err, generator.Output())
	}
	if lost > mostLost {
		got.Result.Reject(fmt.Sprintf("other processes took %.0f %% of the server's processor, more than %.0f %%", 100*lost, 100*mostLost))
	}
	return got, nil
}
