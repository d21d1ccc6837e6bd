package work

// Reason says why a request was refused. Reasons are metric labels, test
// output and wire values: their names and numbers are stable, and new ones are
// added at the end.
type Reason uint8

// The reasons, in the order in which a request can meet them on its way.
const (
	// None: the request was not refused.
	None Reason = iota
	// WalletFull: the client's bounded queue for credits dropped its oldest
	// request. Nothing was sent.
	WalletFull
	// WalletExpired: the request waited at the client for a credit until it
	// could no longer meet its deadline. Nothing was sent.
	WalletExpired
	// RetryBudget: the attempt was a retry beyond the client's retry budget.
	// Nothing was sent.
	RetryBudget
	// Expired: no budget was left when the request reached the gate, or when
	// its turn came.
	Expired
	// Infeasible: the budget left was shorter than the expected wait and
	// service, so serving the request would be in vain.
	Infeasible
	// Delay: the queueing delay was above the threshold of the delay AQM.
	Delay
	// QueueFull: the gate's queue held as many requests as its limit.
	QueueFull
	// Share: the client held more than its fair share while others waited, or
	// more than the window it was granted.
	Share
	// Draining: the server is going away and takes no new requests.
	Draining
	// Canceled: the caller gave up while the request waited.
	Canceled
	// Downstream: a service further down the call graph refused.
	Downstream
	// Rate: the workflow sent more than its rate, and what waits of it already
	// would have kept the request waiting for too long.
	Rate
	// Culprit: the request was cancelled because others waited for what it held, or it
	// is of the kind of one that was cancelled a moment ago.
	Culprit

	numReasons
)

// NumReasons is the number of reasons; a Reason below it is valid.
const NumReasons = int(numReasons)

var reasonNames = [...]string{
	None:          "none",
	WalletFull:    "wallet_full",
	WalletExpired: "wallet_expired",
	RetryBudget:   "retry_budget",
	Expired:       "expired",
	Infeasible:    "infeasible",
	Delay:         "delay",
	QueueFull:     "queue_full",
	Share:         "share",
	Draining:      "draining",
	Canceled:      "canceled",
	Downstream:    "downstream",
	Rate:          "rate",
	Culprit:       "culprit",
}

// String returns the metric label of r.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// Retryable reports whether a later attempt can succeed where this one did not:
// nothing was executed, and what stood in the way passes. A request out of time
// or out of retries is not retryable. Of a Culprit it is true where none of it ran;
// one that was cancelled while it ran says so itself.
func (r Reason) Retryable() bool {
	switch r {
	case WalletFull, Delay, QueueFull, Share, Draining, Rate, Culprit:
		return true
	}
	return false
}

// Sent reports whether the request left the client before it was refused.
func (r Reason) Sent() bool {
	switch r {
	case WalletFull, WalletExpired, RetryBudget:
		return false
	}
	return true
}
