// Package breakwaterlive repeats the evaluation of Breakwater (Cho et al., OSDI 2020) with
// real processes over fastrpc: load, demand spike and clients.
//
//	crowd, a process on a core:          station, a process on another core:
//	Poisson, open loop ─ policy's Sender ══ fastrpc ══ policy's Door ─ spin
//
//	breakwater/load-live     0.1x to 4x of the capacity; 1, 10 and 100 µs; three shapes
//	breakwater/spike-live    0.7x, then 1.4x, then 0.7x
//	breakwater/clients-fast  100 to 10,000 connections at 2x
//
// The SLO is ten times the sum of mean service and unloaded round trip, as in the paper, and
// the round trip is measured. The capacity is measured too: the throughput of the station in a
// closed loop without control. Every policy has the same transport, connections, arrivals and work.
// Spillgate is told the SLO, its peers are tuned for the station.
//
// Invariants: latencies, and the time until a client knows of a refusal, count from the
// intended instant of sending; goodput is of answers within the SLO; the bars are those of the
// project and are not adapted to results; the record of the machine alone voids one.
//
// What this package does not do: DAGOR's level rides on answers, not on refusals, because a
// refusal of fastrpc has no room for it.
package breakwaterlive

import "github.com/spillgate/spillgate/lab/experiment"

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{load(), spike(), clients()}
}
