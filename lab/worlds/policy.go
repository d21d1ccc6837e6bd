package worlds

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/none"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/contenders"
)

// peer is a policy that is tuned for a service.
type peer struct {
	name string
	make func(contenders.Setting) mesh.Control
}

var peers = []peer{
	{"fifo", contenders.FIFO},
	{"codel", contenders.CoDel},
	{"gradient2", contenders.Gradient2},
	{"gradient2:1s", func(s contenders.Setting) mesh.Control { return contenders.Windowed(s)[0] }},
	{"vegas", contenders.Vegas},
	{"vegas:1s", func(s contenders.Setting) mesh.Control { return contenders.Windowed(s)[1] }},
	{"aimd", contenders.AIMD},
	{"dagor", contenders.DAGOR},
	{"seda", contenders.SEDA},
	{"protego", contenders.Protego},
}

// Policies returns the names that Simulate knows. N and Q stand for numbers: slots, and
// requests that may wait for one; with an x behind, as in semaphore:2x:4x, they are
// multiples of what the service works on at a time, its workers or its processors.
func Policies() []string {
	return append([]string{contenders.Name, "semaphore:N", "semaphore:N:Q", "semaphore:Nx:Qx", unlimited}, Peers()...)
}

// Peers returns the names of the policies that are compared with, and that are tuned for
// the services that they stand in front of.
func Peers() (names []string) {
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

// unlimited is the name of no policy at all.
const unlimited = "none"

// Peer returns the policy of one of Peers for a world, whose defaults are filled in, or
// nil if there is none of that name. Live says that it meets the real clock.
func Peer(w *world.World, name string, live bool) *mesh.Control {
	for _, p := range peers {
		if p.name == name {
			c := tuned(w, name, live, p.make)
			return &c
		}
	}
	return nil
}

// control returns the policy of a name for a world, whose defaults are filled in.
func control(w *world.World, name string) (mesh.Control, error) {
	if name == contenders.Name {
		return spillgate(w), nil
	}
	if name == unlimited {
		return tuned(w, name, false, contenders.None), nil
	}
	if p := Peer(w, name, false); p != nil {
		return *p, nil
	}
	limit, queue, err := semaphore(name)
	if err != nil {
		return mesh.Control{}, err
	}
	return tuned(w, name, false, func(s contenders.Setting) mesh.Control {
		return contenders.Semaphore(s, limit.of(s.Cores), queue.of(s.Cores))
	}), nil
}

// amount is a number of requests, or a multiple of the service's cores.
type amount struct {
	number   int
	relative bool
}

func (a amount) of(cores int) int {
	if a.relative {
		return a.number * cores
	}
	return a.number
}

// maxSlots bounds the numbers of a semaphore. More are refused.
const maxSlots = 1_000_000

// semaphore reads semaphore:N or semaphore:N:Q, each with or without an x.
func semaphore(name string) (limit, queue amount, err error) {
	parts := strings.Split(name, ":")
	wrong := fmt.Errorf("policy %q: expected one of %s, with 1 to %d for N and 0 to %d for Q", name, strings.Join(Policies(), ", "), maxSlots, maxSlots)
	if parts[0] != "semaphore" || len(parts) < 2 || len(parts) > 3 {
		return limit, queue, wrong
	}
	limit, ok := parse(parts[1], 1)
	if ok && len(parts) == 3 {
		queue, ok = parse(parts[2], 0)
	}
	if !ok {
		return limit, queue, wrong
	}
	return limit, queue, nil
}

// parse reads an amount of least or more.
func parse(text string, least int) (a amount, ok bool) {
	digits, relative := strings.CutSuffix(text, "x")
	n, err := strconv.Atoi(digits)
	return amount{n, relative}, err == nil && n >= least && n <= maxSlots
}

// spillgate is the policy under test: a gate in front of each service, told the
// objective, and a wallet at each caller.
func spillgate(w *world.World) mesh.Control {
	shares := map[string]float64{}
	for i := range w.Clients {
		if c := &w.Clients[i]; c.Share != 1 {
			shares[c.Workflow] = c.Share
		}
	}
	c := mesh.Gated(contenders.Name, admission.Config{}, credit.WalletConfig{})
	c.Door = func(_ uint64, at mesh.Place) (baseline.Door, error) {
		return node.New(node.Config{Service: at.Service, Number: at.Number, Shares: shares, Config: admission.Config{
			Objective: at.Objective, Credit: credit.Config{Epoch: uint32(at.Life + 1)}, Schedule: schedule.Config{Fair: len(shares) > 0, Senders: contenders.Senders}}})
	}
	return c
}

// tuned is a policy that is told of each service what its authors ask for.
func tuned(w *world.World, name string, live bool, of func(contenders.Setting) mesh.Control) mesh.Control {
	settings := map[string]contenders.Setting{}
	for i := range w.Services {
		settings[w.Services[i].Name] = setting(w, &w.Services[i], live)
	}
	return mesh.Control{
		Name:   name,
		Ranked: of(settings[w.Services[0].Name]).Ranked,
		Door: func(seed uint64, at mesh.Place) (baseline.Door, error) {
			return of(settings[at.Service]).Door(seed+uint64(at.Process), at)
		},
		Sender: func(seed uint64, from, to mesh.Place) (baseline.Sender, error) {
			if p := of(settings[to.Service]); p.Sender != nil {
				return p.Sender(seed, from, to)
			}
			return none.Sender{}, nil
		},
	}
}

// assumed is how many slots a service gets that has neither workers nor a host.
const assumed = 64

// setting is what an operator who tunes a policy can know of a service.
func setting(w *world.World, s *world.Service, live bool) contenders.Setting {
	out := contenders.Setting{Objective: s.Objective, Cores: s.Workers, Live: live}
	if out.Cores == 0 {
		out.Cores = assumed
		for i := range w.Hosts {
			if w.Hosts[i].Name == s.Host {
				out.Cores = w.Hosts[i].Processors
			}
		}
	}
	for i := range s.Methods {
		if s.Methods[i].Idle {
			continue
		}
		for _, step := range s.Methods[i].Steps {
			if step.Wait != nil {
				out.Service += step.Wait.Mean
			} else if step.Compute != nil {
				out.Service += step.Compute.Mean
			}
		}
	}
	out.Service = max(out.Service/time.Duration(len(s.Methods)), time.Microsecond)
	return out
}
