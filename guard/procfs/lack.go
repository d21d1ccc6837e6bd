package procfs

import "time"

// ownEvery is how often it is counted what all processes of a server used: some hundred of them take a millisecond to read.
const ownEvery = 500 * time.Millisecond

// Lack tells for how long other programs had the processors that the processes of a server needed, each of which works on one request
// at a time, in its first thread. It is for one goroutine. The zero value is ready.
type Lack struct {
	meter Meter

	known   map[int64]time.Duration // what a process had used
	counted time.Time
	busy    time.Duration // at that time, of all processors
	taken   float64
	share   float64
}

// Begin begins a look.
func (l *Lack) Begin(now time.Time) {
	if l.known == nil {
		l.known = map[int64]time.Duration{}
	}
	l.meter.Begin()
	if now.Sub(l.counted) >= ownEvery {
		l.count(now)
	}
}

// Of returns for how long others had a processor that a process, which has a request, needed since the look before. ok is false if that cannot be read.
func (l *Lack) Of(pid int64) (lack time.Duration, ok bool) {
	now, ok := Process(pid)
	if !ok {
		return 0, false
	}
	if _, known := l.known[pid]; !known {
		if used, ok := CPU(pid); ok {
			l.known[pid] = used
		}
	}
	return time.Duration(l.share * float64(l.meter.Since(pid, now).Delay)), true
}

// Taken returns which part of the machine's processors other programs used lately, 0 to 1; 0 if that is not known.
func (l *Lack) Taken() float64 { return l.taken }

// count enters what the processes that are known used since they were counted last, and what all did.
func (l *Lack) count(now time.Time) {
	own := time.Duration(0)
	for pid, used := range l.known {
		now, ok := CPU(pid)
		if !ok || now < used {
			delete(l.known, pid)
			continue
		}
		own += now - used
		l.known[pid] = now
	}
	l.enter(now.Sub(l.counted), own, l.meter.busy, l.meter.processors)
	l.counted = now
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
