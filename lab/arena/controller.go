package arena

import (
	"time"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/grpcgate"
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/aimd"
	"github.com/spillgate/spillgate/internal/baseline/codel"
	"github.com/spillgate/spillgate/internal/baseline/dagor"
	"github.com/spillgate/spillgate/internal/baseline/fifo"
	"github.com/spillgate/spillgate/internal/baseline/gradient2"
	"github.com/spillgate/spillgate/internal/baseline/none"
	"github.com/spillgate/spillgate/internal/baseline/protego"
	"github.com/spillgate/spillgate/internal/baseline/seda"
	"github.com/spillgate/spillgate/internal/baseline/semaphore"
	"github.com/spillgate/spillgate/internal/baseline/vegas"
	"github.com/spillgate/spillgate/internal/live"
)

// Setting is the server that controllers are made for.
type Setting struct {
	// Name is unique among the settings of a plan.
	Name string
	// Station is "sleep" or "spin".
	Station string
	// Slots is how many requests the station works on at once.
	Slots int
	// Mean is the mean service time, Objective the latency objective.
	Mean, Objective time.Duration
	// Procs is the server's GOMAXPROCS. Default 1, as many as it has processors.
	Procs int
}

func (s *Setting) procs() int { return max(s.Procs, 1) }

// Sleep is an ordinary service: 400 requests a second, and an objective that is
// long against the time for which a virtual machine's processor may be away.
func Sleep() Setting {
	return Setting{Name: "sleep", Station: "sleep", Slots: 4, Mean: 10 * time.Millisecond, Objective: 100 * time.Millisecond}
}

// Spin is the same for a service whose handlers burn the processor. GOMAXPROCS is one
// above the number of processors: who reads connections then shares the processor with a
// handler by the kernel's slices, instead of waiting for its end.
func Spin() Setting {
	s := LoneSpin()
	s.Name, s.Procs = "spin", 2
	return s
}

// LoneSpin is Spin with Go's default, a GOMAXPROCS as there are processors.
func LoneSpin() Setting {
	return Setting{Name: "lone spin", Station: "spin", Slots: 1, Mean: 2 * time.Millisecond, Objective: 40 * time.Millisecond}
}

// FastSleep is the sleeping setting of the earlier measurement. Its objective is
// within reach of the noise of a virtual machine.
func FastSleep() Setting {
	return Setting{Name: "fast sleep", Station: "sleep", Slots: 2, Mean: time.Millisecond, Objective: 10 * time.Millisecond}
}

// FastSpin is the same with handlers that burn the processor: the server's own
// work for a call is a large part of the service.
func FastSpin() Setting {
	return Setting{Name: "fast spin", Station: "spin", Slots: 1, Mean: 100 * time.Microsecond, Objective: 2 * time.Millisecond, Procs: 2}
}

// Settings returns all of them.
func Settings() []Setting { return []Setting{Sleep(), Spin(), LoneSpin(), FastSleep(), FastSpin()} }

// Controller is one contender. Server and Client are called in the child
// processes.
type Controller struct {
	// Name is one word.
	Name string
	// Quick says that it takes part in the quick form.
	Quick bool
	// Server returns the options of the grpc server, what else it needs on the
	// server (may be nil) and what stops it (may be nil).
	Server func(s Setting) (Installed, error)
	// Client returns the options of one ClientConn. Nil: a plain client.
	Client connect
}

// Installed is a controller in a server.
type Installed struct {
	Options  []grpc.ServerOption
	Register func(grpc.ServiceRegistrar)
	Stop     func()
}

// Own returns Spillgate and every compared policy of this module.
func Own() []Controller {
	return []Controller{
		spillgate(),
		{Name: "none", Quick: true, Server: func(Setting) (Installed, error) { return Installed{}, nil }},
		door("semaphore", true, func(s Setting) (baseline.Door, error) {
			return semaphore.New(semaphore.Config{Limit: s.Slots, Queue: queue(s)})
		}, nil),
		door("fifo", true, func(s Setting) (baseline.Door, error) { return fifo.New(fifo.Config{Slots: s.Slots}) }, nil),
		door("codel", false, func(s Setting) (baseline.Door, error) {
			return codel.New(codel.Config{Slots: s.Slots, Law: codel.Controlled, Target: s.Objective / 4, Interval: s.Objective})
		}, nil),
		door("gradient2", false, func(Setting) (baseline.Door, error) { return gradient2.New(gradient2.Config{}) }, nil),
		door("vegas", false, func(Setting) (baseline.Door, error) { return vegas.New(vegas.Config{}) }, nil),
		door("gradient2/1s", false, func(Setting) (baseline.Door, error) {
			return gradient2.New(gradient2.Config{Window: gradient2.Window})
		}, nil),
		door("vegas/1s", false, func(Setting) (baseline.Door, error) { return vegas.New(vegas.Config{Window: vegas.Window}) }, nil),
		door("aimd", false, func(s Setting) (baseline.Door, error) { return aimd.New(aimd.Config{Timeout: s.Objective}) }, nil),
		door("dagor", false, func(s Setting) (baseline.Door, error) {
			// A look every 10 µs, as published, would take a tenth of the core here.
			return dagor.New(dagor.Config{Slots: s.Slots, Law: dagor.Stepwise, Threshold: s.Objective / 4,
				Monitor: time.Millisecond, Window: 10 * time.Millisecond})
		}, client(func(_ Setting, seed uint64) (baseline.Sender, error) { return dagor.NewSender(seed), nil })),
		door("seda", false, func(Setting) (baseline.Door, error) { return none.Door{}, nil }, client(func(s Setting, seed uint64) (baseline.Sender, error) {
			return seda.New(seda.Config{Target: s.Objective, Increase: 10, Decrease: 1.3, Timeout: 100 * time.Millisecond,
				MaxWait: s.Objective / 2, Seed: seed})
		})),
		door("protego", false, func(s Setting) (baseline.Door, error) {
			return protego.New(protego.Config{Slots: s.Slots, Budget: s.Objective * 2 / 5, Interval: max(2*s.Mean, time.Millisecond)})
		}, credits),
	}
}

// Hand returns the fixed limits that somebody would try beside "semaphore", which
// has as many as the station has slots and a queue of half the objective:
// half and twice the slots, and shorter and longer queues.
func Hand() []Controller {
	fixed := func(name string, limit func(Setting) int, shrink float64) Controller {
		return door(name, false, func(s Setting) (baseline.Door, error) {
			return semaphore.New(semaphore.Config{Limit: limit(s), Queue: max(int(shrink*float64(queue(s))), 1)})
		}, nil)
	}
	slots := func(s Setting) int { return s.Slots }
	return []Controller{
		fixed("semaphore/half", func(s Setting) int { return max(s.Slots/2, 1) }, 1),
		fixed("semaphore/double", func(s Setting) int { return 2 * s.Slots }, 1),
		fixed("semaphore/short", slots, 0.4),
		fixed("semaphore/shortest", slots, 0.2),
		fixed("semaphore/long", slots, 1.5),
	}
}

// spillgate is the product as its users install it: the objective is its only
// setting.
func spillgate() Controller {
	return Controller{
		Name: "spillgate", Quick: true,
		Server: func(s Setting) (Installed, error) {
			g, err := live.NewGate(live.GateConfig{Config: admission.Config{Objective: s.Objective}})
			if err != nil {
				return Installed{}, err
			}
			return Installed{Options: grpcgate.ServerOptions(g), Register: grpcgate.RegisterControl, Stop: func() { _ = g.Close() }}, nil
		},
		Client: credits,
	}
}

// queue is a bound set by hand: what waits half the objective.
func queue(s Setting) int {
	return max(int(s.Objective/2/(s.Mean/time.Duration(s.Slots))), 1)
}

// connect makes a contender's side of one ClientConn; see Controller.Client.
type connect = func(s Setting, conn int) ([]grpc.DialOption, func(), error)

// credits is the client of servers that grant credits.
func credits(Setting, int) ([]grpc.DialOption, func(), error) {
	return grpcgate.DialOptions(), nil, nil
}

// door is a policy of servers behind the edge that Spillgate has.
func door(name string, quick bool, door func(Setting) (baseline.Door, error), client connect) Controller {
	return Controller{
		Name: name, Quick: quick,
		Server: func(s Setting) (Installed, error) {
			d, err := door(s)
			if err != nil {
				return Installed{}, err
			}
			return gated(s, d), nil
		},
		Client: client,
	}
}

// client is a policy of clients.
func client(sender func(s Setting, seed uint64) (baseline.Sender, error)) connect {
	return func(s Setting, conn int) ([]grpc.DialOption, func(), error) {
		policy, err := sender(s, uint64(conn))
		if err != nil {
			return nil, nil, err
		}
		o := live.NewOutlet(policy, nil)
		return []grpc.DialOption{grpc.WithChainUnaryInterceptor(intercept(o))}, o.Close, nil
	}
}
