package credit

import (
	"errors"
	"fmt"
	"time"
)

// WindowLimit is the largest window that can be configured or travel, in
// requests. Grants above it are treated as WindowLimit.
const WindowLimit = 1 << 16

// Config sizes a Pool. Zero fields take the default named in their comment.
type Config struct {
	// TargetDelay is the queueing delay the pool steers to. Required: it follows
	// from the service's latency objective, which no default can know.
	TargetDelay time.Duration
	// Objective is the latency objective that grants carry, for clients to know
	// what a wait for a credit is worth. Default 0: grants do not say.
	Objective time.Duration
	// Interval is the time between two changes of the pool. Default
	// TargetDelay/8, at least 10 µs: about one round trip when the objective is
	// ten times service plus round trip. Larger reacts later, smaller acts
	// again before the last change could be felt.
	Interval time.Duration
	// Additive is the growth per interval while the delay is under the target,
	// as a share of the number of clients; at least one credit. Default 0.001
	// (Breakwater §3.2). Larger fills idle capacity sooner and overshoots more.
	Additive float64
	// Decrease scales the cut while the delay is over the target: the pool is
	// multiplied by max(1 − Decrease·(d−target)/target, 0.5). Default 0.02
	// (Breakwater §3.2).
	Decrease float64
	// InitialWindow is what a client is granted when it connects to a server
	// whose delay is under target. Default 8; the original starts from zero.
	InitialWindow int
	// MinTotal is the smallest pool, in credits. Default 1; the original uses
	// the number of cores.
	MinTotal int
	// MaxWindow is the largest window of one client, in requests. Default
	// WindowLimit; the original has 64. A client over it waits.
	MaxWindow int
	// Lease is how long credits of a client that is not heard of stay with it
	// while others wait for some; and how long a client without credits waits
	// before it may ask again unasked. Default 64 intervals, at least 10 ms.
	Lease time.Duration
	// NoSpeculation grants exactly the demand that clients reported, and wakes
	// only clients with known demand: the "credit only" variant of the paper's
	// ablation. Clients must then report each appearance of demand.
	NoSpeculation bool
	// Epoch marks this life of the server on its grants. Any value; drivers
	// take a random one.
	Epoch uint32
}

// mistakes returns everything that is wrong with c.
func (c Config) mistakes() []error {
	var errs []error
	if c.TargetDelay <= 0 {
		errs = append(errs, fmt.Errorf("credit: TargetDelay is %v, expected above 0: set it from the latency objective, for example 40 %% of it", c.TargetDelay))
	}
	if c.Objective < 0 {
		errs = append(errs, fmt.Errorf("credit: Objective is %v, expected above 0, or 0 to say nothing", c.Objective))
	}
	if c.Interval < 0 {
		errs = append(errs, fmt.Errorf("credit: Interval is %v, expected above 0, or 0 for the default", c.Interval))
	}
	if c.Additive < 0 || c.Additive > 1 || c.Additive != c.Additive {
		errs = append(errs, fmt.Errorf("credit: Additive is %v, expected 0 to 1 credits per client and interval", c.Additive))
	}
	if c.Decrease < 0 || c.Decrease > 1 || c.Decrease != c.Decrease {
		errs = append(errs, fmt.Errorf("credit: Decrease is %v, expected 0 to 1", c.Decrease))
	}
	if c.MaxWindow < 0 || c.MaxWindow > WindowLimit {
		errs = append(errs, fmt.Errorf("credit: MaxWindow is %d, expected 1 to %d requests, or 0 for the default", c.MaxWindow, WindowLimit))
	}
	if c.InitialWindow < 0 || c.InitialWindow > WindowLimit {
		errs = append(errs, fmt.Errorf("credit: InitialWindow is %d, expected 0 to %d requests", c.InitialWindow, WindowLimit))
	}
	if c.MinTotal < 0 {
		errs = append(errs, fmt.Errorf("credit: MinTotal is %d, expected 1 or more credits, or 0 for the default", c.MinTotal))
	}
	if c.Lease < 0 {
		errs = append(errs, fmt.Errorf("credit: Lease is %v, expected above 0, or 0 for the default", c.Lease))
	}
	return errs
}

// withDefaults returns c with defaults filled in, or all mistakes at once.
func (c Config) withDefaults() (Config, error) {
	if errs := c.mistakes(); len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	if c.Interval == 0 {
		c.Interval = max(c.TargetDelay/8, 10*time.Microsecond)
	}
	if c.Additive == 0 {
		c.Additive = 0.001
	}
	if c.Decrease == 0 {
		c.Decrease = 0.02
	}
	if c.MaxWindow == 0 {
		c.MaxWindow = WindowLimit
	}
	if c.InitialWindow == 0 {
		c.InitialWindow = min(8, c.MaxWindow)
	}
	if c.MinTotal == 0 {
		c.MinTotal = 1
	}
	if c.Lease == 0 {
		c.Lease = max(64*c.Interval, 10*time.Millisecond)
	}
	return c, nil
}
