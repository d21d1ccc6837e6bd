package taskfile

import "unsafe"

// Sizes and offsets of version 1, in bytes.
const (
	version     = 1
	headerBytes = 4096
	nameBytes   = 128
	cellBytes   = 64
	slotHead    = 256
	latencies   = 192 // counters of four bytes
	page        = 4096
	line        = 128

	clockOffset    = 128
	untracedOffset = 256
	keptOffset     = 512
	mostKept       = 64 // kinds that are kept out at once
)

// magic are the first bytes of every task file.
const magic = "sgtasks\n"

// liveWords is the part of the header that changes, from clockOffset on.
type liveWords struct {
	clock, engine, cancels, keeps, moves uint64
	_                                    [11]uint64
	untraced                             uint64
}

// keepWords is an entry of the table of kinds that are kept out.
type keepWords struct{ kind, until uint64 }

// slotWords is the start of a slot: the owner's words, then the engine's.
type slotWords struct {
	owner, sequence, started, key, kind, flags, done, total uint64
	thread, touched, finished, delivered, shared            uint64
	_                                                       [3]uint64
	cancel, reason                                          uint64
	_                                                       [14]uint64
}

// Cell is what one task did at one resource. In a file each word is written
// by the owner alone.
type Cell struct {
	// Gets and Frees count units acquired and released.
	Gets, Frees uint64
	// Waits counts waits that ended; of memory, units that the task evicted.
	// WaitTime is what the waits took, in nanoseconds.
	Waits, WaitTime uint64
	// WaitingSince is the instant at which the present wait began, or 0.
	WaitingSince uint64
	// HoldTime is of holds that ended, in nanoseconds; HeldSince the instant
	// at which the present one began, or 0.
	HoldTime, HeldSince uint64
	// Used is how many units the task holds now.
	Used uint64
}

// The compiler refuses these if a struct does not have its size.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(slotWords{})-slotHead]
	_ = [1]struct{}{}[unsafe.Sizeof(Cell{})-cellBytes]
	_ = [1]struct{}{}[unsafe.Offsetof(liveWords{}.untraced)-(untracedOffset-clockOffset)]
)

// Geometry is how many of each thing a file has room for. A zero field takes
// its default.
type Geometry struct {
	// Slots is how many tasks run at once, 1 to 65,536, default 1,024. A task
	// that finds no slot is not traced, and is counted.
	Slots int
	// Resources is how many resources have a name, 1 to 64, default 16. More
	// cost 64 bytes a slot each; a resource beyond is not traced.
	Resources int
	// Kinds is how many kinds of tasks have a name, up to 4,096, default 256.
	// A kind beyond has its fingerprint alone.
	Kinds int
}

// Defaults and bounds of a Geometry.
const (
	defaultSlots, maxSlots         = 1024, 1 << 16
	defaultResources, maxResources = 16, 64
	defaultKinds, maxKinds         = 256, 4096
)

func (g Geometry) withDefaults() Geometry {
	if g.Slots == 0 {
		g.Slots = defaultSlots
	}
	if g.Resources == 0 {
		g.Resources = defaultResources
	}
	if g.Kinds == 0 {
		g.Kinds = defaultKinds
	}
	return g
}

func (g Geometry) valid() bool {
	return 1 <= g.Slots && g.Slots <= maxSlots && 1 <= g.Resources && g.Resources <= maxResources &&
		0 <= g.Kinds && g.Kinds <= maxKinds
}

func (g Geometry) slotBytes() int {
	return roundUp(slotHead+cellBytes*g.Resources+4*latencies, line)
}

func (g Geometry) kindsOffset() int { return headerBytes + nameBytes*g.Resources }

func (g Geometry) slotsOffset() int { return roundUp(g.kindsOffset()+nameBytes*g.Kinds, page) }

func (g Geometry) fileBytes() int { return g.slotsOffset() + g.Slots*g.slotBytes() }

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// latency returns the counter for a task that took ns nanoseconds.
func latency(ns uint64) int {
	v := ns >> 13
	if v < 8 {
		return int(v)
	}
	e := 63 - leadingZeros(v)
	return min(8*(e-2)+int(v>>(e-3)&7), latencies-1)
}

// latencyFloor returns the shortest age, in nanoseconds, that counter i counts.
func latencyFloor(i int) uint64 {
	if i < 8 {
		return uint64(i) << 13
	}
	return uint64(8+i%8) << (i/8 - 1) << 13
}
