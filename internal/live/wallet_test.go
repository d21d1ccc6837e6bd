package live

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/wire"
)

// TestPlainReplies: a server that grants nothing is not limited from its first answer on,
// and after each Reset from the next; one that grants is held to its grant whatever
// answers come without one.
func TestPlainReplies(t *testing.T) {
	w, err := NewWallet(credit.WalletConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := w.Open(nil)
	const tries = 100
	sent := func() int {
		var permits []*Permit
		for range tries {
			if p := w.TryAcquire(); p != nil {
				permits = append(permits, p)
			}
		}
		for _, p := range permits {
			p.Return(time.Millisecond)
		}
		return len(permits)
	}
	for round := range 3 {
		if n := sent(); n == 0 || n == tries {
			t.Errorf("round %d: %d of %d sent to a server that said nothing yet", round, n, tries)
		}
		for range 2 {
			s.OnPlainReply()
			if n := sent(); n != tries {
				t.Errorf("round %d: %d of %d sent to a server without credits", round, n, tries)
			}
		}
		s.OnGrant(wire.Grant{Seq: 1, Window: 7, Revive: time.Hour})
		for range 2 {
			s.OnPlainReply()
			if n := sent(); n != 7 {
				t.Errorf("round %d: %d sent, 7 granted", round, n)
			}
		}
		s.Reset()
	}
}
