package live

import (
	"context"

	"github.com/spillgate/spillgate/internal/credit"
)

// TryAcquire returns the permit to send one request if a credit is free and
// nobody waits for one, else nil. It never waits: it is for callers that must
// not, such as a load balancer's choice. Of ctx it reads the tags alone.
func (w *Wallet) TryAcquire(ctx context.Context) *Permit {
	p := new(Permit)
	if !w.TryAcquireTo(ctx, p) {
		return nil
	}
	return p
}

// TryAcquireTo is TryAcquire for a caller that has room for a permit: see AcquireTo. It reports
// whether p is one now.
func (w *Wallet) TryAcquireTo(ctx context.Context, p *Permit) bool {
	p.begin(ctx, w)
	now := Now()
	if w.borrow(now, p) {
		return true
	}
	now = w.lock(now)
	if w.closed {
		w.mu.Unlock()
		return false
	}
	step, _ := w.core.Submit(now, &p.core)
	if step != credit.Send {
		w.core.Cancel(&p.core)
		w.unlock()
		return false
	}
	p.sent(now)
	w.finish(now)
	return true
}
