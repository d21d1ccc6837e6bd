package dagor

import (
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Sender is the client's policy: it drops, unsent, what the server's last level
// would refuse. It is not safe for concurrent use.
type Sender struct {
	baseline.NoTimer
	level int
}

var _ baseline.Sender = (*Sender)(nil)

// NewSender returns a client that has heard no level yet. Until then it takes
// one by chance, as dg_client.c does, so that many clients that connect at once
// do not all send everything.
func NewSender(seed uint64) *Sender {
	return &Sender{level: rand.New(rand.NewPCG(seed, 0)).IntN(levels)}
}

// Level returns the worst priority that is sent.
func (s *Sender) Level() int { return s.level }

// Submit sends the request or refuses it unsent.
func (s *Sender) Submit(_ mono.Time, _ *credit.Waiter, p work.Priority) (credit.Step, work.Reason) {
	if int(p) > s.level {
		return credit.Refuse, work.WalletFull
	}
	return credit.Send, work.None
}

// Next returns nil: nothing waits.
func (s *Sender) Next(mono.Time) (*credit.Waiter, credit.Step, work.Reason) {
	return nil, credit.Wait, work.None
}

// Cancel returns false.
func (s *Sender) Cancel(*credit.Waiter) bool { return false }

// Demand returns 0.
func (s *Sender) Demand() int { return 0 }

// OnReply takes the level of a reply. A level out of range is moved into it. That
// the client gave up is its own word, in which there is no level.
func (s *Sender) OnReply(_ mono.Time, _ *credit.Waiter, _ time.Duration, f baseline.Feedback) {
	if f.Reason == work.Canceled {
		return
	}
	s.level = min(max(f.Level, 0), levels-1)
}

// OnGrant does nothing.
func (s *Sender) OnGrant(mono.Time, wire.Grant) {}
