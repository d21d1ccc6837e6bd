package taskfile

import (
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
)

// Look is what an engine sees at one instant. It is overwritten by the next.
type Look struct {
	// Sample is for the engine of package culprit.
	Sample culprit.Sample
	// Origins say where the tasks of Sample come from, at the same indices.
	Origins []Origin
	// Latencies count the foreground tasks that ended since the previous look.
	Latencies Latencies
	// Untraced counts tasks that found no free slot since the file was made.
	Untraced uint64
}

// Origin says whose task it is.
type Origin struct {
	// PID is the process, Thread the kernel's id of the thread that began the
	// task, 0 if unknown.
	PID    int
	Thread uint64
	// Key is the application's own number for the task, 0 if it has none.
	Key uint64
}

// Latencies count tasks by age. A bucket is 12.5 % wide at most.
type Latencies [latencies]uint64

// Count returns how many tasks there are.
func (l *Latencies) Count() (n uint64) {
	for _, c := range l {
		n += c
	}
	return n
}

// Late returns how many took longer than the objective. Of the bucket in which
// the objective lies, those count if its middle lies beyond.
func (l *Latencies) Late(objective time.Duration) (n uint64) {
	for i, c := range l {
		middle := latencyFloor(i)/2 + latencyFloor(i+1)/2
		if c > 0 && middle > uint64(max(objective, 0)) {
			n += c
		}
	}
	return n
}

// Quantile returns an age that the share q of the tasks does not exceed, exact
// to a bucket; 0 if there are none. Of the last bucket it returns the start.
func (l *Latencies) Quantile(q float64) time.Duration {
	total := l.Count()
	var seen uint64
	for i, c := range l {
		if seen += c; c > 0 && float64(seen) >= q*float64(total) {
			return time.Duration(latencyFloor(min(i+1, latencies-1)))
		}
	}
	return 0
}

// Look reads the file once. A task whose wait or hold is just changing may
// appear with a little too short a one. It does not allocate once its slices
// have grown, and takes about 50 ns for each slot and 100 for each task.
func (e *Engine) Look(objective time.Duration) (*Look, error) {
	err := e.guarded(func() error {
		if err := e.intact(); err != nil {
			return err
		}
		e.reader.read(e.file.watch.now(), objective)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &e.reader.look, nil
}

// KindName returns the name of a fingerprint, "" if it has none. A name stays where it is, so each entry of the
// table is read until it is complete, and no more: kinds without a name cost little.
func (e *Engine) KindName(fingerprint uint64) string {
	e.guarded(func() error { // a file that is gone has no further names
		table := e.file.kindNames()
		if e.kinds == nil {
			e.kinds, e.unnamed = map[uint64]string{}, make([]int32, len(table))
			for i := range e.unnamed {
				e.unnamed[i] = int32(i)
			}
		}
		left := e.unnamed[:0]
		for _, i := range e.unnamed {
			if text, _, ok := table[i].read(); !ok {
				left = append(left, i)
			} else if _, twice := e.kinds[Fingerprint(text)]; !twice {
				e.kinds[Fingerprint(text)] = text
			}
		}
		e.unnamed = left
		return nil
	})
	return e.kinds[fingerprint]
}
