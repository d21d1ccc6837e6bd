package live

import (
	"context"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
)

// TryAcquire returns the permit to send one request if a credit is free and
// nobody waits for one, else nil. It never waits: it is for callers that must
// not, such as a load balancer's choice. Of ctx it reads the tags alone.
func (w *Wallet) TryAcquire(ctx context.Context) *Permit {
	p := w.permit(ctx)
	p.core.Deadline = mono.Never
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	now := Now()
	step, _ := w.core.Submit(now, &p.core)
	if step != credit.Send {
		w.core.Cancel(&p.core)
		w.mu.Unlock()
		return nil
	}
	p.sent(now)
	w.finish(now)
	return p
}
