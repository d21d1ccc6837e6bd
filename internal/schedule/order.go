package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Order says which task of a workflow goes first. Priority comes before every
// order, and equals go by arrival, then in the order in which they were pushed.
// All keys stand still while a task waits, so that a heap is exact.
type Order uint8

const (
	// FIFO: first in, first out.
	FIFO Order = iota
	// EDF: the earliest deadline first.
	EDF
	// LSTF: the least slack first, deadline less remaining service (Wisp §4.3).
	// Without a known remainder a task goes by its deadline.
	LSTF
	// SJF: the shortest total work first. An unknown total counts as the cost
	// at this resource.
	SJF
	// SRTF: the shortest remaining service first. An unknown remainder counts
	// as the cost at this resource.
	SRTF
	// LASF: the least work so far first, for work of unknown size.
	LASF

	numOrders
)

var orderNames = [...]string{FIFO: "fifo", EDF: "edf", LSTF: "lstf", SJF: "sjf", SRTF: "srtf", LASF: "lasf"}

// String returns the name of o as configuration has it.
func (o Order) String() string {
	if o < numOrders {
		return orderNames[o]
	}
	return "unknown"
}

// ByDeadline reports whether the time that is left says who goes first, so that a short
// budget makes for a short wait.
func (o Order) ByDeadline() bool { return o == EDF || o == LSTF }

// ParseOrder returns the order of that name, in lower or upper case.
func ParseOrder(text string) (Order, error) {
	for o, name := range orderNames {
		if strings.EqualFold(text, name) {
			return Order(o), nil
		}
	}
	return FIFO, fmt.Errorf("schedule: order is %.40q, expected one of %s", text, strings.Join(orderNames[:], ", "))
}

// key returns t's place in o, smallest first. It saturates.
func (o Order) key(t *Task) int64 {
	switch o {
	case EDF:
		return int64(t.Deadline)
	case LSTF:
		return int64(t.latest())
	case SJF:
		return known(t.Total, t.Cost)
	case SRTF:
		return known(t.Remaining, t.Cost)
	case LASF:
		return int64(max(t.Done, 0))
	}
	return int64(t.Arrived)
}

// latest returns the instant at which t must start to end at its deadline.
func (t *Task) latest() mono.Time { return t.Deadline.Add(-max(t.Remaining, 0)) }

// lost returns the first instant at which t cannot meet its deadline any more:
// it has passed, or is nearer than the service that surely remains.
func (t *Task) lost() mono.Time {
	if t.Deadline == mono.Never {
		return mono.Never
	}
	at := t.latest()
	if t.Least > 0 && t.Least < t.Remaining {
		at = t.Deadline.Add(-t.Least)
	}
	return min(t.Deadline, at.Add(1))
}

func known(d, otherwise time.Duration) int64 {
	if d > 0 {
		return int64(d)
	}
	return int64(max(otherwise, 0))
}
