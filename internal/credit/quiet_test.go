package credit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/wire"
)

// TestDemandBehindStreamsIsToldWithinTheObjective: five streams use up a window of five. A server whose leases are long (640
// ms where its objective is 100 ms) must hear within its objective that a request waits behind them, and no more often
// than Revive.
func TestDemandBehindStreamsIsToldWithinTheObjective(t *testing.T) {
	const revive, objective = 640 * time.Millisecond, 100 * time.Millisecond
	l := newWallet(t, WalletConfig{})
	s := l.Open()
	l.OnGrant(0, s, wire.Grant{Seq: 1, Window: 5, Revive: revive, Objective: objective})
	for range 5 {
		l.Submit(0, waiter())
	}
	l.Submit(1, waiter())
	if _, _, ok := l.NextDemand(mono.Time(objective) - 1); ok {
		t.Error("told while a reply may well come")
	}
	if _, n, ok := l.NextDemand(mono.Time(objective)); !ok || n != 1 {
		t.Errorf("not told after the objective: %v, %d", ok, n)
	}
	l.OnGrant(mono.Time(objective), s, wire.Grant{Seq: 2, Window: 5, Revive: revive, Objective: objective})
	again := mono.Time(objective + revive)
	if _, _, ok := l.NextDemand(again - 1); ok {
		t.Error("told again before Revive")
	}
	if _, n, ok := l.NextDemand(again); !ok || n != 1 {
		t.Errorf("not told again after Revive: %v, %d", ok, n)
	}
}
