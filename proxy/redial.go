package proxy

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// firstTry is how long the first try to connect may take before any has succeeded. Later that is slower times the
	// shortest that has, leastTry at least. Each further try takes twice as long: with tries of the same length, requests
	// that have waited for long had no advantage, and in one of three runs a quarter of the callers gave up.
	firstTry, leastTry = 500 * time.Millisecond, 50 * time.Millisecond
	slower             = 4
)

// redialer connects to a server in several tries.
//
// A server with a short accept queue drops requests for connections while that is full (five places in Python's
// http.server, whose answers end their connections). TCP asks again after one, three and seven seconds, when the queue
// may be full again: in an overload a third of the answers were late for that, and they were so for seconds after it,
// because requests that took longer than the objective gave their slots to others, which filled the queue. A try that
// is given up costs a segment or two.
type redialer struct {
	dial    dialer
	timeout time.Duration // of all tries
	took    atomic.Int64  // shortest time of a try that succeeded, in ns; 0: none has
}

// redialing returns what connects as dial does, anew if a try takes long, within a time. Its context is the request's.
func redialing(dial dialer, timeout time.Duration) dialer {
	return (&redialer{dial: dial, timeout: timeout}).connect
}

func (d *redialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	for try := d.first(); ; try *= 2 {
		began := time.Now()
		c, err := d.once(ctx, network, address, try)
		if err == nil {
			d.succeeded(time.Since(began))
			return c, nil
		}
		if ctx.Err() != nil || !isTimeout(err) || time.Since(began) < try { // or what calls itself a timeout comes at once
			return nil, err
		}
	}
}

func (d *redialer) once(ctx context.Context, network, address string, try time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	return d.dial(ctx, network, address)
}

// first is how long the first try may take.
func (d *redialer) first() time.Duration {
	if took := time.Duration(d.took.Load()); took > 0 {
		return max(slower*took, leastTry)
	}
	return firstTry
}

func (d *redialer) succeeded(took time.Duration) {
	for took = max(took, 1); ; {
		least := d.took.Load()
		if least > 0 && least <= int64(took) || d.took.CompareAndSwap(least, int64(took)) {
			return
		}
	}
}
