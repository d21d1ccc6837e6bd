package hold

import (
	"math/rand/v2"
	"time"
)

// Verb is what a step of a program does.
type Verb uint8

const (
	// Run takes time and nothing else.
	Run Verb = iota
	// Acquire takes a lock, or a slot of a queue.
	Acquire
	// Release gives it back.
	Release
	// Work consumes processor time, or another divisible resource.
	Work
	// Touch uses pages of a pool.
	Touch
	// Rest does nothing and keeps what is held, as an idle transaction does.
	Rest
)

// Op is one step of a Program.
type Op struct {
	Do       Verb
	Resource int
	// Shared acquires a lock together with others.
	Shared bool
	// Time is how long Run, Rest and each chunk of Touch take, and what Work
	// consumes.
	Time time.Duration
	// Random draws the time from an exponential distribution with that mean, cut
	// at six times the mean.
	Random bool
	// Units is how many pages Touch uses, in chunks of at most Chunk.
	Units, Chunk int
}

// Program is what a task does. A task that ends releases what it still holds.
type Program struct {
	// Kind is the task's fingerprint.
	Kind uint64
	Ops  []Op
	// Times repeats the operations; 0 and 1 do them once.
	Times int
	// Weight is how many processors the task can use at a time, and how much it
	// weighs against others. 0 means 1.
	Weight float64
	// Known tasks report their progress.
	Known bool
}

// draw returns the time of an operation.
func (o *Op) draw(chance *rand.Rand) time.Duration {
	if !o.Random {
		return o.Time
	}
	return time.Duration(min(chance.ExpFloat64(), 6) * float64(o.Time))
}

// total returns the time that the program takes where nothing is waited for.
func (p *Program) total() time.Duration {
	var sum time.Duration
	for _, o := range p.Ops {
		if chunks := (o.Units + max(o.Chunk, 1) - 1) / max(o.Chunk, 1); o.Do == Touch {
			sum += time.Duration(chunks) * o.Time
		} else {
			sum += o.Time
		}
	}
	return sum * time.Duration(max(p.Times, 1))
}
