package credit

import "github.com/spillgate/spillgate/internal/mono"

// Lend returns a server whose free credits, its Limit less what is Outstanding, a driver may count, give out and take back by itself
// until Settle, which comes before the next call that changes the wallet. The last free one it leaves to Submit: from when that is sent on
// the silence of a server counts whose window is used up. It returns nil where requests need the wallet: one waits, there
// are several servers or none, or the server has not said what it grants.
func (l *Wallet) Lend() *Window {
	if l.len > 0 || l.parted || l.spoken || len(l.offers.servers) != 1 || l.offers.servers[0].state == unknown {
		return nil
	}
	return l.offers.servers[0]
}

// Settle ends what Lend began: so many requests are outstanding at w now.
func (l *Wallet) Settle(w *Window, outstanding int) {
	w.outstanding = outstanding
	l.offers.changed(w)
}

// Sent notes in r that it was sent to w with a credit that was lent. The credit goes back to the driver, or by Return.
func (w *Window) Sent(now mono.Time, r *Waiter) { r.window, r.since, r.asked = w, now, false }
