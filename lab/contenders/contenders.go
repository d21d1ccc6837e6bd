// Package contenders decides with which parameters each policy enters a
// comparison.
//
//	Setting: objective, cores, service ──▶ Spillgate, and its Peers
//
// Spillgate gets the latency objective and nothing else. The peers also get the
// parameters that an operator would have to tune, set for the server at hand: the
// number of cores as slots, thresholds as published for the service time. That
// favours them.
//
// Invariants: all policies meet the same load, the same network and the same costs;
// clients of a policy that acts at the server alone send everything at once.
//
// What this package does not do: it runs nothing.
package contenders

import (
	"time"

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
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
)

// Setting is what the peers are tuned for.
type Setting struct {
	// Objective is the latency objective of the service.
	Objective time.Duration
	// Cores is how many requests the server works on at a time.
	Cores int
	// Service is the mean service time.
	Service time.Duration
	// Live says that the policy meets the real clock.
	Live bool
}

// Name of Spillgate in tables.
const Name = "spillgate"

// Senders is how many senders take turns at a gate, as at a deployed one: see live.NewGate.
const Senders = 1024

// Spillgate is the policy under test, with the objective as its only setting.
func Spillgate(s Setting) mesh.Control {
	return mesh.Gated(Name, admission.Config{Objective: s.Objective, Schedule: schedule.Config{Senders: Senders}}, credit.WalletConfig{})
}

// Peers returns every policy that Spillgate is compared with.
func Peers(s Setting) []mesh.Control {
	return []mesh.Control{DAGOR(s), SEDA(s), Protego(s), FIFO(s), CoDel(s), Semaphore(s, s.Cores, 2*s.Cores),
		Gradient2(s), Vegas(s), AIMD(s), None(s)}
}

// atServer is a policy whose clients send everything at once.
func atServer(name string, door func(seed uint64) (baseline.Door, error)) mesh.Control {
	return mesh.Control{
		Name: name,
		Door: func(seed uint64, _ mesh.Place) (baseline.Door, error) { return door(seed) },
	}
}

// None lets the server run whatever arrives.
func None(Setting) mesh.Control {
	return atServer("none", func(uint64) (baseline.Door, error) { return none.Door{}, nil })
}

// FIFO is first in, first out, dropping what can no longer meet its deadline.
func FIFO(s Setting) mesh.Control {
	return atServer("deadline fifo", func(uint64) (baseline.Door, error) { return fifo.New(fifo.Config{Slots: s.Cores}) })
}

// Semaphore is a fixed number of slots and a bounded queue, set by hand.
func Semaphore(_ Setting, limit, queue int) mesh.Control {
	return atServer("semaphore", func(uint64) (baseline.Door, error) {
		return semaphore.New(semaphore.Config{Limit: limit, Queue: queue})
	})
}

// CoDel drops by the delay of the queue; a tenth and twice of the objective
// stand for its 5 and 100 ms, which are of wide-area networks.
func CoDel(s Setting) mesh.Control {
	return atServer("codel", func(uint64) (baseline.Door, error) {
		return codel.New(codel.Config{Slots: s.Cores, Law: codel.Controlled, Target: s.Objective / 10, Interval: 2 * s.Objective})
	})
}

// Gradient2 is Netflix' adaptive limit, fed every completion, with its authors' defaults.
func Gradient2(Setting) mesh.Control {
	return atServer("gradient2", func(uint64) (baseline.Door, error) { return gradient2.New(gradient2.Config{}) })
}

// Vegas is TCP Vegas' rule applied to requests in flight: what their limiters use unless
// told otherwise, fed every completion, with its authors' defaults.
func Vegas(Setting) mesh.Control {
	return atServer("vegas", func(seed uint64) (baseline.Door, error) { return vegas.New(vegas.Config{Seed: seed}) })
}

// Windowed are the two limits as they are behind their authors' WindowedLimit, which sums a
// second up into one sample. It leaves out what took less than 100 µs and needs some
// seconds to move, so they take part where service takes milliseconds and runs take long.
func Windowed(Setting) []mesh.Control {
	return []mesh.Control{
		atServer("gradient2, 1 s", func(uint64) (baseline.Door, error) {
			return gradient2.New(gradient2.Config{Window: gradient2.Window})
		}),
		atServer("vegas, 1 s", func(seed uint64) (baseline.Door, error) {
			return vegas.New(vegas.Config{Seed: seed, Window: vegas.Window})
		}),
	}
}

// AIMD backs off when a completion exceeds the objective.
func AIMD(s Setting) mesh.Control {
	return atServer("aimd", func(uint64) (baseline.Door, error) { return aimd.New(aimd.Config{Timeout: s.Objective}) })
}

// DAGOR is WeChat's priority levels as Breakwater's authors wrote them, at
// their thresholds for 1, 10 and 100 µs, in proportion for other service times.
func DAGOR(s Setting) mesh.Control {
	cfg := dagor.Config{Slots: s.Cores, Law: dagor.Stepwise,
		Threshold: tuned(s.Service, 30*time.Microsecond, 70*time.Microsecond, 500*time.Microsecond)}
	if s.Live { // a look every 10 µs, as published, would take a tenth of a core
		cfg.Monitor, cfg.Window = time.Millisecond, 10*time.Millisecond
	}
	return mesh.Control{
		Name: "dagor", Ranked: true,
		Door: func(uint64, mesh.Place) (baseline.Door, error) { return dagor.New(cfg) },
		Sender: func(seed uint64, from, _ mesh.Place) (baseline.Sender, error) {
			return dagor.NewSender(seed<<20 + uint64(from.Process)), nil
		},
	}
}

// SEDA is rate control at the client, with the parameters of Breakwater's
// authors for 1, 10 and 100 µs.
func SEDA(s Setting) mesh.Control {
	cfg := seda.Config{Target: tuned(s.Service, 50*time.Microsecond, 80*time.Microsecond, 720*time.Microsecond)}
	switch {
	case s.Service < 3*time.Microsecond:
		cfg.Increase, cfg.Decrease = 120, 1.04
	case s.Service < 30*time.Microsecond:
		cfg.Increase, cfg.Decrease = 40, 1.04
	default:
		cfg.Increase, cfg.Decrease = 10, 1.3
	}
	return mesh.Control{
		Name: "seda",
		Door: func(uint64, mesh.Place) (baseline.Door, error) { return none.Door{}, nil },
		Sender: func(seed uint64, from, _ mesh.Place) (baseline.Sender, error) {
			mine := cfg
			mine.Seed = seed<<20 + uint64(from.Process)
			return seda.New(mine)
		},
	}
}

// Protego sizes the credit pool by the throughput it gains. Its wallet is
// Spillgate's.
func Protego(s Setting) mesh.Control {
	return mesh.Control{
		Name: "protego",
		Door: func(uint64, mesh.Place) (baseline.Door, error) {
			return protego.New(protego.Config{Slots: s.Cores, Budget: s.Objective * 4 / 5})
		},
		Sender: func(uint64, mesh.Place, mesh.Place) (baseline.Sender, error) {
			return baseline.NewWallet(credit.WalletConfig{})
		},
	}
}

// tuned picks a published value for 1, 10 or 100 µs of service, or scales that
// for 100 µs.
func tuned(service, one, ten, hundred time.Duration) time.Duration {
	switch {
	case service < 3*time.Microsecond:
		return one
	case service < 30*time.Microsecond:
		return ten
	}
	return time.Duration(float64(hundred) * float64(service) / float64(100*time.Microsecond))
}
