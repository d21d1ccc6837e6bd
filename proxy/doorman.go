package proxy

import (
	"hash/maphash"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/live"
)

// doorman gives connections their turns. It may be called at once from any goroutine.
type doorman struct {
	seed maphash.Seed
	r, w *os.File // a pipe: what comes out was seen by a look at the network; nil: none
	done chan struct{}

	mu    sync.Mutex
	q     intake
	asked bool        // for a look at the network
	timer *time.Timer // runs while turns wait
	over  bool
}

// newDoorman starts what looks at the network. Where the system gives no pipe, the timer does for it.
func newDoorman() *doorman {
	d := &doorman{seed: maphash.MakeSeed(), q: intake{most: runtime.GOMAXPROCS(0)}, done: make(chan struct{})}
	d.timer = time.AfterFunc(time.Hour, d.tick)
	d.timer.Stop()
	r, w, err := os.Pipe()
	if err != nil {
		close(d.done)
		return d
	}
	d.r, d.w = r, w
	go d.look()
	return d
}

// meet makes t that of a connection. counted is whether its peer is to be told from others.
func (d *doorman) meet(t *turn, c net.Conn, counted bool) {
	addr, ok := clientOf(c.RemoteAddr())
	if t.free = !ok || !counted; !t.free {
		bytes := networkOf(addr).As16()
		t.peer = cellsOf(maphash.Bytes(d.seed, bytes[:]))
	}
}

// enter returns when it is t's turn; bytes of its connection came.
func (d *doorman) enter(t *turn) {
	d.mu.Lock()
	if d.over || d.q.enter(live.Now(), t) {
		d.mu.Unlock()
		return
	}
	if t.granted == nil {
		t.granted = make(chan struct{}, 1)
	}
	if d.q.waiting == 1 {
		d.timer.Reset(longestTurn)
	}
	d.grant()
	d.mu.Unlock()
	<-t.granted
}

// leave ends t's turn, if it has one.
func (d *doorman) leave(t *turn) {
	if !t.holds.Load() {
		return
	}
	d.mu.Lock()
	d.q.leave(live.Now(), t)
	d.grant()
	d.mu.Unlock()
}

// grant lets those go on whose turn it is; the lock is held.
func (d *doorman) grant() {
	for d.q.waiting > 0 {
		t, look := d.q.take(live.Now())
		if t == nil {
			if look && !d.asked && d.w != nil {
				d.asked = true
				_, _ = d.w.Write([]byte{1})
			}
			return
		}
		t.granted <- struct{}{}
	}
}

// look tells the intake of each look at the network that was asked for, once those whose bytes were
// seen as well have entered.
func (d *doorman) look() {
	defer close(d.done)
	var b [1]byte
	for {
		if _, err := d.r.Read(b[:]); err != nil {
			return
		}
		runtime.Gosched()
		d.mu.Lock()
		d.asked = false
		d.q.sawNetwork(live.Now())
		d.grant()
		d.mu.Unlock()
	}
}

// tick ends turns that are taken for too long.
func (d *doorman) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.w == nil {
		d.q.sawNetwork(live.Now()) // a timer has run
	}
	if d.grant(); d.q.waiting > 0 {
		d.timer.Reset(longestTurn)
	}
}

// close lets everybody go on, those who come later too.
func (d *doorman) close() {
	d.mu.Lock()
	d.over = true
	d.timer.Stop()
	for rank := range d.q.lines {
		for d.q.lines[rank].first != nil {
			d.q.waiting--
			d.q.lines[rank].pop().granted <- struct{}{}
		}
	}
	d.mu.Unlock()
	if d.w != nil {
		_ = d.w.Close()
		_ = d.r.Close()
	}
	<-d.done
}

// Read implements net.Conn.
func (c *placed) Read(b []byte) (int, error) {
	return c.readBy(b, c.Conn.Read)
}

// readBy reads, and returns when it is the connection's turn if something came that is not of the
// body of a request of HTTP/1, or of an upgraded connection: whoever reads that may wait for others.
func (c *placed) readBy(b []byte, read func([]byte) (int, error)) (int, error) {
	c.goOn()
	n, err := read(b)
	if n > 0 && c.room.door != nil && (c.http2.Load() || c.serving.Load() == 0) {
		c.room.door.enter(&c.turn)
	}
	return n, err
}

// goOn ends the connection's turn.
func (c *placed) goOn() {
	if c.room.door != nil {
		c.room.door.leave(&c.turn)
	}
}

// Write implements net.Conn. Of HTTP/2, others write than read.
func (c *placed) Write(b []byte) (int, error) {
	if !c.http2.Load() {
		c.goOn()
	}
	c.await()
	return c.Conn.Write(b)
}
