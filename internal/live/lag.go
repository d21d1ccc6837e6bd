package live

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// lag measures how long bytes that lie in a socket wait until a goroutine acts on
// them. Where handlers burn processor time, that wait is the server's real queue:
// a processor that always finds a goroutine to run looks at the network only
// every 10 ms, and no queue of this process shows it.
//
// A byte is written into a pipe, and a goroutine that waits for it, as the
// goroutines that read connections wait for theirs, says when it got it.
type lag struct {
	r, w   *os.File
	gap    atomic.Int64 // ns
	tell   func(d time.Duration)
	sent   atomic.Int64 // instant of the byte under way; 0: none
	next   atomic.Int64 // no other byte before this instant
	last   atomic.Int64 // ns, what the last byte took
	read   atomic.Int64 // instant at which a byte was read
	closed atomic.Bool
	done   chan struct{}
	turns  turns
}

// newLag starts the goroutine that reads. At most one byte a gap is sent. It
// returns nil if the system gives no pipe: the wait then goes unseen.
func newLag(gap time.Duration, tell func(time.Duration)) *lag {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	l := &lag{r: r, w: w, tell: tell, done: make(chan struct{})}
	l.gap.Store(int64(gap))
	go l.listen()
	return l
}

// poke sends a byte unless one is under way or was just now. It costs a write to
// a pipe, about a microsecond.
func (l *lag) poke(now mono.Time) {
	if l == nil || int64(now) < l.next.Load() || !l.sent.CompareAndSwap(0, int64(now)) {
		return
	}
	l.next.Store(int64(now.Add(l.every())))
	l.ask()
}

// every is the least time between two bytes.
func (l *lag) every() time.Duration { return time.Duration(l.gap.Load()) }

func (l *lag) listen() {
	defer close(l.done)
	defer l.turns.end()
	var buf [8]byte
	for {
		if _, err := l.r.Read(buf[:]); err != nil {
			return
		}
		now := Now()
		l.read.Store(int64(now))
		if sent := l.sent.Load(); sent != 0 {
			took := now.Sub(mono.Time(sent))
			l.last.Store(int64(took))
			l.sent.Store(0)
			l.tell(took)
		}
		if l.turns.give(runtime.GOMAXPROCS(0)) {
			l.ask()
		}
	}
}

// ask has the network looked at. It fails only when closed.
func (l *lag) ask() { _, _ = l.w.Write([]byte{1}) }

// value returns what the last byte took, or the one under way if that is longer.
func (l *lag) value(now mono.Time) time.Duration {
	if l == nil {
		return 0
	}
	d := time.Duration(l.last.Load())
	if sent := l.sent.Load(); sent != 0 {
		d = max(d, now.Sub(mono.Time(sent)))
	}
	return d
}

// underWay returns how long the byte under way takes already, if that is longer
// than the last one took: what is known before it arrives.
func (l *lag) underWay(now mono.Time) time.Duration {
	if l == nil {
		return 0
	}
	sent := l.sent.Load()
	if sent == 0 {
		return 0
	}
	d := now.Sub(mono.Time(sent))
	if int64(d) <= l.last.Load() {
		return 0
	}
	return d
}

func (l *lag) close() {
	if l == nil || l.closed.Swap(true) {
		return
	}
	_ = l.w.Close()
	_ = l.r.Close()
	<-l.done
}
