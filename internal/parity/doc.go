// Package parity holds one test: the same log of events, fed to the gate through
// the simulator's engine on virtual time and through package live with its
// goroutines, locks and timers, must lead to the same decisions at the same
// instants. What the simulator says of a policy is then true of the server.
//
// It is the only place that sees both drivers.
package parity
