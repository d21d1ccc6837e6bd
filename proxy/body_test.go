package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/await"
)

// deadlined is a response writer that notes the last deadline of reads. before is called once, before one is noted.
type deadlined struct {
	http.ResponseWriter
	last   time.Time
	before func()
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	if f := d.before; f != nil {
		d.before = nil
		f()
	}
	d.last = t
	return nil
}

// A Close beside a Read that is about to set its deadline ends the Read as any: it does not wait for the client.
func TestCloseEndsAReadThatBegins(t *testing.T) {
	d := &deadlined{}
	r := &http.Request{ProtoMajor: 1, ContentLength: -1, Body: io.NopCloser(strings.NewReader("x"))}
	b := newRequestBody(d, r, time.Hour, false)
	d.before = func() { _ = b.Close() }
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != errBodyClosed || !d.last.Equal(time.Unix(1, 0)) {
		t.Errorf("%d bytes, %v, and reads until %v; expected the end of reads", n, err, d.last)
	}
}

// A body that nobody read is broken off with the last answer of its connection, and left alone where the request may go on
// to another upstream.
func TestUnreadBodiesAreBrokenOff(t *testing.T) {
	for _, answered := range []bool{true, false} {
		d := &deadlined{}
		r := &http.Request{ProtoMajor: 1, ContentLength: -1, Body: io.NopCloser(strings.NewReader("x"))}
		b := newRequestBody(d, r, time.Hour, false)
		_ = b.Close() // as a transport whose upstream answered first
		if answered {
			b.last(http.Header{})
		}
		if b.done(); d.last.Equal(time.Unix(1, 0)) != answered {
			t.Errorf("answered: %v; reads until %v", answered, d.last)
		}
	}
}

// lateEnds is a listener of connections whose reads tell a while later that they have ended, as
// those of a busy machine do.
type lateEnds struct{ net.Listener }

func (l lateEnds) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return lateEnd{c}, err
}

type lateEnd struct{ net.Conn }

func (c lateEnd) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		time.Sleep(20 * time.Millisecond)
	}
	return n, err
}

// The server waits, when the handler has returned, for a read of the body that goes on, and lifts the deadline
// that ended it. What is left of the body is not waited for all the same.
func TestBodiesEndThoughAReadGoesOn(t *testing.T) {
	for _, egress := range []bool{false, true} {
		for _, parks := range []bool{false, true} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var park *parking
			if parks {
				park = newParking(time.Hour, new(atomic.Int64))
			}
			over := make(chan struct{})
			s := &http.Server{ConnContext: withPlace, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).EnableFullDuplex()
				b := newRequestBody(w, r, time.Hour, false)
				reads := make(chan struct{})
				go func() { // as the transport does
					defer close(over)
					for n, err := b.Read(make([]byte, 1)); err == nil; n, err = b.Read(make([]byte, 1)) {
						if n > 0 {
							close(reads)
						}
					}
				}()
				<-reads
				b.last(w.Header())
				if egress {
					b.cut()
				} else {
					b.done()
				}
			})}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = s.Serve((&Proxy{log: discard()}).newRoom(10).in(lateEnds{l}, park))
			}()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(await.Patience))
			_, _ = fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nx")
			in := bufio.NewReader(c)
			if resp, err := http.ReadResponse(in, nil); err != nil || !resp.Close {
				t.Errorf("egress %v, parks %v: answered %+v, %v", egress, parks, resp, err)
			}
			await.Value(t, over, "the read to end")
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("egress %v, parks %v: after the answer %v, expected the end", egress, parks, err)
			}
			_ = c.Close()
			_ = s.Close()
			await.Value(t, ended, "the server to stop")
		}
	}
}
