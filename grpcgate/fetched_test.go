package grpcgate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/live"
)

// What was refused once for want of a credit is not for that refused again, if an interceptor makes another attempt.
func TestARefusalIsOfOneAttempt(t *testing.T) {
	why := errors.New("why")
	o := &outgoing{Context: t.Context(), err: why}
	if _, err, _ := o.take(new(pool)); err != why {
		t.Errorf("the first attempt: %v", err)
	}
	if _, err, _ := o.take(new(pool)); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}

// While no server is connected, no call is refused for want of a credit: it fails or waits as grpc has it.
func TestNoCreditIsWaitedForWithoutServers(t *testing.T) {
	wallet, err := live.NewWallet(credit.WalletConfig{MaxWait: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	defer wallet.Close()
	lost, lose := context.WithCancel(t.Context())
	p := &pool{number: 1, wallet: wallet, lost: lost, lose: lose}
	lose()
	o := &outgoing{Context: t.Context(), client: &client{}}
	o.fetch(t.Context(), p, wallet)
	if o.mu.Lock(); o.fetching != 0 || o.err != nil {
		t.Errorf("a credit is waited for, or refused: %v", o.err)
	}
	o.mu.Unlock()
}
