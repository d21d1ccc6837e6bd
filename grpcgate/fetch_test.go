package grpcgate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// A credit that is found for an attempt which was sent with another one meanwhile
// goes back at once: the call, a stream perhaps, would keep it to its end. And what
// became of an earlier attempt's search is nothing to the next one.
func TestFetchedTooLate(t *testing.T) {
	wallet, err := live.NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer wallet.Close()
	server := wallet.Open(nil)
	grant := wire.Grant{Epoch: 1, Revive: time.Hour}
	window := func(n uint32) {
		grant.Seq, grant.Window = grant.Seq+1, n
		server.OnGrant(grant)
	}
	window(1)
	p := &picker{pool: &pool{number: 1, wallet: wallet, lost: t.Context()}}
	on := &backend{account: server}
	o := &outgoing{Context: t.Context()}
	waits := func(n int) { eventually(t, "the wallet's queue", func() bool { return wallet.Waiting() == n }) }

	first := wallet.TryAcquire(t.Context())
	o.fetch(t.Context(), p.pool, wallet)
	waits(1)
	p.send(o, first, on)
	window(2)
	eventually(t, "the second credit to come back", func() bool { return wallet.Waiting() == 0 && server.Outstanding() == 1 })
	if late, err, _ := o.take(p.pool); late != nil || err != nil {
		t.Errorf("the call still has %v, %v", late, err)
	}

	// The next attempt's own search counts, not one that ends with the last.
	window(1)
	gone, cancel := context.WithCancelCause(t.Context())
	o.fetch(gone, p.pool, wallet)
	waits(1)
	p.send(o, first, on)
	o.fetch(t.Context(), p.pool, wallet)
	waits(2)
	cancel(errors.New("over"))
	waits(1)
	window(2)
	var second *live.Permit
	eventually(t, "the credit of the next attempt", func() bool {
		second, err, _ = o.take(p.pool)
		return second != nil || err != nil
	})
	if err != nil || server.Outstanding() != 2 {
		t.Errorf("the next attempt has %v, %d outstanding", err, server.Outstanding())
	}
}

// A credit that is found after a pick looked for it, and before that pick asks for one, is the
// one that the call has: a second one would take its place, and the first be lost for good.
func TestFetchedBetween(t *testing.T) {
	wallet, err := live.NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer wallet.Close()
	server := wallet.Open(nil)
	server.OnGrant(wire.Grant{Epoch: 1, Seq: 1, Window: 2, Revive: time.Hour})
	o := &outgoing{Context: t.Context()}
	found := func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.fetching == 0 && o.permit != nil
	}
	for range 2 {
		o.fetch(t.Context(), &pool{number: 1, wallet: wallet, lost: t.Context()}, wallet)
		eventually(t, "a credit", found)
	}
	if n := server.Outstanding(); n != 1 {
		t.Errorf("%d credits are out for one call", n)
	}
	o.end()
	eventually(t, "the credit is back", func() bool { return server.Outstanding() == 0 })
}
