package model

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
)

// Gated is Spillgate's own policy: an admission gate at the server, a wallet at
// each client. The gate's epoch is set for each life of the server.
func Gated(name string, gate admission.Config, wallet credit.WalletConfig) Policy {
	return Policy{
		Name: name,
		Door: func(_ uint64, life int) (baseline.Door, error) {
			gate.Credit.Epoch = uint32(life + 1)
			return baseline.NewGate(gate)
		},
		Sender: func(uint64, int) (baseline.Sender, error) { return baseline.NewWallet(wallet) },
	}
}
