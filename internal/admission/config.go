package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
)

// Config describes a Gate. Only Objective is required; zero fields take the
// default named in their comment.
type Config struct {
	// Objective is the latency objective of the service: the time from arrival to answer
	// that callers should see. Required.
	Objective time.Duration
	// TargetDelay is the queueing delay that credits steer to. Default 40 % of
	// the objective (Breakwater §5).
	TargetDelay time.Duration
	// MaxDelay is the queueing delay above which the delay AQM refuses. Default
	// twice TargetDelay, or less where the service time leaves less.
	MaxDelay time.Duration
	// QueueLimit is the most requests that wait, a bound on memory: the AQM
	// refuses long before. Default 10,000. One more is refused as QueueFull. With
	// Hold as many again may wait aside.
	QueueLimit int
	// Slots bounds the running requests. By default the limit adapts; Slack
	// follows from the objective.
	Slots slots.Config
	// Schedule is the order in which requests wait for a slot: by class, by
	// workflow, by deadline or progress. Default first in, first out, classes with
	// equal weights.
	Schedule schedule.Config
	// Rates, if not nil, limits each workflow at this process to what it and those
	// that it calls can do. The slots are its first resource; those in
	// Rates.Resources, which may be empty, come after. Default nil: no limits.
	Rates *rates.Config
	// Credit sizes the credit pool. TargetDelay is taken from above.
	Credit credit.Config
	// Hold, if not 0, is for how long requests are kept that the delay AQM would refuse,
	// when suddenly nothing ends any more, until OnCulprit says whether one request is to
	// blame: the time that a driver needs which looks for culprits and cancels them.
	// Longer keeps more of the victims of slow culprits, and requests wait longer in vain
	// where there is none. Default 0: none is kept.
	Hold time.Duration
	// NoCredit leaves the pool out: every client is a plain client.
	NoCredit bool
	// NoAQM refuses only what is expired or over QueueLimit: a part of the
	// paper's ablation, of no use otherwise.
	NoAQM bool
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Objective <= 0 {
		errs = append(errs, fmt.Errorf("admission: Objective is %v, expected above 0: the latency objective, for example 100ms", c.Objective))
	}
	if c.TargetDelay < 0 || c.Objective > 0 && c.TargetDelay > c.Objective {
		errs = append(errs, fmt.Errorf("admission: TargetDelay is %v, expected above 0 and at most the objective %v, or 0 for the default", c.TargetDelay, c.Objective))
	}
	if c.MaxDelay < 0 {
		errs = append(errs, fmt.Errorf("admission: MaxDelay is %v, expected above 0, or 0 for the default", c.MaxDelay))
	}
	if c.Hold < 0 {
		errs = append(errs, fmt.Errorf("admission: Hold is %v, expected above 0, or 0 to keep nothing", c.Hold))
	}
	if c.QueueLimit < 0 {
		errs = append(errs, fmt.Errorf("admission: QueueLimit is %d, expected 1 or more requests, or 0 for the default", c.QueueLimit))
	}
	if len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	if c.TargetDelay == 0 {
		c.TargetDelay = c.Objective * 2 / 5
	}
	if c.MaxDelay == 0 {
		c.MaxDelay = 2 * c.TargetDelay
	}
	if c.QueueLimit == 0 {
		c.QueueLimit = 10_000
	}
	if c.Slots.Slack == 0 {
		c.Slots.Slack = max(c.Objective/10, 1)
	}
	c.Credit.TargetDelay, c.Credit.Objective = c.TargetDelay, c.Objective
	return c, nil
}
