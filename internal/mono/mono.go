// Package mono names an instant on one machine's monotonic clock.
//
// Policies take the present as an argument of type Time and return the instant
// at which they want to be called again. They never read a clock, so the same
// code runs on virtual time in a simulation and on the real clock in a server:
//
//	driver: reads a clock ──now Time──▶ policy ──NextWake() Time──▶ driver
//
// Invariants: a Time has no meaning on another machine or in another process;
// only durations, such as the budget a request has left, may travel.
//
// What this package does not do: it holds no clock and knows no calendar.
package mono

import (
	"math"
	"time"
)

// Time is an instant in nanoseconds since an origin that the driver chooses.
// The zero Time is that origin and an ordinary instant.
type Time int64

// Never is later than every instant that can occur. A policy returns it from
// NextWake when it needs no wake-up, and a request without a deadline has it.
const Never Time = math.MaxInt64

// Add returns the instant d after t. It saturates at Never and at the earliest
// Time instead of wrapping around, and Never plus anything stays Never.
func (t Time) Add(d time.Duration) Time {
	if t == Never {
		return Never
	}
	sum := t + Time(d)
	switch {
	case d > 0 && sum < t:
		return Never
	case d < 0 && sum > t:
		return math.MinInt64
	}
	return sum
}

// Sub returns the duration from u to t, saturated at the range of a Duration.
// From any instant to Never is the longest Duration.
func (t Time) Sub(u Time) time.Duration {
	if t == Never {
		return math.MaxInt64
	}
	diff := t - u
	switch {
	case t > u && diff < 0:
		return math.MaxInt64
	case t < u && diff > 0:
		return math.MinInt64
	}
	return time.Duration(diff)
}

// String formats t as the duration since the origin, or "never".
func (t Time) String() string {
	if t == Never {
		return "never"
	}
	return time.Duration(t).String()
}

// Seconds is d.Seconds(), the same to the last bit, without its integer divisions below a second.
func Seconds(d time.Duration) float64 {
	if d < time.Second && d > -time.Second {
		return float64(d) / 1e9
	}
	return d.Seconds()
}
