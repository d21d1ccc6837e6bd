package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
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
