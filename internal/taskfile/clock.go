package taskfile

import "time"

// Mode says how much a tracer records.
type Mode uint8

const (
	// Off: a task that begins is not traced.
	Off Mode = iota
	// Coarse: instants are of the engine's clock, which moves every few milliseconds.
	Coarse
	// Precise: the tracer reads the clock for each instant.
	Precise
)

func (m Mode) String() string {
	switch m {
	case Coarse:
		return "coarse"
	case Precise:
		return "precise"
	}
	return "off"
}

// modeBits is the part of the clock word that holds the mode.
const modeBits = 3

// packClock returns the clock word of an instant and a mode.
func packClock(now uint64, m Mode) uint64 { return now&^modeBits | uint64(m) }

// modeOf returns the mode in a clock word.
func modeOf(word uint64) Mode {
	if m := Mode(word & modeBits); m <= Precise {
		return m
	}
	return Off
}

// stopwatch reads CLOCK_MONOTONIC through the runtime's clock, which runs at
// the same pace and costs no system call.
type stopwatch struct {
	base time.Time
	at   uint64 // CLOCK_MONOTONIC at base
}

// now returns the present in nanoseconds.
func (s *stopwatch) now() uint64 { return s.at + uint64(time.Since(s.base)) }
