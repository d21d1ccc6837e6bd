package baseline

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

// A request goes from a wallet through a gate and back, and the reply's grant
// becomes the wallet's window.
func TestGrantTravelsFromGateToWallet(t *testing.T) {
	door, err := NewGate(admission.Config{Objective: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	now := mono.Time(time.Second)
	client := door.Connect(now)
	if client == nil {
		t.Fatal("the gate registered no client")
	}
	w := credit.Waiter{Deadline: mono.Never}
	if step, reason := sender.Submit(now, &w, 0); step != credit.Send {
		t.Fatalf("submit: step %v, reason %v, want the request sent", step, reason)
	}
	ticket := &admission.Ticket{Client: client}
	ticket.Deadline, ticket.Demand = mono.Never, 5
	if v := door.Arrive(now, ticket); v != admission.Run {
		t.Fatalf("arrive: %v, want run", v)
	}
	now = now.Add(time.Millisecond)
	door.Leave(now, ticket, work.Done)
	f := door.Feedback(now, ticket)
	if !f.HasGrant || f.Reason != work.None {
		t.Fatalf("feedback %+v, want a grant and no reason", f)
	}
	sender.OnReply(now, &w, time.Millisecond, f)
	if got := sender.Window(); !got.Credited() || got.Outstanding() != 0 || got.Limit() != int(f.Grant.Window) {
		t.Errorf("window: credited %v, outstanding %d, limit %d; want the grant of %d and nothing outstanding",
			got.Credited(), got.Outstanding(), got.Limit(), f.Grant.Window)
	}
	door.Disconnect(now, client)
	if n := door.Pool().Issued(); n != 0 {
		t.Errorf("%d credits are issued after the last client left, want 0", n)
	}
}

func TestGateWithoutCreditsKnowsNoClients(t *testing.T) {
	door, err := NewGate(admission.Config{Objective: time.Millisecond, NoCredit: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := door.Connect(0); c != nil {
		t.Error("a gate without credits registered a client")
	}
	door.OnDemand(0, nil, 3)
	door.Disconnect(0, nil)
	ticket := &admission.Ticket{}
	ticket.Deadline = mono.Never
	door.Arrive(0, ticket)
	door.Leave(1, ticket, work.Done)
	if f := door.Feedback(1, ticket); f.HasGrant {
		t.Errorf("feedback %+v, want no grant", f)
	}
}
