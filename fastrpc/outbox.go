package fastrpc

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"
)

// mostSpare is the largest buffer that an outbox keeps, in bytes.
const mostSpare = 256 << 10

// outbox gathers frames and writes many at once:
//
//	handlers, callers ── append ──▶ buf ──┐
//	                                      ├─ the first of them yields, so that others
//	                                      ▼  append too, and writes them all
//	what came during the write ──▶ run writes it
//
// A goroutine therefore writes once at most for what is its own and never for ever for others. With aside it does not wait
// for the other side either: run writes what the socket does not take at once, and without brief, as where it is encrypted, all.
type outbox struct {
	conn    net.Conn
	limit   int           // bytes that wait; who appends more waits, or is told
	timeout time.Duration // for a write; then the connection is broken
	// notice appends what must be said although nothing is answered, called with the lock.
	notice func(dst []byte) []byte

	mu      sync.Mutex
	room    sync.Cond // of mu: there may be room again
	buf     []byte
	spare   []byte
	writing bool
	pending bool   // a goroutine has yielded and will write
	rest    []byte // of a write that run is to go on with, while writing
	whole   []byte // what was to be written then
	noticed bool   // notice must be called
	waiting int    // for room
	until   time.Time
	aside   bool   // nobody but run waits for the other side
	brief   *brief // to write without a wait, with aside alone; nil: there is no way to
	err     error  // the connection is over
	wake    chan struct{}
	done    chan struct{} // run has returned
}

// start prepares o, whose run must be started and whose close be called.
func (o *outbox) start(conn net.Conn, limit int, timeout time.Duration) {
	o.conn, o.limit, o.timeout = conn, limit, timeout
	o.room.L = &o.mu
	o.wake, o.done = make(chan struct{}, 1), make(chan struct{})
}

// lock takes the lock for who appends one frame, once there is room. If it returns an
// error the lock is not held.
func (o *outbox) lock() error {
	o.mu.Lock()
	for len(o.buf) >= o.limit && o.err == nil {
		if !o.writing { // its sender means to write it later
			o.flushLocked()
			continue
		}
		o.waiting++
		o.room.Wait()
		o.waiting--
	}
	if err := o.err; err != nil {
		o.mu.Unlock()
		return err
	}
	return nil
}

// send releases the lock, and has what was appended written soon. Before it writes, others
// that can run go first, and append.
func (o *outbox) send() {
	if o.writing || o.pending {
		o.mu.Unlock()
		return
	}
	o.pending = true
	o.mu.Unlock()
	runtime.Gosched()
	o.mu.Lock()
	o.pending = false
	o.flushLocked()
	o.mu.Unlock()
}

// flush writes the appended frames, unless another goroutine is about to.
func (o *outbox) flush() {
	o.mu.Lock()
	if !o.pending {
		o.flushLocked()
	}
	o.mu.Unlock()
}

// flushLocked writes once what there is, without the lock in between; what comes in the
// meantime run writes.
func (o *outbox) flushLocked() {
	if o.writing || len(o.buf) == 0 || o.err != nil {
		return
	}
	o.writing = true
	out := o.buf
	o.buf, o.spare = o.spare[:0], nil
	o.mu.Unlock()
	n, err := o.begin(out)
	o.mu.Lock()
	if n < len(out) && err == nil {
		o.rest, o.whole = out[n:], out
		o.poke()
		return
	}
	o.wrote(out, err)
}

// begin writes b, or as much of it as can be written without a wait.
func (o *outbox) begin(b []byte) (n int, err error) {
	switch {
	case o.brief != nil:
		return o.brief.write(b)
	case o.aside:
		return 0, nil
	}
	return len(b), o.write(b)
}

// wrote ends the write of out. It is called with the lock held.
func (o *outbox) wrote(out []byte, err error) {
	o.writing = false
	if cap(out) <= mostSpare {
		o.spare = out
	}
	if err != nil && o.err == nil {
		o.err = err
		_ = o.conn.Close() // its reader finds out
	}
	if o.waiting > 0 || o.err != nil {
		o.room.Broadcast()
	}
	if len(o.buf) > 0 || o.err != nil {
		o.poke()
	}
}

// goOn writes the rest of what was begun, and leaves no deadline behind, which brief would run into.
func (o *outbox) goOn() error {
	err := o.write(o.rest)
	if o.brief == nil {
		return err
	}
	o.until = time.Time{}
	return errors.Join(err, o.conn.SetWriteDeadline(o.until))
}

// write writes b in time. To move the deadline costs as much as a small write, so that is
// done once in a quarter of it.
func (o *outbox) write(b []byte) error {
	if now := time.Now(); o.until.Sub(now) < o.timeout*3/4 {
		o.until = now.Add(o.timeout)
		if err := o.conn.SetWriteDeadline(o.until); err != nil {
			return err
		}
	}
	_, err := o.conn.Write(b)
	return err
}

// say has notice called and its frame written. It never blocks.
func (o *outbox) say() {
	o.mu.Lock()
	o.noticed = true
	o.mu.Unlock()
	o.poke()
}

func (o *outbox) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes the frames that no sender writes itself, until close.
func (o *outbox) run() {
	defer close(o.done)
	for range o.wake {
		o.mu.Lock()
		if o.rest != nil {
			o.mu.Unlock()
			err := o.goOn()
			o.mu.Lock()
			whole := o.whole
			o.rest, o.whole = nil, nil
			o.wrote(whole, err)
		}
		if o.noticed && o.err == nil {
			o.noticed = false
			o.buf = o.notice(o.buf)
		}
		if !o.pending {
			o.flushLocked()
		}
		over := o.err != nil
		o.mu.Unlock()
		if over {
			return
		}
	}
}

// last appends a frame however full it is, and writes what there is.
func (o *outbox) last(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.buf = append(o.buf, frame...)
	}
	o.written() // it ends in time, and close takes what is left
	o.flushLocked()
	o.written() // by run
}

// written waits until a write that is under way has ended. It is called with the lock held.
func (o *outbox) written() {
	for o.writing && o.err == nil {
		o.waiting++
		o.room.Wait()
		o.waiting--
	}
}

// empty reports whether nothing waits to be written.
func (o *outbox) empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) == 0 && !o.writing
}

// close breaks the connection off: run and all senders that wait for room return.
func (o *outbox) close(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.err = err
	}
	o.buf = nil
	o.room.Broadcast()
	o.mu.Unlock()
	o.poke()
	_ = o.conn.Close()
	<-o.done
}
