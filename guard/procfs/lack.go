package procfs

import "time"

// ownEvery is how often it is counted what all processes of a server used: some hundred of them take a millisecond to read.
const ownEvery = 500 * time.Millisecond

// Lack tells for how long other programs had the processors that the processes of a server needed, each of which works on one request
// at a time, in its first thread. Nothing is known before the processes have been counted twice. It is for one goroutine. The zero value is ready.
type Lack struct {
	meter Meter

	known   map[int64]time.Duration // what a process had used
	whole   bool                    // known was all of the server's when it was counted
	counted time.Time
	busy    time.Duration // at that time, of all processors
	taken   float64
	share   float64
}

// Begin begins a look. processes returns all processes of the server, those without a request too, nothing if they are not known; it is
// asked when it is time to count what they used.
func (l *Lack) Begin(now time.Time, processes func() []int64) {
	l.meter.Begin()
	if now.Sub(l.counted) >= ownEvery {
		l.count(now, processes())
	}
}

// Of returns for how long others had a processor that a process, which has a request, needed since the look before. ok is false if that cannot be read.
func (l *Lack) Of(pid int64) (lack time.Duration, ok bool) {
	now, ok := Process(pid)
	if !ok {
		return 0, false
	}
	return time.Duration(l.share * float64(l.meter.Since(pid, now).Delay)), true
}

// Taken returns which part of the machine's processors other programs used lately, 0 to 1; 0 if that is not known.
func (l *Lack) Taken() float64 { return l.taken }

// count enters what the processes used since they were counted last, and what all did. A process that was not there then has begun since: all that it used is of this time.
func (l *Lack) count(now time.Time, processes []int64) {
	own, known := time.Duration(0), make(map[int64]time.Duration, len(processes))
	for _, pid := range processes {
		used, ok := CPU(pid)
		if !ok {
			continue
		}
		known[pid] = used
		if before := l.known[pid]; before <= used {
			used -= before
		}
		own += used
	}
	l.enter(now.Sub(l.counted), own, l.meter.busy, l.meter.processors)
	if !l.whole {
		l.taken, l.share = 0, 0
	}
	l.known, l.whole, l.counted = known, len(known) > 0, now
}

// enter divides what was used in a time between the server and others.
func (l *Lack) enter(span, own, busy time.Duration, processors int) {
	used, whole := busy-l.busy, time.Duration(processors)*span
	others := max(used-own, 0)
	if l.taken, l.share = 0, 0; l.busy > 0 && used > 0 && whole > 0 {
		l.taken, l.share = min(float64(others)/float64(whole), 1), float64(others)/float64(others+own)
	}
	l.busy = busy
}
