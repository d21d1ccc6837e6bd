package schedule

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// The range of weights and shares. Only their ratios count; what is outside is
// refused, for the sake of whole nanoseconds in a quantum.
const (
	MinWeight = 0.001
	MaxWeight = 1000
)

// Config describes a Queue. Zero fields take the default named in their comment.
type Config struct {
	// Order rules inside a workflow, or inside a class without Fair. Default
	// FIFO.
	Order Order
	// Fair divides what a class gets among its workflows. Without it, all tasks
	// of a class are in one order, whatever their workflow.
	Fair bool
	// Workflows is the most workflows that Fair tells apart. Default 64, at most
	// 65,536. More of them share the default workflow. Queue.Ahead looks at all that
	// have tasks waiting, so many that wait cost time.
	Workflows int
	// Senders, if not 0, has the senders of a class, with Fair of a workflow, take turns, and is how many of them are
	// told apart while they have tasks waiting, at most 65,536, of which some share their turns from half of that on.
	// A task waits for as many rounds as its sender has tasks before it. Priority comes before turns; an order other than
	// FIFO rules among the tasks whose turns have come. Default 0: a sender that sends more gets more. Each class or
	// workflow in which two tasks wait at the same time takes 24 bytes for each sender, and 8 kB.
	Senders int
	// Quantum is what a share or weight of 1 may use in a round. Default 1 ms,
	// from 1 µs to 1 s. Smaller interleaves more finely and looks at shares more
	// often; larger lets one workflow run longer at a stretch.
	Quantum time.Duration
	// Aging is the age from which a task goes ahead of priority and order in its
	// workflow, the oldest first. Default 5 s: half of the time after which calls
	// in Wisp §6 give up, and longer than anybody waits behind a delay AQM.
	// Smaller makes more and more of an overloaded queue first in, first out;
	// larger lets the order starve a task for longer. Weights and shares need no
	// aging: each has its turn in every round.
	Aging time.Duration
	// Weights are what the classes start with. Default 1 each.
	Weights [work.NumClasses]float64
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Order >= numOrders {
		errs = append(errs, fmt.Errorf("schedule: Order is %d, expected one of FIFO, EDF, LSTF, SJF, SRTF, LASF", c.Order))
	}
	if c.Workflows < 0 || c.Workflows > 65536 {
		errs = append(errs, fmt.Errorf("schedule: Workflows is %d, expected 1 to 65536, or 0 for the default", c.Workflows))
	}
	if c.Senders < 0 || c.Senders > 65536 {
		errs = append(errs, fmt.Errorf("schedule: Senders is %d, expected 1 to 65536, or 0 for none", c.Senders))
	}
	if c.Quantum != 0 && (c.Quantum < time.Microsecond || c.Quantum > time.Second) {
		errs = append(errs, fmt.Errorf("schedule: Quantum is %v, expected 1µs to 1s, or 0 for the default", c.Quantum))
	}
	if c.Aging < 0 {
		errs = append(errs, fmt.Errorf("schedule: Aging is %v, expected above 0, or 0 for the default", c.Aging))
	}
	for class, w := range c.Weights {
		if w != 0 && !validWeight(w) {
			errs = append(errs, fmt.Errorf("schedule: Weights[%v] is %v, expected %v to %v, or 0 for the default", work.Class(class), w, MinWeight, MaxWeight))
		}
	}
	if len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	if c.Workflows == 0 {
		c.Workflows = 64
	}
	if c.Quantum == 0 {
		c.Quantum = time.Millisecond
	}
	if c.Aging == 0 {
		c.Aging = 5 * time.Second
	}
	for class := range c.Weights {
		if c.Weights[class] == 0 {
			c.Weights[class] = 1
		}
	}
	return c, nil
}

// validWeight is false for what is no number.
func validWeight(w float64) bool { return w >= MinWeight && w <= MaxWeight }
