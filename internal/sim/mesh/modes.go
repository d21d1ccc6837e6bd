package mesh

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/dagor"
	"github.com/spillgate/spillgate/internal/baseline/rajomon"
	"github.com/spillgate/spillgate/internal/credit"
	control "github.com/spillgate/spillgate/internal/node"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// None is no control at all: clients wait for ever late answers.
func None() Control { return Control{Name: "none"} }

// Timeouts gives up at deadlines, and cancels what was called for it.
func Timeouts() Control { return Control{Name: "timeouts", GiveUp: true, Cancel: true} }

// Rates limits workflows along the call graph, and serves in order of arrival: Wisp's
// control alone.
func Rates(cfg rates.Config) Control {
	return Bare("rates", admission.Config{Rates: &cfg})
}

// RatesOrdered limits workflows, and serves in an order.
func RatesOrdered(o schedule.Order, cfg rates.Config) Control {
	return Bare("rates+"+o.String(), admission.Config{Rates: &cfg, Schedule: schedule.Config{Order: o}})
}

// RatesFair limits workflows, and lets them share each resource fairly.
func RatesFair() Control {
	return Bare("rates+fair", admission.Config{Rates: &rates.Config{}, Schedule: schedule.Config{Fair: true}})
}

// wide is a number of slots, and of requests that wait, that no world reaches.
const wide = 1 << 20

// Bare is a node in which nothing but its Schedule and its Rates act: no credits, no AQM,
// and as many slots as there are requests. What they act on is the resources inside of the
// process, of which the node knows, and which serve in the order of its Schedule.
func Bare(name string, cfg admission.Config) Control {
	c := Timeouts()
	c.Name, c.Queue = name, &cfg.Schedule
	cfg.NoCredit, cfg.NoAQM, cfg.QueueLimit = true, true, wide
	cfg.Slots = slots.Config{Min: wide, Initial: wide, Max: wide}
	c.Door = func(_ uint64, at Place) (baseline.Door, error) { return NewNode(watching(cfg, at), at) }
	return c
}

// watching is cfg with rates that know the resources of a place.
func watching(cfg admission.Config, at Place) admission.Config {
	if cfg.Rates == nil {
		return cfg
	}
	own := *cfg.Rates
	for _, r := range at.Resources {
		own.Resources = append(own.Resources, rates.Resource{Name: r.Name, Capacity: float64(r.Capacity)})
	}
	cfg.Rates = &own
	return cfg
}

// Credits puts a node in front of each process and a wallet in front of each
// connection.
func Credits() Control { return told("credits", admission.Config{}) }

// CreditsRates is Credits with limits of workflows: the rates see that credits bind.
func CreditsRates() Control {
	return layered("credits+rates", admission.Config{Rates: &rates.Config{}})
}

// Whole is CreditsRates with an order of its own, at the nodes and in front of the
// resources: all layers.
func Whole(o schedule.Order) Control {
	return layered("credits+rates+"+o.String(), admission.Config{Rates: &rates.Config{}, Schedule: schedule.Config{Order: o}})
}

// layered is a node that knows the resources inside of its process.
func layered(name string, cfg admission.Config) Control {
	c := told(name, cfg)
	c.Queue = &cfg.Schedule
	return c
}

// told tells nodes how many threads their servers have, to begin with.
func told(name string, cfg admission.Config) Control {
	c := Gated(name, cfg, credit.WalletConfig{})
	c.Door = func(_ uint64, at Place) (baseline.Door, error) {
		cfg := watching(cfg, at)
		cfg.Slots.Initial = at.Threads
		return NewNode(cfg, at)
	}
	return c
}

// Gated is Credits with a configuration of one's own.
func Gated(name string, cfg admission.Config, wallet credit.WalletConfig) Control {
	c := Timeouts()
	c.Name = name
	c.Door = func(_ uint64, at Place) (baseline.Door, error) { return NewNode(cfg, at) }
	c.Sender = func(uint64, Place, Place) (baseline.Sender, error) { return baseline.NewWallet(wallet) }
	return c
}

// NewNode returns the node of a place. The objective, where there is none, and the epoch
// are those of the place.
func NewNode(cfg admission.Config, at Place) (*control.Node, error) {
	cfg.Credit.Epoch = uint32(at.Life + 1)
	if cfg.Objective == 0 {
		cfg.Objective = at.Objective
	}
	return control.New(control.Config{Config: cfg, Service: at.Service, Number: at.Number})
}

// Priorities admits by priority, at each process and each connection (DAGOR, Zhou
// et al., SoCC 2018).
func Priorities() Control {
	c := Timeouts()
	c.Name = "dagor"
	c.Door = func(_ uint64, at Place) (baseline.Door, error) {
		return dagor.New(dagor.Config{Slots: at.Threads})
	}
	c.Sender = func(seed uint64, from, _ Place) (baseline.Sender, error) {
		s := dagor.NewSender(seed)
		// All are welcome until a level was heard. The level by chance that it
		// starts with is for clients that send much on every connection.
		s.OnReply(0, nil, 0, baseline.Feedback{Level: int(work.MaxPriority)})
		return s, nil
	}
	return c
}

// Market admits who can pay the price of its workflow, at each process and each
// connection (Rajomon, Xing et al., NSDI 2025).
func Market() Control {
	c := Timeouts()
	c.Name = "rajomon"
	c.Door = func(_ uint64, at Place) (baseline.Door, error) {
		return rajomon.New(rajomon.Config{Slots: at.Threads})
	}
	c.Sender = func(uint64, Place, Place) (baseline.Sender, error) { return rajomon.NewSender(), nil }
	return c
}

// Modes are the controls that experiments compare.
func Modes() []Control {
	return []Control{None(), Timeouts(), Rates(rates.Config{}), RatesOrdered(schedule.EDF, rates.Config{}), RatesOrdered(schedule.LSTF, rates.Config{}), RatesFair(), Credits(), CreditsRates(), Priorities(), Market()}
}
