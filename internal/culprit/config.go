package culprit

import (
	"errors"
	"fmt"
	"time"
)

// Config sets up an Engine. Zero fields take the default named in their
// comment.
type Config struct {
	// Objective is the latency that the foreground must meet. Required.
	Objective time.Duration
	// Mode is Monitor by default.
	Mode Mode
	// MinAge is the age below which no task is cancelled, but those of a limited
	// kind, which would not have begun. Default: Objective, because a younger task can
	// still be one that meets it.
	MinAge time.Duration
	// Clear is the share of the lost time that the pick must be to blame for.
	// Default 0.5: more than all the others together. Larger cancels less.
	Clear float64
	// PerSecond and PerMinute cap the cancels. Defaults 10 and 60.
	PerSecond, PerMinute int
	// PerCompletion caps the cancels as a share of what ended in the foreground
	// since the engine began. The first PerSecond cancels are free of it,
	// or a server that stalls at once could not be helped. Default 0.01.
	PerCompletion float64
	// Trip is how many cancels in a row may bring no relief before the engine
	// gives up. Default 3.
	Trip int
	// Rearm is how long the objective must be met after that. Default 1 min.
	Rearm time.Duration
	// LimitFor is how long no task of the kind of a cancelled one may begin; one that
	// does and hogs a resource is cancelled at once. Default 1 min. Kinds that victims have as well are not limited.
	LimitFor time.Duration
	// Choice is how the culprit is told from the other tasks. Default Weighed; the
	// others exist to be compared with.
	Choice Choice
	// Candidates is how many tasks a Decision lists. Default 8, at most 64.
	Candidates int
}

// Choice is a way to choose among the tasks.
type Choice uint8

const (
	// Weighed adds up the gains on every resource, each with the time lost to it.
	Weighed Choice = iota
	// Greedy looks at the resource that costs most alone: the simple policy that
	// section 3.5 of the paper starts from.
	Greedy
	// Present takes what a task uses now for what it will use.
	Present
	choices
)

// Limits of a sample. Beyond them the engine only watches, as if blind: its
// memory and time are bounded by them.
const (
	MaxTasks     = 1 << 13
	MaxResources = 1 << 7
	MaxHolds     = 1 << 17
	MaxEdges     = 1 << 17
)

// Check reports every mistake of the configuration.
func (c Config) Check() error {
	var errs []error
	wrong := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("culprit: %s is %v; expected %s", name, value, want))
		}
	}
	wrong(c.Objective > 0, "Objective", c.Objective, "a positive duration, such as 100ms")
	wrong(c.Mode < modes, "Mode", uint8(c.Mode), "Monitor, Enforce or Off")
	wrong(c.Choice < choices, "Choice", uint8(c.Choice), "Weighed, Greedy or Present")
	wrong(c.MinAge >= 0, "MinAge", c.MinAge, "a duration of 0 or more")
	wrong(c.Clear == 0 || c.Clear > 0 && c.Clear <= 1, "Clear", c.Clear, "a share above 0 and up to 1")
	wrong(c.PerSecond >= 0, "PerSecond", c.PerSecond, "a number of 0 or more")
	wrong(c.PerMinute >= 0, "PerMinute", c.PerMinute, "a number of 0 or more")
	wrong(c.PerCompletion == 0 || c.PerCompletion > 0 && c.PerCompletion <= 1, "PerCompletion", c.PerCompletion, "a share above 0 and up to 1")
	wrong(c.Trip >= 0, "Trip", c.Trip, "a number of 0 or more")
	wrong(c.Rearm >= 0, "Rearm", c.Rearm, "a duration of 0 or more")
	wrong(c.LimitFor >= 0, "LimitFor", c.LimitFor, "a duration of 0 or more")
	wrong(c.Candidates >= 0 && c.Candidates <= 64, "Candidates", c.Candidates, "a number from 0 to 64")
	return errors.Join(errs...)
}

// filled returns c with its defaults.
func (c Config) filled() Config {
	set(&c.MinAge, c.Objective)
	set(&c.Clear, 0.5)
	set(&c.PerSecond, 10)
	set(&c.PerMinute, 60)
	set(&c.PerCompletion, 0.01)
	set(&c.Trip, 3)
	set(&c.Rearm, time.Minute)
	set(&c.LimitFor, time.Minute)
	set(&c.Candidates, 8)
	return c
}

// set gives a zero field its default.
func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
