package live

import (
	"runtime"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// busyGap is the least time between two looks at what this process used.
const busyGap = 20 * time.Millisecond

// hostGap is the same for what all used of the processors that this process may use: where the host has many, the
// system takes a while to add that up.
const hostGap = 5 * busyGap

// busy measures what this process uses of the processors, and what all use of those that it may use, here called the
// host's: all of them, or a cpuset. It belongs to one goroutine.
type busy struct {
	at     mono.Time
	used   time.Duration
	hostAt mono.Time
	host   hostTime
	own    time.Duration // used at the last look at the host's
	share  float64       // of the host's, at the last look at it
	others float64       // the part of share that this process did not use

	lack    float64       // the largest part of the time since the last look but one for which a goroutine can have lacked a processor that others had
	lacking float64       // the same, since the last look
	delay   time.Duration // of all threads, 0: not known
}

// hostTime is for how long the processors of the host were there so far, for how long they had
// nothing to do, and for how long a hypervisor had them, in ticks.
type hostTime struct{ all, idle, stolen uint64 }

// stolenSince returns the share of the time since before in which a hypervisor had the processors.
func (h hostTime) stolenSince(before hostTime) float64 {
	if before.all == 0 || h.all <= before.all || h.stolen < before.stolen {
		return 0
	}
	return float64(h.stolen-before.stolen) / float64(h.all-before.all)
}

// since returns the share of the time since before in which the processors were in use, 0 where the system
// does not tell.
func (h hostTime) since(before hostTime) float64 {
	if before.all == 0 || h.all <= before.all || h.idle < before.idle {
		return 0
	}
	return max(1-float64(h.idle-before.idle)/float64(h.all-before.all), 0)
}

// others returns which part of the host's processors, of which a share is in use, is used by others than this process, which has
// used some processor time in a time.
func others(share float64, used, elapsed time.Duration, processors int) float64 {
	return max(share-float64(used)/(float64(max(elapsed, 1))*float64(processors)), 0)
}

// look returns what was used since the last look, if that was a while ago and the system
// tells, what could have been, of how many processors, and the share of the host's that
// was in use.
func (b *busy) look(now mono.Time) (used, all time.Duration, processors int, host float64, ok bool) {
	elapsed := now.Sub(b.at)
	if elapsed < busyGap {
		return 0, 0, 0, 0, false
	}
	// A GOMAXPROCS above the number of processors makes none.
	processors = min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	before := b.used
	b.at, b.used = now, processorTime()
	if now.Sub(b.hostAt) >= hostGap {
		hostBefore := b.host
		b.host = hostProcessors()
		b.share = b.host.since(hostBefore)
		b.others = others(b.share, b.used-b.own, now.Sub(b.hostAt), runtime.NumCPU())
		b.lacks(now.Sub(b.hostAt), b.host.stolenSince(hostBefore), threadDelay)
		b.hostAt, b.own = now, b.used
	}
	return b.used - before, elapsed * time.Duration(processors), processors, b.share, before > 0
}

// fewOthers is the part of the processors below which it does not matter how much of a goroutine's time others took: reading what each
// thread waited takes some microseconds a thread.
const fewOthers = 1.0 / 16

// lacks enters for how long the threads of this process waited for a processor since the last look, in all, as delay tells it. A goroutine
// that others keep from a processor is on a thread that waits for one, or waits for such a thread, so no goroutine lacked one for longer; but for
// what a hypervisor took, of which threads know nothing.
func (b *busy) lacks(elapsed time.Duration, stolen float64, delay func() time.Duration) {
	before, last := b.delay, b.lacking
	b.delay, b.lacking = 0, 1
	if b.others >= fewOthers {
		b.delay = delay()
	}
	switch {
	case b.others < fewOthers:
		b.lacking = b.others
	case before > 0 && b.delay >= before: // a thread that has ended takes what it waited with it
		b.lacking = min(float64(b.delay-before)/float64(elapsed)+stolen, 1)
	}
	b.lack = max(b.lacking, last)
}
