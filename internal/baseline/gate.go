package baseline

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Gate is Spillgate's own Door: an admission.Gate with its credit pool.
type Gate struct {
	*admission.Gate
}

var _ Door = Gate{}

// NewGate returns an open gate, or every mistake in cfg.
func NewGate(cfg admission.Config) (Gate, error) {
	g, err := admission.New(cfg)
	return Gate{g}, err
}

// Connect registers a client with the credit pool, or returns nil if the gate
// has none.
func (g Gate) Connect(now mono.Time) *credit.Client {
	if g.Config().NoCredit {
		return nil
	}
	return g.Pool().Register(now)
}

// Disconnect gives the credits of c back to the pool.
func (g Gate) Disconnect(now mono.Time, c *credit.Client) {
	if c != nil {
		g.Pool().Deregister(now, c)
	}
}

// OnDemand passes demand that came without a request to the pool.
func (g Gate) OnDemand(now mono.Time, c *credit.Client, demand int) {
	if c != nil {
		g.Pool().OnDemand(now, c, demand)
	}
}

// Feedback is the grant for the reply to t, why t was refused, and for how long.
func (g Gate) Feedback(now mono.Time, t *admission.Ticket) Feedback {
	f := Feedback{Reason: t.Reason()}
	if f.Shed() {
		f.Pushback = g.Pushback(now, t)
	}
	f.Grant, f.HasGrant = g.Reply(now, t)
	return f
}

// NextGrant names the clients that get a grant without a reply, one a call, until false.
func (g Gate) NextGrant() (*credit.Client, wire.Grant, bool) { return g.Pool().NextGrant() }

// Wallet is Spillgate's own Sender: a credit.Wallet that knows one server.
type Wallet struct {
	wallet *credit.Wallet
	window *credit.Window
}

var _ Sender = (*Wallet)(nil)

// NewWallet returns a wallet connected to one server, or every mistake in cfg.
func NewWallet(cfg credit.WalletConfig) (*Wallet, error) {
	l, err := credit.NewWallet(cfg)
	if err != nil {
		return nil, err
	}
	return &Wallet{wallet: l, window: l.Open()}, nil
}

// Window returns the client's account at its server, for looking at.
func (s *Wallet) Window() *credit.Window { return s.window }

// Submit sends the request if a credit is free, else it waits for one. Priority
// plays no part.
func (s *Wallet) Submit(now mono.Time, w *credit.Waiter, _ work.Priority) (credit.Step, work.Reason) {
	return s.wallet.Submit(now, w)
}

// Next names the waiters that leave the wallet.
func (s *Wallet) Next(now mono.Time) (*credit.Waiter, credit.Step, work.Reason) {
	return s.wallet.Next(now)
}

// Cancel takes a waiter out of the wallet.
func (s *Wallet) Cancel(w *credit.Waiter) bool { return s.wallet.Cancel(w) }

// Demand is the number of waiting requests.
func (s *Wallet) Demand() int { return s.wallet.Demand() }

// NextDemand returns demand to be told to the server although no request carries
// it, until false.
func (s *Wallet) NextDemand(now mono.Time) (int, bool) {
	_, demand, ok := s.wallet.NextDemand(now)
	for ok && demand == credit.Unheard {
		_, demand, ok = s.wallet.NextDemand(now)
	}
	return demand, ok
}

// OnLost gives back the credit of a request whose answer will never come.
func (s *Wallet) OnLost(w *credit.Waiter) { s.wallet.Return(w, 0) }

// Reset forgets what the server granted, after a reconnect; what waits stays.
func (s *Wallet) Reset() { s.wallet.Reset(s.window) }

// OnReply banks the grant of a reply and gives the request's credit back.
func (s *Wallet) OnReply(now mono.Time, w *credit.Waiter, rtt time.Duration, f Feedback) {
	if f.HasGrant {
		s.wallet.OnGrant(now, s.window, f.Grant)
		s.wallet.OnPart(w, f.Grant.Part)
	} else if w.Asked() {
		s.wallet.OnPlainReply(s.window)
	}
	if f.Reason != work.None {
		rtt = 0 // a refusal says nothing about the service time
	}
	s.wallet.Return(w, rtt)
}

// OnGrant takes a grant that came without a reply.
func (s *Wallet) OnGrant(now mono.Time, g wire.Grant) { s.wallet.OnGrant(now, s.window, g) }

// NextWake is when a waiter expires or the server may be asked unasked.
func (s *Wallet) NextWake() mono.Time { return s.wallet.NextWake() }

// OnWake does nothing: Next does what is due.
func (s *Wallet) OnWake(mono.Time) {}
