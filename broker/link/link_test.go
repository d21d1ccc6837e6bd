package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// Frames come out as they went in, however reads cut them, and a buffer that a large
// one needed is given back.
func TestReader(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var frames [][]byte
		var all []byte
		for range 60 {
			n := random.IntN(300)
			if random.IntN(10) == 0 {
				n = random.IntN(200_000)
			}
			f := make([]byte, n)
			for i := range f {
				f[i] = byte(random.Uint32())
			}
			frames = append(frames, f)
			all = append(binary.BigEndian.AppendUint32(all, uint32(n)), f...)
		}
		near, far := net.Pipe()
		go func() {
			for len(all) > 0 {
				n := min(1+random.IntN(30_000), len(all))
				_, _ = far.Write(all[:n])
				all = all[n:]
			}
			far.Close()
		}()
		r := NewReader(near)
		got := 0
		err := r.Run(func(unread []byte) (used, need int, err error) {
			for used < len(unread) {
				rest := unread[used:]
				if len(rest) < 4 {
					return used, 4, nil
				}
				n := 4 + int(binary.BigEndian.Uint32(rest))
				if len(rest) < n {
					return used, n, nil
				}
				if got == len(frames) || !bytes.Equal(rest[4:n], frames[got]) {
					t.Fatalf("seed %d: frame %d is another one", seed, got)
				}
				clear(rest[4:n]) // it is the handler's
				got++
				used += n
			}
			return used, 0, nil
		})
		if !errors.Is(err, io.EOF) || got != len(frames) || len(r.buf) > 2*maxRead {
			t.Errorf("seed %d: %d of %d frames, %v, and a buffer of %d bytes is left", seed, got, len(frames), err, len(r.buf))
		}
		near.Close()
	}
}

// guest is a connection that ends when it is kicked.
type guest struct {
	nc     net.Conn
	done   chan struct{}
	reason string
}

func (g *guest) Serve()             { defer close(g.done); _, _ = g.nc.Read(make([]byte, 1)) }
func (g *guest) Kick(reason string) { g.reason = reason; g.nc.Close(); <-g.done }

// restless is a connection that notes when it is read.
type restless struct {
	net.Conn
	reads []time.Time
}

func (c *restless) Read(p []byte) (int, error) {
	if c.reads = append(c.reads, time.Now()); len(c.reads) > 3 {
		return 0, io.EOF
	}
	return copy(p, "x"), nil
}

// A rest is before the next read, once.
func TestRest(t *testing.T) {
	const rest = 5 * time.Millisecond
	c := &restless{}
	r := NewReader(c)
	var asked time.Time
	err := r.Run(func([]byte) (used, need int, err error) {
		if len(c.reads) == 1 {
			asked = time.Now()
			r.Rest(rest)
		} else if r.rest > 0 {
			t.Error("it rests again")
		}
		return 1, 0, nil
	})
	if !errors.Is(err, io.EOF) || len(c.reads) != 4 {
		t.Fatalf("%d reads, %v", len(c.reads), err)
	}
	if after := c.reads[1].Sub(asked); after < rest {
		t.Errorf("it is read again after %v, want %v", after, rest)
	}
}

// A client that sends thousands of commands at once that carry nothing is read less often, and one that sends a few is not.
func TestIdle(t *testing.T) {
	c := &restless{}
	r := NewReader(c)
	_ = r.Run(func([]byte) (used, need int, err error) {
		commands := mostIdle
		if len(c.reads) == 2 {
			commands++
		}
		for range commands {
			r.Idle()
		}
		if rests := r.rest == idleRest; rests != (commands > mostIdle) {
			t.Errorf("after %d: it rests: %v", commands, rests)
		}
		return 1, 0, nil
	})
	if after := c.reads[2].Sub(c.reads[1]); after < idleRest {
		t.Errorf("it is read again after %v, want %v", after, idleRest)
	}
}

// What comes to a socket in a rest, or while it is read again after one, is read, and so is its end.
func TestRestOfASocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	_ = near.SetDeadline(time.Now().Add(10 * time.Second))
	defer far.Close()
	if _, err := far.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	var got []byte
	r := NewReader(near)
	err = r.Run(func(unread []byte) (used, need int, err error) {
		got = append(got, unread...)
		r.Rest(time.Millisecond)
		switch len(got) {
		case 1:
			_, _ = far.Write([]byte("b"))
		case 2: // when the reader waits for something, most likely
			time.AfterFunc(20*time.Millisecond, func() { _, _ = far.Write([]byte("b")) })
		default:
			far.Close()
		}
		return len(unread), 0, nil
	})
	if !errors.Is(err, io.EOF) || string(got) != "abb" {
		t.Errorf("%q came, and %v", got, err)
	}
}

// A client that is still sending reads why its connection ends.
func TestLeave(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		r := NewReader(nc)
		r.leave = time.Minute // the machine may be busy
		_ = r.Run(func([]byte) (used, need int, err error) { return 0, 0, errors.New("too much") })
		_, _ = nc.Write([]byte("why"))
		r.Leave()
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	if _, err := nc.Write(make([]byte, 8<<20)); err != nil { // more than the sockets hold
		t.Fatal("write: ", err)
	}
	if got, err := io.ReadAll(nc); string(got) != "why" || err != nil {
		t.Errorf("it reads %q, %v", got, err)
	}
	nc.Close()
	<-done
}

// A room serves as many as it has places, kicks who must go, and ends with all.
func TestRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	room := NewRoom[string](2)
	guests := make(chan *guest, 10)
	done := make(chan error, 1)
	go func() {
		done <- Accept(l, func(nc net.Conn) {
			room.Enter(nc, func(nc net.Conn) Guest[string] {
				g := &guest{nc: nc, done: make(chan struct{})}
				guests <- g
				return g
			})
		})
	}()
	dial := func() net.Conn {
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		_ = nc.SetDeadline(time.Now().Add(time.Minute))
		return nc
	}
	dial()
	first := <-guests
	dial()
	second := <-guests
	if n, err := dial().Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("a third connection is not closed: %v", err)
	}
	if now, turned := room.Count(); now != 2 || turned != 1 {
		t.Errorf("%d connections, %d turned away; want 2 and 1", now, turned)
	}
	room.Kick("out", func(g Guest[string]) bool { return g == first })
	if first.reason != "out" || second.reason != "" {
		t.Errorf("the reasons are %q and %q", first.reason, second.reason)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := room.Close(ctx, "end"); err != nil || second.reason != "end" {
		t.Errorf("Close: %v, %q", err, second.reason)
	}
	if _, err := dial().Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection to a closed room: %v", err)
	}
	l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
}

func TestTally(t *testing.T) {
	var c Tally
	if len(c.Get()) != 0 {
		t.Error("an empty tally has counts")
	}
	c.Add("a")
	c.Add("a")
	if got := c.Get(); got["a"] != 2 || len(got) != 1 {
		t.Errorf("the counts are %v", got)
	}
}
