package baseline

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// NoClients is the part of a Door that knows no clients; doors embed it.
type NoClients struct{}

// Connect returns nil.
func (NoClients) Connect(mono.Time) *credit.Client { return nil }

// Disconnect does nothing.
func (NoClients) Disconnect(mono.Time, *credit.Client) {}

// OnDemand does nothing.
func (NoClients) OnDemand(mono.Time, *credit.Client, int) {}

// NextGrant returns false.
func (NoClients) NextGrant() (*credit.Client, wire.Grant, bool) { return nil, wire.Grant{}, false }

// Feedback is why t was refused, and nothing else.
func (NoClients) Feedback(_ mono.Time, t *admission.Ticket) Feedback {
	return Feedback{Reason: t.Reason()}
}

// NoTimer is the part of a Door or Sender that does nothing by itself.
type NoTimer struct{}

// NextWake returns mono.Never.
func (NoTimer) NextWake() mono.Time { return mono.Never }

// OnWake does nothing.
func (NoTimer) OnWake(mono.Time) {}

// NoQueue is the part of a Door that lets no request wait.
type NoQueue struct{}

// Next returns nil.
func (NoQueue) Next(mono.Time) (*admission.Ticket, admission.Verdict) { return nil, admission.Wait }

// Cancel returns false.
func (NoQueue) Cancel(mono.Time, *admission.Ticket) bool { return false }
