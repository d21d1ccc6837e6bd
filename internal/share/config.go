package share

import (
	"errors"
	"fmt"
	"time"
)

// MinWeight is the smallest weight of the interactive class. At 5 % a request of
// that class waits for at most some twenty others.
const MinWeight = 0.05

// DefaultPeriod is Config.Period where it is 0.
const DefaultPeriod = time.Second

// Config sets what a Controller aims at. The zero Config is a good start for one
// server.
type Config struct {
	// Servers is how many requests are worked on at once. Default 1. It turns
	// measured service times into utilization.
	Servers float64
	// Period is the time between two changes. Default 1 s. Larger is steadier;
	// smaller sees fewer requests a period and reacts to chance.
	Period time.Duration
	// Ratio is how much interactive requests may be slowed down, as a share of the
	// slowdown of default ones; a slowdown is latency ÷ isolated time. Mean and p95
	// must both be under it. Default 0.5. 1 asks for no more than FIFO gives where
	// all servers are alike; smaller favours interactive requests more, up to
	// what MaxHarm allows or priority can do. By the conservation law 0.5 takes
	// 1/(2+r) off their latency, r being their work over the others': from a half
	// down to 37 % where r is 0.71, and the default MaxHarm pays for no more.
	Ratio float64
	// MaxHarm is how much longer the default class's mean latency may be than in one
	// FIFO queue, as a share of that. Default 0.25; negative is 0.
	MaxHarm float64
	// MaxLoss is how much more of the default class may give up than in one FIFO
	// queue, as a share of its requests. Default 0.01; negative is 0.
	MaxLoss float64
	// MaxImpatience is how much of the interactive class may give up before its
	// weight is raised although Ratio is met, as a share of its requests. Default
	// 0.01. Larger leaves more to the default class.
	MaxImpatience float64
	// Patience is how long interactive callers wait for the whole request, and
	// DefaultPatience how long default ones wait in this queue. nil, the default,
	// learns them from cancelled requests and deadlines.
	Patience, DefaultPatience Patience
	// MaxWeight is the largest weight, up to 1. Default 0.95: some of the server is
	// left to the default class whatever the estimates say.
	MaxWeight float64
	// MaxStep is the largest change of the weight in a period, as a share of it.
	// Default 0.1.
	MaxStep float64
	// DeadBand is how far the weight may be from what is wanted, as a share of it,
	// without being changed. Default 0.05. Smaller follows chance. A weight
	// that breaks a guard is changed at a fifth of it.
	DeadBand float64
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	between := func(name string, v *float64, low, high, standard float64) {
		switch {
		case *v == 0:
			*v = standard
		case !(*v >= low && *v <= high):
			errs = append(errs, fmt.Errorf("share: %s is %v, expected %v to %v, or 0 for the default", name, *v, low, high))
		}
	}
	orNone := func(name string, v *float64, high, standard float64) {
		switch {
		case *v == 0:
			*v = standard
		case *v < 0:
			*v = 0
		case !(*v <= high):
			errs = append(errs, fmt.Errorf("share: %s is %v, expected up to %v, negative for none, or 0 for the default", name, *v, high))
		}
	}
	between("Servers", &c.Servers, 1, 1e6, 1)
	between("Ratio", &c.Ratio, 0.01, 100, 0.5)
	orNone("MaxHarm", &c.MaxHarm, 100, 0.25)
	orNone("MaxLoss", &c.MaxLoss, 1, 0.01)
	between("MaxImpatience", &c.MaxImpatience, 0.0001, 1, 0.01)
	between("MaxWeight", &c.MaxWeight, MinWeight, 1, 0.95)
	between("MaxStep", &c.MaxStep, 0.001, 1, 0.1)
	between("DeadBand", &c.DeadBand, 0.001, 1, 0.05)
	if c.Period == 0 {
		c.Period = DefaultPeriod
	} else if c.Period < time.Millisecond || c.Period > time.Hour {
		errs = append(errs, fmt.Errorf("share: Period is %v, expected 1ms to 1h, or 0 for the default", c.Period))
	}
	if err := c.Patience.Check(); err != nil {
		errs = append(errs, fmt.Errorf("share: Patience: %w", err))
	}
	if err := c.DefaultPatience.Check(); err != nil {
		errs = append(errs, fmt.Errorf("share: DefaultPatience: %w", err))
	}
	// The caller's slices may change; what a policy decides by may not.
	c.Patience = append(Patience(nil), c.Patience...)
	c.DefaultPatience = append(Patience(nil), c.DefaultPatience...)
	return c, errors.Join(errs...)
}
