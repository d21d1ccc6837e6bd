package live

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/spillgate/spillgate/internal/work"
)

// hears is a request that is served, and hears of refusals.
type hears struct{ refused bool }

func (h *hears) RefusedBelow() { h.refused = true }

// A call that its own caller gave up was refused by nobody.
func TestUnsentBelow(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&Refusal{Reason: work.WalletFull}, true},
		{fmt.Errorf("store: %w", &Refusal{Reason: work.WalletExpired}), true},
		{&Refusal{Reason: work.Canceled}, false},
		{errors.New("no such host"), false},
	} {
		h := new(hears)
		UnsentBelow(context.WithValue(t.Context(), ServingKey{}, h), test.err)
		if h.refused != test.want {
			t.Errorf("%v: the request heard of a refusal: %v, expected %v", test.err, h.refused, test.want)
		}
	}
	UnsentBelow(t.Context(), &Refusal{Reason: work.WalletFull}) // of no request
}
