package mesh

import (
	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	control "github.com/spillgate/spillgate/internal/node"
)

// gateOf returns the gate of a process whose policy is Spillgate's, whole or without a
// node around it, and nil for another policy.
func gateOf(door baseline.Door) *admission.Gate {
	switch d := door.(type) {
	case *control.Node:
		return d.Gate()
	case baseline.Gate:
		return d.Gate
	}
	return nil
}
