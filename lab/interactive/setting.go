package interactive

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/sim/mesh"
)

// hops is how many servers there are, and how many a chain visits.
const hops = 4

// setting is what the four servers meet. All times are exponential.
type setting struct {
	name string
	// cores of a server.
	cores int
	// chains and singles are requests per second at each server: every chain comes
	// by at each.
	chains, singles float64
	// chain is the mean service time of a chain at each server, single that of a
	// single request.
	chain, single time.Duration
	// users, if above 0, is a closed loop of so many clients, half of which send
	// chains, who think for a mean time in between. chains and singles then say
	// about what that comes to.
	users int
	think time.Duration
	// chainPatience and singlePatience are how long clients wait, in the mean. 0 is
	// for ever.
	chainPatience, singlePatience time.Duration
	// from and to bound the time in which there are chains. 0, 0: always.
	from, to time.Duration
	// network is the time each way.
	network time.Duration
}

// oracle is the setting of the published formulas: one core, 10 ms for all.
func oracle(chains, singles float64) setting {
	return setting{cores: 1, chains: chains, singles: singles, chain: 10 * time.Millisecond, single: 10 * time.Millisecond}
}

// load is the setting for formulas. They take the cores for one that is as fast as
// all of them, which is exact for one.
func (s *setting) load() share.Load {
	return share.Load{Interactive: s.chains, Default: s.singles, Service: float64(s.cores) / s.chain.Seconds(), Hops: hops}
}

// order is who goes first at a server.
type order struct {
	name    string
	control mesh.Control
	// split gives each class its own part of every server, which the other cannot
	// use: the paper's adjustment taken literally.
	split bool
}

// The orders that are compared.
func fifo() order             { return order{name: "fifo"} }
func static() order           { return order{name: "static shares", split: true} }
func priority() order         { return order{name: "priority", control: mesh.Control{Lottery: 1}} }
func lottery(w float64) order { return order{name: "lottery", control: mesh.Control{Lottery: w}} }
func shared(cfg share.Config) order {
	c := mesh.Bare("share", admission.Config{})
	c.Share = &cfg
	return order{name: c.Name, control: c}
}
func ours() order { return shared(share.Config{}) }

// orders are all of them; ours is the last.
func orders() []order {
	return []order{fifo(), static(), priority(), lottery(0.65), ours()}
}

// servers are named so.
var servers = [hops]string{"a", "b", "c", "d"}

// world puts an order to a setting. Workflows are the chains from each server and
// then the singles at each.
func (s *setting) world(seed uint64, o order, warmup, length time.Duration) mesh.Config {
	cfg := mesh.Config{Seed: seed, Control: o.control, Network: mesh.Network{Delay: s.network}, Timeout: -1, Warmup: warmup, Length: length}
	if s.network == 0 {
		cfg.Network.Delay = -1
	}
	cfg.Control.Name, cfg.Control.GiveUp, cfg.Control.Cancel = o.name, true, true
	chainWork, singleWork := mesh.Work(mesh.Exp(s.chain)), mesh.Work(mesh.Exp(s.single))
	resources := []mesh.Resource{{Name: "cores", Capacity: s.cores}}
	if o.split {
		part := s.equalizing()
		resources = append(resources, mesh.Resource{Name: "singles'", Capacity: s.cores})
		chainWork.Work.Mean = time.Duration(float64(s.chain) / part)
		singleWork.Work.Mean, singleWork.Resource = time.Duration(float64(s.single)/(1-part)), "singles'"
	}
	// Only an order that learns nothing has to be told the classes.
	told := o.control.Share == nil
	for i, name := range servers {
		cfg.Services = append(cfg.Services, mesh.Service{Name: name, Resources: resources})
		f := mesh.Workflow{Name: "chain from " + name, Root: chainFrom(i, hops, chainWork), Patience: s.chainPatience}
		if told {
			f.Class = mesh.Interactive
		}
		cfg.Workflows = append(cfg.Workflows, f)
	}
	for _, name := range servers {
		f := mesh.Workflow{Name: "single at " + name, Root: mesh.Stage{Service: name, Steps: []mesh.Step{singleWork}}, Patience: s.singlePatience}
		if told {
			f.Class = mesh.NonInteractive
		}
		cfg.Workflows = append(cfg.Workflows, f)
	}
	for i := range cfg.Workflows {
		g := mesh.Group{Name: cfg.Workflows[i].Name, Mix: []mesh.Part{{Workflow: cfg.Workflows[i].Name, Weight: 1}}, Clients: 9}
		switch {
		case s.users > 0:
			each := s.users / (2 * hops)
			if i < s.users/2%hops || i >= hops && i-hops < s.users/2%hops {
				each++
			}
			g.Load = mesh.Closed(each, s.think)
		case i >= hops:
			g.Load = mesh.Constant(s.singles)
		case s.to > 0:
			g.Load = mesh.Load{Steps: []mesh.Change{{}, {At: s.from, Rate: s.chains / hops}, {At: s.to}}}
		default:
			g.Load = mesh.Constant(s.chains / hops)
		}
		cfg.Groups = append(cfg.Groups, g)
	}
	return cfg
}

// chainFrom is a stage at one server and the call to the next.
func chainFrom(at, n int, work mesh.Step) mesh.Stage {
	s := mesh.Stage{Service: servers[at%hops], Steps: []mesh.Step{work}}
	if n > 1 {
		s.Steps = append(s.Steps, mesh.Each(mesh.Call{Stage: chainFrom(at+1, n-1, work)}))
	}
	return s
}

// equalizing is the share of each server that chains must have to be, over all
// hops, as fast as singles, where each class is an M/M/1 queue of its own; the
// middle of what is stable if there is no such share.
func (s *setting) equalizing() float64 {
	cores := float64(s.cores)
	lr, ll := s.chains, s.singles
	mr, ml := cores/s.chain.Seconds(), cores/s.single.Seconds()
	low, high := lr/mr, 1-ll/ml
	if low >= high {
		return min(max((low+high)/2, 0.05), 0.95)
	}
	for range 60 {
		mid := (low + high) / 2
		if hops/(mid*mr-lr) > 1/((1-mid)*ml-ll) {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}
