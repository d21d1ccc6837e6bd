package grpcgate

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
)

// countingPool counts the buffers that are out.
type countingPool struct{ out int }

func (p *countingPool) Get(n int) *[]byte { p.out++; b := make([]byte, n); return &b }
func (p *countingPool) Put(*[]byte)       { p.out-- }

func pipeOf(t *testing.T, network, addr string) (*watchedConn, net.Conn) {
	t.Helper()
	inner, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	far, err := net.Dial(network, inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := listener{inner}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near.(*watchedConn), far
}

// What grpc asks of a connection whose reads should not hold a buffer.
var _ interface {
	ReadOnReady(bufSize int, pool mem.BufferPool) (*[]byte, int, error)
} = (*watchedConn)(nil)

func TestReadOnReady(t *testing.T) {
	for _, c := range []struct{ network, addr string }{{"tcp", "127.0.0.1:0"}, {"unix", t.TempDir() + "/s"}} {
		t.Run(c.network, func(t *testing.T) {
			near, far := pipeOf(t, c.network, c.addr)
			pool := &countingPool{}

			// While nothing comes, no buffer is out.
			near.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if buf, _, err := near.ReadOnReady(8, pool); !errors.Is(err, os.ErrDeadlineExceeded) || buf != nil || pool.out != 0 {
				t.Errorf("an idle connection: buffer %v, error %v, %d buffers out; want a deadline and none", buf, err, pool.out)
			}
			near.SetReadDeadline(time.Time{})

			// More than a buffer comes in pieces.
			io.WriteString(far, "hello, world")
			text := ""
			for len(text) < 12 {
				buf, n, err := near.ReadOnReady(8, pool)
				if err != nil || n > 8 {
					t.Fatalf("%d bytes, error %v", n, err)
				}
				text += string((*buf)[:n])
				pool.Put(buf)
			}
			if text != "hello, world" {
				t.Errorf("read %q", text)
			}

			far.Close()
			if _, _, err := near.ReadOnReady(8, pool); err != io.EOF {
				t.Errorf("error %v at the end, want EOF", err)
			}
			near.Close()
			if _, _, err := near.ReadOnReady(8, pool); !errors.Is(err, net.ErrClosed) {
				t.Errorf("error %v after Close, want net.ErrClosed", err)
			}
			if pool.out != 0 {
				t.Errorf("%d buffers were not given back", pool.out)
			}
		})
	}
}

func TestReadOnReadyAfterReset(t *testing.T) {
	near, far := pipeOf(t, "tcp", "127.0.0.1:0")
	far.(*net.TCPConn).SetLinger(0)
	far.Close()
	pool := &countingPool{}
	var err error
	for err == nil {
		_, _, err = near.ReadOnReady(8, pool)
	}
	if !errors.Is(err, syscall.ECONNRESET) || pool.out != 0 {
		t.Errorf("error %v, %d buffers out; want a reset and none", err, pool.out)
	}
}

// A connection that is not a socket is read as any other.
func TestReadOnReadyWithoutSocket(t *testing.T) {
	inner, far := net.Pipe()
	near := &watchedConn{Conn: inner}
	go func() { io.WriteString(far, "hi"); far.Close() }()
	pool := &countingPool{}
	buf, n, err := near.ReadOnReady(8, pool)
	if err != nil || string((*buf)[:n]) != "hi" {
		t.Fatalf("%d bytes, error %v", n, err)
	}
	pool.Put(buf)
	if _, _, err := near.ReadOnReady(8, pool); err != io.EOF || pool.out != 0 {
		t.Errorf("error %v, %d buffers out; want EOF and none", err, pool.out)
	}
}
