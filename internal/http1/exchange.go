package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// atOnce is how much is written before anything is read: what systems take into their buffers on a
	// connection on which all is read (Linux: the middle value of tcp_wmem), so that the write does not wait
	// for a server that answers first.
	atOnce = 16 << 10
	// lateWriter is how long the end of an answer waits for the end of its request, so that the connection
	// can be kept: a server that has read all may answer sooner than the last write returns. As in
	// http.Transport.
	lateWriter = 50 * time.Millisecond
	// lostWriter is how long an answer is waited for where a request could not be written to its end: one
	// that the server gave before it closed is there already.
	lostWriter = time.Second
)

// InMemory is implemented by bodies that may be in memory: then a Read never waits, and a short body goes out
// with the header.
type InMemory interface{ InMemory() bool }

// exchange is a request on a connection, and then the body of its answer.
type exchange struct {
	conn *conn
	r    *http.Request
	plan plan
	send *sender     // nil: the request was written at once
	lost error       // of writing at once
	lent bool        // send may have the header's buffer
	stop func() bool // no end with the context any more; false if that has begun
	src  io.ReadCloser
	keep bool        // the connection may be used again
	done atomic.Bool // the answer came to its end, failed or was closed
	err  error       // of Read, for good
}

// run sends the request and returns the answer. With an error nothing of the request is under way any more.
func (x *exchange) run(head *buffer) (*http.Response, error) {
	cn := x.conn
	cn.begin()
	x.stop = context.AfterFunc(x.r.Context(), cn.cancel)
	err := x.write(head)
	var resp *http.Response
	if err == nil {
		resp, err = x.answer()
	}
	if err == nil {
		err = x.pass(resp)
	}
	if err != nil {
		return nil, x.failed(err)
	}
	return resp, nil
}

// write writes the request, or begins to.
func (x *exchange) write(head *buffer) error {
	cn, p := x.conn, &x.plan
	if p.head > atOnce || p.body != nil && !x.short() {
		x.send = &sender{x: x, ended: make(chan struct{})}
		if p.expects {
			x.send.told = make(chan bool, 1)
		}
		if p.head > atOnce {
			x.lent = true
			go x.send.run(head.b)
			return nil
		}
	} else if p.body != nil {
		if err := x.attach(head); err != nil {
			return err
		}
	}
	n, err := cn.nc.Write(head.b)
	switch {
	case err != nil:
		if x.send != nil {
			_ = p.body.Close()
			x.send = nil
		}
		if n == 0 && cn.reused {
			return nothingWritten{err}
		}
		x.lost = err
		cn.deadline.at(time.Now().Add(lostWriter)) // the server may have said why
	case x.send != nil:
		go x.send.run(nil)
	default:
		x.written()
	}
	return nil
}

// short reports whether the body goes out with the header.
func (x *exchange) short() bool {
	p := &x.plan
	if p.length < 0 || p.expects || p.length > int64(atOnce-p.head) {
		return false
	}
	m, ok := p.body.(InMemory)
	return ok && m.InMemory()
}

// attach puts the body behind the header.
func (x *exchange) attach(head *buffer) error {
	p := &x.plan
	defer p.body.Close()
	at := len(head.b)
	head.b = slices.Grow(head.b, int(p.length))[:at+int(p.length)]
	n, err := io.ReadFull(p.body, head.b[at:])
	if err == nil {
		err = ended(p.body)
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("http1: a body of %d bytes, announced as %d", n, p.length)
	}
	return err
}

// written begins the time that the server has for its answer's header.
func (x *exchange) written() {
	if d := x.conn.c.cfg.Response; d > 0 {
		x.conn.deadline.at(time.Now().Add(d))
	}
}

// answer reads the header of the answer, and hands on what comes before it.
func (x *exchange) answer() (*http.Response, error) {
	cn := x.conn
	switch _, err := cn.br.Peek(1); {
	case err != nil && x.lost != nil:
		return nil, nothingRead{x.lost}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, nothingRead{err}
	}
	for {
		resp, err := http.ReadResponse(cn.br, x.r)
		if err != nil {
			return nil, err
		}
		code := resp.StatusCode
		if code == http.StatusContinue && x.send != nil {
			x.send.tell(true)
		}
		if code < 100 || code > 199 || code == http.StatusSwitchingProtocols {
			resp.TLS = cn.tls
			return resp, nil
		}
		switch taken, err := x.inform(code, resp.Header); {
		case err != nil:
			return nil, err
		case taken:
			cn.left = cn.c.cfg.Header // who takes them bounds them
		}
	}
}

// pass makes x the body of the answer, unless that has none.
func (x *exchange) pass(resp *http.Response) error {
	cn := x.conn
	cn.unlimited()
	closes := resp.Close || x.r.Close
	if x.send != nil {
		x.send.tell(!closes) // a server that answers without a word may want the body all the same
	}
	if resp.StatusCode == http.StatusSwitchingProtocols && resp.Header.Get("Upgrade") != "" && httpguts.HeaderValuesContainsToken(resp.Header["Connection"], "upgrade") {
		if !x.stop() {
			return context.Cause(x.r.Context())
		}
		cn.deadline.reset()
		resp.Body = &upgraded{conn: cn}
		return nil
	}
	x.keep = !closes && resp.StatusCode > 199
	if x.r.Method == http.MethodHead || resp.ContentLength == 0 {
		x.end()
		return nil
	}
	x.begun(resp)
	x.src, resp.Body = resp.Body, x
	return nil
}

// end is called once, by what took done, when the answer came to its end. It gives the connection back or closes it.
func (x *exchange) end() {
	x.done.Store(true)
	cn := x.conn
	whole := x.stop() && x.keep && !cn.eof && cn.br.Buffered() == 0 && x.sent()
	cn.rest()
	if !whole {
		cn.close()
		return
	}
	cn.c.put(cn)
}

// sent reports whether all of the request went out, for which it waits a moment.
func (x *exchange) sent() bool {
	if x.send == nil {
		return x.lost == nil
	}
	select {
	case <-x.send.ended:
	default:
		timer := time.NewTimer(lateWriter)
		defer timer.Stop()
		select {
		case <-x.send.ended:
		case <-timer.C:
			return false
		}
	}
	return x.send.complete
}

// failed closes the connection, waits for the end of what sends the body, and returns why the request failed.
func (x *exchange) failed(err error) error {
	cn := x.conn
	x.done.Store(true)
	x.stop()
	cn.close()
	if x.send != nil {
		x.send.tell(false)
		<-x.send.ended
	}
	cn.rest()
	return x.reason(err)
}

// reason returns why reading failed: the end of the request, else that of its body, else what was read.
func (x *exchange) reason(err error) error {
	if x.conn.cancelled.Load() {
		return context.Cause(x.r.Context())
	}
	if x.send != nil {
		if e := x.send.foul.Load(); e != nil {
			return *e
		}
	}
	return err
}

// Read implements io.Reader.
func (x *exchange) Read(p []byte) (int, error) {
	if x.err != nil {
		return 0, x.err
	}
	if x.done.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := x.src.Read(p)
	if err == nil {
		return n, nil
	}
	switch ours := x.done.CompareAndSwap(false, true); {
	case !ours:
		err = http.ErrBodyReadAfterClose
	case err == io.EOF:
		x.end()
	default:
		x.stop()
		x.conn.close()
		x.conn.rest()
		err = x.reason(err)
	}
	x.err = err
	return n, err
}

// Close ends the connection if the answer did not come to its end. It may be called during a Read.
func (x *exchange) Close() error {
	if x.done.CompareAndSwap(false, true) {
		x.stop()
		x.conn.close()
	}
	return nil
}
