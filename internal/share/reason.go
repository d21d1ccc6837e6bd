package share

// Reason says why the weight was changed or left. Reasons are metric labels and
// test output: their names and numbers are stable, and new ones are added at the
// end.
type Reason uint8

const (
	// Early: the period is not over. The weight stays.
	Early Reason = iota
	// Few: one class did not arrive in this period, or completed too few requests to
	// tell. The weight stays.
	Few
	// Steady: the weight is within the dead band of what is wanted. It stays.
	Steady
	// Mean: up, because the mean slowdown of interactive requests is above Ratio.
	Mean
	// Tail: up, because their p95 slowdown is.
	Tail
	// Impatience: up, because too many interactive callers give up.
	Impatience
	// Harm: down, because default requests are slower than MaxHarm allows.
	Harm
	// Loss: down, because too many default callers give up.
	Loss
	// Ease: down, because the target is met with more weight than it takes.
	Ease
	// Neutral: up, because the weight is below the one at which no class is
	// favoured.
	Neutral

	numReasons
)

// NumReasons is the number of reasons; a Reason below it is valid.
const NumReasons = int(numReasons)

var reasonNames = [...]string{
	Early:      "early",
	Few:        "few",
	Steady:     "steady",
	Mean:       "mean",
	Tail:       "tail",
	Impatience: "impatience",
	Harm:       "harm",
	Loss:       "loss",
	Ease:       "ease",
	Neutral:    "neutral",
}

// String returns the metric label of r.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Changes reports whether the weight was changed for this reason.
func (r Reason) Changes() bool { return r > Steady && int(r) < NumReasons }

// Decision is what OnWake answers.
type Decision struct {
	// Weight is the interactive class's: the probability with which its queue is
	// taken while both hold something, or its share of the server then. The default
	// class has the rest.
	Weight float64
	// Reason says why Weight is what it is.
	Reason Reason
	// Want is the weight that is being gone to, one MaxStep a period.
	Want float64
	// Neutral is the weight at which both classes wait as long as in one FIFO
	// queue, the lower end of what is wanted. It is not the class's share of
	// the load: where that is small, the queue is often empty when its turn comes,
	// and its weight must be larger.
	Neutral float64
}
