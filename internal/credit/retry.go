package credit

const (
	// RetryCost is how many successes pay for one retry: retries are at most a
	// tenth of them.
	RetryCost = 10
	// RetriesSaved is the most retries that are saved up. A refusal that hits many
	// requests at once is not answered by all the retries that an hour earned.
	RetriesSaved = 10
)

// RetryBudget bounds the retries of a client to a tenth of its successes, with at
// most ten saved up. The zero value is empty: before anything succeeded, a retry
// is not what is missing. It is not safe for concurrent use.
//
// Without a bound, refusals make load and load makes refusals: with r attempts a
// request, a server that is refusing gets r times what overloaded it.
type RetryBudget struct{ successes int }

// Earn notes a success.
func (b *RetryBudget) Earn() { b.successes = min(b.successes+1, RetryCost*RetriesSaved) }

// Spend takes one retry out of the budget and reports whether there was one.
func (b *RetryBudget) Spend() bool {
	if b.successes < RetryCost {
		return false
	}
	b.successes -= RetryCost
	return true
}
