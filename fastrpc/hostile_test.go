package fastrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate"
)

// fixed is a connection that brings what a reader has.
type fixed struct{ *bytes.Reader }

func (fixed) Write(b []byte) (int, error)      { return len(b), nil }
func (fixed) Close() error                     { return nil }
func (fixed) LocalAddr() net.Addr              { return nil }
func (fixed) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (fixed) SetDeadline(time.Time) error      { return nil }
func (fixed) SetReadDeadline(time.Time) error  { return nil }
func (fixed) SetWriteDeadline(time.Time) error { return nil }

// Whatever a client sends, the server neither panics nor keeps anything of it.
func FuzzServer(f *testing.F) {
	hello := preface{lowest: 1, highest: 1, credits: true, frame: leastFrame}.append(nil)
	for _, v := range vectors() {
		f.Add(append(appendMethod(nil, 3, "echo"), v.frame...))
		f.Add(append(appendMethod(appendMethod(nil, 3, "inline"), 1, "echo"), v.frame...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		gate := newGate(t, spillgate.Config{})
		s, err := NewServer(ServerConfig{Gate: gate, Log: quiet, MaxMessage: 1 << 12, MaxInFlight: 8})
		if err != nil {
			t.Fatal(err)
		}
		echoes(s)
		newServerConn(s, fixed{bytes.NewReader(append(hello[:prefaceLen:prefaceLen], b...))}).serve()
		s.Close()
		if n := gate.Stats().Running; n != 0 {
			t.Fatalf("%d requests still run", n)
		}
	})
}

// greeted returns a connection to a server after the prefaces.
func greeted(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = conn.Write(preface{lowest: 1, highest: 1, frame: 1 << 20}.append(nil))
	if _, err := io.ReadFull(conn, make([]byte, prefaceLen)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestWhatBreaksTheFormatClosesTheConnection(t *testing.T) {
	s, address := serve(t, ServerConfig{MaxMessage: leastFrame, MaxInFlight: 4}, func(s *Server) {
		echoes(s)
		s.Handle("hang", func(ctx context.Context, _, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() })
	})
	one := func(r request) []byte { return r.append(appendMethod(nil, 0, "hang"), nil) }
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	classed := one(request{})
	classed[len(classed)-5] = 99
	cases := map[string]struct {
		send []byte
		want string
	}{
		"too long":        {length(1 << 30), "a frame has 1073741824 bytes, expected 4 to"},
		"too short":       {length(3), "a frame has 3 bytes"},
		"unknown kind":    {append(length(4), 0x70, 0, 0, 0), "kind 0x70"},
		"kind of servers": {appendShort(nil, kindDrain, 1), "kind 0x83"},
		"short request":   {append(length(5), kindRequest, 0, 0, 0, 0), "a request frame has 5 bytes"},
		"no method":       {(&request{method: 2}).append(nil, nil), "method 2, which has no name yet"},
		"method twice":    {appendMethod(appendMethod(nil, 1, "a"), 1, "b"), "named a second time"},
		"method number":   {appendMethod(nil, MaxMethods, "a"), "expected less than 1024"},
		"method name":     {appendMethod(nil, 1, ""), "a name of 1 to 255 bytes"},
		"lane beyond":     {one(request{stream: 4}), "lane 4, expected less than 4"},
		"lane twice":      {(&request{stream: 1 << 16}).append(one(request{}), nil), "lane 0, where one is in flight"},
		"class":           {classed, "class 99"},
		"tags":            {one(request{tags: []byte{1, 2, 200}}), "the tags of a request"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			conn := greeted(t, address)
			if _, err := conn.Write(c.send); err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			if len(said) < 8 || said[4] != kindClose || !strings.Contains(string(said[8:]), c.want) {
				t.Errorf("the server said %q, expected a close frame with %q", said, c.want)
			}
		})
	}
	if n := s.Stats().Broken; n != uint64(len(cases)) {
		t.Errorf("%d connections are counted as broken, expected %d", n, len(cases))
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s, address := serve(t, ServerConfig{MaxConnections: 1}, echoes)
	first := greeted(t, address)
	second, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("the second connection was served")
	}
	if n := s.Stats(); n.Connections != 1 || n.Turned != 1 {
		t.Errorf("the server counts %+v", n)
	}
	_ = first.Close()
	eventually(t, "room for another", func() bool { return s.Stats().Connections == 0 })
	greeted(t, address)
}

// One client's long messages fill half of the memory for them, and no more; others find room, and short ones need none.
func TestHeldMessagesAreBounded(t *testing.T) {
	release := make(chan struct{})
	s, address := serve(t, ServerConfig{MaxHeld: 256 << 10}, func(s *Server) {
		echoes(s)
		s.Handle("hold", func(_ context.Context, in, out []byte) ([]byte, error) {
			<-release
			return append(out, in[:1]...), nil
		})
	})
	greedy, other := dial(t, ClientConfig{}, address), dial(t, ClientConfig{}, address)
	long := make([]byte, 64<<10)
	ended := make(chan error)
	hold := func(c *Client) {
		go func() {
			_, err := c.Method("hold").Call(within(t), long, nil)
			ended <- err
		}()
	}
	for range 2 {
		hold(greedy)
	}
	eventually(t, "that two are held", func() bool { return s.held.Load() == 128<<10 })
	var refusal *spillgate.Refusal
	if _, err := greedy.Method("hold").Call(within(t), long, nil); !errors.As(err, &refusal) || refusal.Pushback <= 0 {
		t.Errorf("the third returned %v, expected a refusal that says when to come again", err)
	}
	for _, c := range []*Client{greedy, other} {
		if _, err := c.Method("echo").Call(within(t), long[:leastHeld], nil); err != nil {
			t.Errorf("a short one returned %v", err)
		}
	}
	hold(other)
	eventually(t, "that another client's is held", func() bool { return s.held.Load() == 192<<10 })
	close(release)
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for range 5 {
		if out, err := greedy.Method("inline").Call(within(t), long, nil); err != nil || len(out) != len(long) {
			t.Errorf("when they were answered: %d bytes, %v", len(out), err)
		}
	}
	if n := s.held.Load(); n != 0 {
		t.Errorf("%d bytes are held in the end", n)
	}
}

// A message that there can never be room for is no refusal, after which it would be sent again for ever.
func TestMessagesThatCannotBeHeld(t *testing.T) {
	_, address := serve(t, ServerConfig{MaxHeld: 64 << 10}, echoes)
	c := dial(t, ClientConfig{}, address)
	if _, err := c.Method("echo").Call(within(t), make([]byte, 64<<10), nil); err != nil {
		t.Error(err)
	}
	var refusal *spillgate.Refusal
	if _, err := c.Method("echo").Call(within(t), make([]byte, 128<<10), nil); err == nil || errors.As(err, &refusal) {
		t.Errorf("the call returned %v, expected that its message is too long", err)
	}
}

func TestVersionsThatDoNotMatch(t *testing.T) {
	_, address := serve(t, ServerConfig{}, echoes)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write(preface{lowest: 2, highest: 9, frame: leastFrame}.append(nil))
	said, err := io.ReadAll(conn)
	if p, wrong := parsePreface(said); err != nil || wrong != nil || p.lowest != 0 {
		t.Errorf("the server answered %x, %v", said, err)
	}
}

// A client that sends and never reads has its connection's buffers filled and then waits; others
// are served, and in the end it is gone.
func TestASlowReaderIsBounded(t *testing.T) {
	var ran atomic.Int32
	_, address := serve(t, ServerConfig{MaxUnread: 1 << 16, WriteTimeout: 200 * time.Millisecond}, func(s *Server) {
		echoes(s)
		s.HandleInline("count", func(_ context.Context, in, out []byte) ([]byte, error) {
			ran.Add(1)
			return append(out, in...), nil
		})
	})
	conn := greeted(t, address)
	out := appendMethod(nil, 0, "count")
	big := make([]byte, 1<<16)
	sent := 0
	for lane := uint32(0); ; lane = (lane + 1) % 64 {
		out = (&request{stream: lane}).append(out, big)
		if _, err := conn.Write(out); err != nil {
			break // the server has given up
		}
		out = out[:0]
		if sent++; sent > 4096 {
			t.Fatalf("the server took %d MiB from a client that reads nothing", sent/16)
		}
	}
	c := dial(t, ClientConfig{}, address)
	if _, err := c.Method("echo").Call(within(t), nil, nil); err != nil {
		t.Error(err)
	}
	if n := int(ran.Load()); n > sent {
		t.Errorf("%d handlers ran for %d requests", n, sent)
	}
}

// A request that lies in the socket while an inline handler runs has waited.
func TestTheDelayCountsFromTheArrival(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux stamps arrivals")
	}
	began, release := make(chan struct{}), make(chan struct{})
	_, address := serve(t, ServerConfig{Gate: newGate(t, spillgate.Config{})}, func(s *Server) {
		s.HandleInline("hold", func(context.Context, []byte, []byte) ([]byte, error) {
			began <- struct{}{}
			<-release
			return nil, nil
		})
		echoes(s)
	})
	const wait = 20 * time.Millisecond
	tells := func() bool {
		conn := greeted(t, address)
		_, _ = conn.Write((&request{}).append(appendMethod(appendMethod(nil, 0, "hold"), 1, "inline"), nil))
		<-began
		_, _ = conn.Write((&request{method: 1, stream: 1, timed: true}).append(nil, nil))
		time.Sleep(wait)
		release <- struct{}{}
		in := inbox{conn: conn, limit: 1 << 16}
		for {
			f, err := in.next()
			if err != nil {
				t.Fatal(err)
			}
			var h response
			if _, err := parseResponse(f, &h); err == nil && h.stream == 1 {
				return h.queued >= wait-time.Millisecond // the clocks of the kernel and of this process differ
			}
		}
	}
	for range 10 { // the kernel of a busy machine may stamp late, or not yet
		if tells() {
			return
		}
	}
	t.Errorf("of ten requests that waited for %v, none says so", wait)
}

// What a client announces costs nothing until it comes.
func TestAnAnnouncedFrameTakesNoRoom(t *testing.T) {
	in := inbox{conn: fixed{bytes.NewReader(binary.BigEndian.AppendUint32(nil, 1<<30))}, limit: 1 << 30}
	if _, err := in.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame that is cut off: %v", err)
	}
	if len(in.buf) > leastInbox {
		t.Errorf("the buffer has %d bytes for 4 that came", len(in.buf))
	}
}

func TestMessagesThatAreTooLong(t *testing.T) {
	_, address := serve(t, ServerConfig{MaxMessage: leastFrame}, func(s *Server) {
		echoes(s)
		s.Handle("long", func(_ context.Context, _, out []byte) ([]byte, error) {
			return append(out, make([]byte, 1<<20)...), nil
		})
	})
	c := dial(t, ClientConfig{MaxMessage: leastFrame}, address)
	if _, err := c.Method("echo").Call(within(t), make([]byte, 1<<16), nil); !errors.Is(err, ErrTooLong) {
		t.Errorf("a request of 64 KiB returned %v", err)
	}
	var own *Error
	if _, err := c.Method("long").Call(within(t), nil, nil); !errors.As(err, &own) || !strings.Contains(own.Message, "longer than the caller takes") {
		t.Errorf("an answer of 1 MiB returned %v", err)
	}
	if out, err := c.Method("echo").Call(within(t), make([]byte, leastFrame-600), nil); err != nil || len(out) != leastFrame-600 {
		t.Errorf("what fits came back as %d bytes, %v", len(out), err)
	}
}
