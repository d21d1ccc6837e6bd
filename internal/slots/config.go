package slots

import (
	"errors"
	"fmt"
	"time"
)

// Config bounds a Limit. Zero fields take the default named in their comment.
type Config struct {
	// Slack is a tenth of the latency objective, in which residence times are judged. Required. Larger hides more of
	// the queue, and idles the server less.
	Slack time.Duration
	// Initial is the limit before anything was measured, in requests. Default 64. A larger one lets a burst in that
	// a small server takes long to work off, most of all where requests hold each other up; a smaller one refuses work
	// that a large server could do, for the few measuring windows in which it grows fourfold.
	Initial int
	// Min and Max bound the limit, in requests. Defaults 1 and 100,000. Equal values fix the limit.
	Min, Max int
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Slack <= 0 {
		errs = append(errs, fmt.Errorf("slots: Slack is %v, expected above 0: set it from the latency objective, for example 10 %% of it", c.Slack))
	}
	if c.Min < 0 || c.Max < 0 || c.Initial < 0 {
		errs = append(errs, fmt.Errorf("slots: Min, Initial, Max are %d, %d, %d, expected 1 or more requests, or 0 for the defaults", c.Min, c.Initial, c.Max))
	}
	if c.Min == 0 {
		c.Min = 1
	}
	if c.Max == 0 {
		c.Max = max(100_000, c.Min)
	}
	if c.Max < c.Min {
		errs = append(errs, fmt.Errorf("slots: Max is %d, expected at least Min, which is %d", c.Max, c.Min))
	}
	if c.Initial == 0 {
		c.Initial = min(max(64, c.Min), max(c.Max, c.Min))
	}
	if c.Initial < c.Min || c.Initial > c.Max {
		errs = append(errs, fmt.Errorf("slots: Initial is %d, expected between Min %d and Max %d", c.Initial, c.Min, c.Max))
	}
	return c, errors.Join(errs...)
}
