package main

import (
	"time"

	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/proxy"
)

// topView is what `spillgate top` knows at one instant, and what --json prints.
type topView struct {
	At      time.Time   `json:"at"`
	Sources []topSource `json:"sources"`
}

// topSource is one source: applications whose tasks are watched, and gates.
type topSource struct {
	Name string `json:"source"`
	// Kind is guard, proxy, service, broker or task file; empty if it could not be read.
	Kind string `json:"kind,omitempty"`
	// Phase is that of a proxy or broker.
	Phase string `json:"phase,omitempty"`
	// Error says why it could not be read, and what to do.
	Error string `json:"error,omitempty"`
	// Apps have the form of a guard's status, whatever the source.
	Apps  []guard.Status `json:"apps,omitempty"`
	Gates []topGate      `json:"gates,omitempty"`
	// KeptOut are the kinds of requests that a guard has a proxy refuse.
	KeptOut []proxy.KeptOut `json:"kept_out,omitempty"`
	// Broker is nil unless the source is one.
	Broker *topBroker `json:"broker,omitempty"`
}

// topGate is one gate. Durations are in seconds.
type topGate struct {
	Name      string   `json:"gate"`
	Mode      string   `json:"mode"`
	Objective float64  `json:"slo_seconds"`
	Limit     int      `json:"slots_limit"`
	Running   int      `json:"running"`
	Waiting   int      `json:"waiting"`
	Delay     float64  `json:"delay_seconds"`
	Notes     []string `json:"notes,omitempty"`
	// Total counts since the gate began, Rate per second since the look before; Rate
	// is nil at the first look and after a restart.
	Total topFlow  `json:"total"`
	Rate  *topFlow `json:"per_second,omitempty"`
	// Culprit is the state of the gate's engine, empty if it looks for none.
	Culprit string `json:"culprit,omitempty"`
	// Cancelled and WouldCancel count culprits, Verdicts what came of cancels.
	Cancelled   float64            `json:"cancelled"`
	WouldCancel float64            `json:"would_cancel"`
	Verdicts    map[string]float64 `json:"verdicts,omitempty"`
}

// topFlow is what went through a gate: all requests, those that were done in time,
// and those refused, or in mode monitor to be refused, by reason.
type topFlow struct {
	Load  float64            `json:"load"`
	Good  float64            `json:"goodput"`
	Sheds map[string]float64 `json:"sheds,omitempty"`
	Would map[string]float64 `json:"would_shed,omitempty"`
}

// since returns the rates between two totals, nil if the gate began anew.
func (f topFlow) since(before topFlow, dt time.Duration) *topFlow {
	if dt <= 0 || f.Load < before.Load || f.Good < before.Good {
		return nil
	}
	s := dt.Seconds()
	per := func(now, before map[string]float64) map[string]float64 {
		out := map[string]float64{}
		for reason, n := range now {
			if d := n - before[reason]; d > 0 {
				out[reason] = d / s
			}
		}
		return out
	}
	return &topFlow{Load: (f.Load - before.Load) / s, Good: (f.Good - before.Good) / s, Sheds: per(f.Sheds, before.Sheds), Would: per(f.Would, before.Would)}
}

// rates fills in what takes two looks.
func (v *topView) rates(before *topView) {
	if before == nil {
		return
	}
	old := map[[2]string]topFlow{}
	brokers := map[string]*topBroker{}
	for _, s := range before.Sources {
		brokers[s.Name] = s.Broker
		for _, g := range s.Gates {
			old[[2]string{s.Name, g.Name}] = g.Total
		}
	}
	for i := range v.Sources {
		s := &v.Sources[i]
		if s.Broker != nil {
			s.Broker.since(brokers[s.Name], v.At.Sub(before.At))
		}
		for k := range s.Gates {
			if total, ok := old[[2]string{s.Name, s.Gates[k].Name}]; ok {
				s.Gates[k].Rate = s.Gates[k].Total.since(total, v.At.Sub(before.At))
			}
		}
	}
}
