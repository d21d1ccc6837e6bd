// Package world describes a world: services and what their requests take,
// clients and what they send, processors, a network and faults, as one value.
// A driver, in virtual time or with real processes, gets this value and a seed and
// nothing else. It returns its measurements as a Report.
//
//	clients ──Load, Ask──▶ network ──▶ service: gate?, workers ─▶ steps: wait, compute, call ──▶ next service
//	                                      │                          │
//	                                      └──────── host: processors shared by all services on it
//
// Invariants: a world that Check accepts has exactly one thing of every name that
// it uses, no call that leads back to the method it came from, a length of time,
// and a size that a machine can play. WithDefaults fills in every default, and
// changes nothing the second time. Order is that of the description, so that the
// same value and seed give the same bytes. A gate is told the objective alone:
// workers, service times and processors stay hidden from it.
//
// What this package does not do: it runs nothing, reads no file (worldfile
// does) and knows no policy: the policies compared in a world are no part of it.
package world
