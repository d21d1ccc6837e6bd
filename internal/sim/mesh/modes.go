package mesh

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/baseline/dagor"
	"github.com/spillgate/spillgate/internal/baseline/rajomon"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/work"
)

// None is no control at all: clients wait for ever late answers.
func None() Control { return Control{Name: "none"} }

// Timeouts gives up at deadlines, and cancels what was called for it.
func Timeouts() Control { return Control{Name: "timeouts", GiveUp: true, Cancel: true} }

// Rates limits workflows along the call graph, and serves in order of arrival.
func Rates() Control {
	c := Timeouts()
	c.Name, c.Rates = "rates", &rates.Config{}
	return c
}

// RatesOrdered limits workflows, and serves in an order.
func RatesOrdered(o schedule.Order) Control {
	c := Rates()
	c.Name, c.Queue = "rates+"+o.String(), &schedule.Config{Order: o}
	return c
}

// RatesFair limits workflows, and lets them share each resource fairly.
func RatesFair() Control {
	c := Rates()
	c.Name, c.Queue = "rates+fair", &schedule.Config{Fair: true}
	return c
}

// Credits puts a gate in front of each process and a wallet in front of each
// connection.
func Credits() Control { return gated("credits", admission.Config{}, credit.WalletConfig{}, true) }

// Gated is Credits with a configuration of one's own. The objective, where there is none,
// and the epoch are those of the place.
func Gated(name string, gate admission.Config, wallet credit.WalletConfig) Control {
	return gated(name, gate, wallet, false)
}

// gated may tell the gate how many threads its server has.
func gated(name string, gate admission.Config, wallet credit.WalletConfig, told bool) Control {
	c := Timeouts()
	c.Name = name
	c.Door = func(_ uint64, at Place) (baseline.Door, error) {
		cfg := gate
		cfg.Credit.Epoch = uint32(at.Life + 1)
		if cfg.Objective == 0 {
			cfg.Objective = at.Objective
		}
		if told {
			cfg.Slots = slots.Config{Initial: at.Threads}
		}
		return baseline.NewGate(cfg)
	}
	c.Sender = func(uint64, Place, Place) (baseline.Sender, error) { return baseline.NewWallet(wallet) }
	return c
}

// CreditsRates is Credits and Rates: the rates see that credits bind.
func CreditsRates() Control {
	c := Credits()
	c.Name, c.Rates = "credits+rates", &rates.Config{}
	return c
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
	return []Control{None(), Timeouts(), Rates(), RatesOrdered(schedule.EDF), RatesOrdered(schedule.LSTF), RatesFair(), Credits(), CreditsRates(), Priorities(), Market()}
}
