package rajomon

import (
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Sender is a caller's policy for one process: it drops, unsent, what cannot pay
// the price last heard there for its workflow. It is not safe for concurrent use.
type Sender struct {
	baseline.NoTimer
	prices map[string]int
}

var _ baseline.Sender = (*Sender)(nil)

// NewSender returns a caller that has heard no price and sends everything.
func NewSender() *Sender { return &Sender{prices: map[string]int{}} }

// Price returns the price last heard for a workflow.
func (s *Sender) Price(workflow string) int { return s.prices[workflow] }

// Submit sends the request or refuses it unsent.
func (s *Sender) Submit(_ mono.Time, w *credit.Waiter, p work.Priority) (credit.Step, work.Reason) {
	if tokens(p) < s.prices[workflowOf(w)] {
		return credit.Refuse, work.WalletFull
	}
	return credit.Send, work.None
}

// workflowOf returns the workflow of a request, "" if its owner knows none.
func workflowOf(w *credit.Waiter) string {
	if o, ok := w.Owner.(baseline.Labeled); ok {
		return o.Workflow()
	}
	return ""
}

// Next returns nil: nothing waits.
func (s *Sender) Next(mono.Time) (*credit.Waiter, credit.Step, work.Reason) {
	return nil, credit.Wait, work.None
}

// Cancel returns false.
func (s *Sender) Cancel(*credit.Waiter) bool { return false }

// Demand returns 0.
func (s *Sender) Demand() int { return 0 }

// OnReply takes the price of a reply. A price out of range is moved into it.
// That the caller gave up is its own word, in which there is no price.
func (s *Sender) OnReply(_ mono.Time, w *credit.Waiter, _ time.Duration, f baseline.Feedback) {
	if f.Reason != work.Canceled {
		s.prices[workflowOf(w)] = bounded(f.Level)
	}
}

// OnGrant does nothing.
func (s *Sender) OnGrant(mono.Time, wire.Grant) {}
