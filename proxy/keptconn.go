package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/http1"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/mono"
)

// keeper drives the policy keeping for the connections to one server. Its methods may be
// called at once from any goroutine.
type keeper struct {
	closeIdle func()
	cut       atomic.Int64 // mono.Time when the server last closed a kept connection, idle and upgraded ones included

	mu     sync.Mutex
	policy keeping
	armed  bool // a wake will come
}

// newKeeper returns the keeper of a server with an objective. closeIdle is called without a
// lock.
func newKeeper(objective time.Duration, closeIdle func()) *keeper {
	return &keeper{closeIdle: closeIdle, policy: keeping{patience: objective / 8}}
}

// retune gives it another objective.
func (k *keeper) retune(objective time.Duration) {
	k.mu.Lock()
	k.policy.patience = objective / 8
	k.mu.Unlock()
}

// dialer returns what dials as dial does, connections that are watched.
func (k *keeper) dialer(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: c, keeper: k}, nil
	}
}

// sent returns r, or a copy of it whose connection is closed after the answer.
func (k *keeper) sent(r *http.Request) *http.Request {
	k.mu.Lock()
	parts := k.policy.parts(live.Now())
	k.mu.Unlock()
	if !parts || r.Close || r.Header.Get("Upgrade") != "" {
		return r
	}
	last := *r
	last.Close = true
	return &last
}

// keeps reports whether a connection is kept whose answer has ended.
func (k *keeper) keeps() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.policy.parts(live.Now())
}

// wake is called by the timer.
func (k *keeper) wake() {
	k.mu.Lock()
	k.armed = false
	again, closeIdle := k.policy.wake(live.Now())
	if again > 0 {
		k.armed = true
		time.AfterFunc(again.Sub(live.Now()), k.wake)
	}
	k.mu.Unlock()
	if closeIdle {
		k.closeIdle()
	}
}

// failed notes that the server broke off a request that was sent at an instant. If the server closed a
// kept connection since, that is taken for the cause. Only a failure counts: a server may close idle and
// upgraded connections at any time, and a request is sent again that may be.
func (k *keeper) failed(sent mono.Time, err error) {
	if errors.Is(err, http1.ErrStale) || mono.Time(k.cut.Load()) >= sent {
		k.stale()
	}
}

// stale notes that the server closed a kept connection under a request, or just before one.
func (k *keeper) stale() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.policy.stale(live.Now())
	if !k.armed {
		k.armed = true
		time.AfterFunc(0, k.wake) // which closes what is idle
	}
}

// watchedConn tells its keeper when a request is sent on it, and when an answer begins.
type watchedConn struct {
	net.Conn
	keeper *keeper
	line   link        // with the lock of the keeper
	asked  atomic.Bool // something was sent since something came
	heard  atomic.Bool // something came
	closed atomic.Bool
}

// Write implements net.Conn.
func (c *watchedConn) Write(p []byte) (int, error) {
	c.ask()
	return c.Conn.Write(p)
}

// ReadFrom implements io.ReaderFrom, so that the system may copy a file.
func (c *watchedConn) ReadFrom(r io.Reader) (int64, error) {
	c.ask()
	return io.Copy(c.Conn, r)
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && n == 0 && !c.closed.Load() && !isTimeout(err) && c.kept() {
		c.keeper.cut.Store(int64(live.Now()))
	}
	if n > 0 && c.asked.Load() && c.asked.Swap(false) {
		c.heard.Store(true)
		c.keeper.mu.Lock()
		c.keeper.policy.answer(live.Now(), &c.line)
		c.keeper.mu.Unlock()
	}
	return n, err
}

// kept reports whether the connection was kept after an answer.
func (c *watchedConn) kept() bool {
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	return c.line.heard
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	if !c.closed.Swap(true) {
		c.keeper.mu.Lock()
		c.keeper.policy.end(&c.line)
		c.keeper.mu.Unlock()
	}
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn, for a look at what there is to read.
func (c *watchedConn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// CloseWrite ends one direction of a connection that was upgraded, where that can be.
func (c *watchedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

func (c *watchedConn) ask() {
	k := c.keeper
	if c.asked.Load() || c.asked.Swap(true) {
		if !c.heard.Load() {
			k.mu.Lock()
			k.policy.more(live.Now(), &c.line)
			k.mu.Unlock()
		}
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.policy.ask(live.Now(), &c.line)
	if !k.armed && len(k.policy.silent) > 0 {
		k.armed = true
		time.AfterFunc(k.policy.wait(), k.wake)
	}
}
