// Package signal estimates, from samples that come one by one, the few numbers
// that policies act on.
//
//	Average  the mean of about the last n samples       one weight a sample
//	Least    the smallest of the last window of time     eight sub-windows
//	Sketch   any quantile of all samples                 1,888 counters, ±1/64
//	Meter    count, least, mean, most of an interval     closed by time or count
//
// Invariants: an estimate is a function of the samples and the instants given
// with them; no update allocates or takes longer than constant time; a sample
// that is not a number is left out.
//
// What this package does not do: it has no clock and no lock, and it does not
// decide what an estimate means.
package signal
