package engine

import (
	"fmt"
	"math"
)

const (
	// maxRate is the highest rate of a limit, in messages/s. More than any one
	// process carries; a topic without a limit should have none.
	maxRate = 1e9
	// maxBurst is the largest burst of a limit, in messages.
	maxBurst = 1e9
	// defaultQueue is how many messages wait for a token when a limit does not say.
	defaultQueue = 10_000
	// maxQueue is the most messages that a limit may let wait.
	maxQueue = 10_000_000
	// defaultQueueBytes is how many bytes of messages wait when a limit does not say.
	defaultQueueBytes = 16 << 20
	// MaxLimits is the most limits: the first message to a topic looks at each.
	MaxLimits = 1000
)

// Limit holds the topics of a filter to a rate. The first limit whose filter
// matches a topic counts.
type Limit struct {
	// Filter matches the topics, or is the name of one. Required.
	Filter string
	// Rate is the tokens that come in a second; a message takes one. Required, above
	// 0, at most 1e9.
	Rate float64
	// Burst is the most tokens that are kept, for messages that come together.
	// Required, 1 to 1e9; fractions count. Larger delays fewer messages and lets
	// more through at once.
	Burst float64
	// Police refuses what finds no token instead of letting it wait.
	Police bool
	// Shared lets all topics of the filter take from one bucket. Default: each has a
	// bucket of its own.
	Shared bool
	// Queue is the most messages that wait in one bucket's queue. Default 10,000.
	// What comes beyond is refused. Larger holds longer bursts and delays more.
	Queue int
	// QueueBytes is the most bytes that wait there. Default 16 MiB.
	QueueBytes int
}

func (l Limit) withDefaults() Limit {
	if l.Queue == 0 {
		l.Queue = defaultQueue
	}
	if l.QueueBytes == 0 {
		l.QueueBytes = defaultQueueBytes
	}
	return l
}

// Check calls wrong for every mistake in l: the field as configuration files name
// it, what was found and what was expected.
func (l Limit) Check(wrong func(field, value, want string)) {
	if l.Filter == "" {
		wrong("filter", "", "a topic or a filter, for example plant/+/alarm")
	} else if err := CheckFilter(l.Filter); err != nil {
		wrong("filter", err.Error(), "a topic or a filter, for example plant/+/alarm")
	}
	if !(l.Rate > 0 && l.Rate <= maxRate) {
		wrong("rate", fmt.Sprint(l.Rate), "messages a second, above 0 and at most 1e9; leave the limit out to limit nothing")
	}
	if !(l.Burst >= 1 && l.Burst <= maxBurst) || math.IsNaN(l.Burst) {
		wrong("burst", fmt.Sprint(l.Burst), "1 to 1e9 messages: below 1 no message would ever find a whole token")
	}
	if l.Queue < 0 || l.Queue > maxQueue {
		wrong("queue", fmt.Sprint(l.Queue), fmt.Sprintf("1 to %d messages, or 0 for the default", maxQueue))
	}
	if l.QueueBytes < 0 || l.QueueBytes > 1<<34 {
		wrong("queue_bytes", fmt.Sprint(l.QueueBytes), "1 to 17179869184 bytes, or 0 for the default")
	}
}
