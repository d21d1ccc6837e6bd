package stamp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/leaks"
	"golang.org/x/net/nettest"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// pair returns both ends of a connection, the first of which was accepted by a listener of Listen.
func pair(t testing.TB) (server, client net.Conn) { return pairOf(t, Listen) }

// pairOf is pair with another kind of listener.
func pairOf(t testing.TB, listen func(net.Listener) net.Listener) (server, client net.Conn) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := listen(plain)
	defer l.Close()
	dialed := make(chan net.Conn, 1)
	go func() {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Error(err)
		}
		dialed <- c
	}()
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	client = <-dialed
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// stamped reports whether this system stamps, and skips the test otherwise.
func stamped(t testing.TB) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("this system does not stamp")
	}
}

// A stamped connection is a net.Conn in all that nettest knows of.
func TestConn(t *testing.T) {
	for name, listen := range map[string]func(net.Listener) net.Listener{"Listen": Listen, "ListenBrief": ListenBrief} {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
				c1, c2 = pairOf(t, listen)
				return c1, c2, func() { c1.Close(); c2.Close() }, nil
			})
		})
	}
}

// The stamp is of when the bytes came, not of when they were read, and from the first bytes on.
func TestArrivalIsBeforeTheRead(t *testing.T) {
	stamped(t)
	server, client := pair(t)
	buf := make([]byte, 16)
	if _, ok := Arrival(server); ok {
		t.Error("nothing was read, and yet it has arrived")
	}
	const wait = 30 * time.Millisecond
	early := 0 // stamps that are nearer to the write than to the read
	for end := time.Now().Add(time.Minute); early < 5; {
		if time.Now().After(end) {
			t.Fatalf("in a minute %d reads have a stamp from before them", early)
		}
		before := time.Now()
		if _, err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
		reading := time.Now()
		if _, err := server.Read(buf); err != nil {
			t.Fatal(err)
		}
		at, ok := Arrival(server)
		if !ok {
			continue // the kernel has not begun yet, or is late: its work waits for a processor, too
		}
		if at.Before(before.Add(-time.Millisecond)) || at.After(time.Now().Add(time.Millisecond)) {
			t.Errorf("it arrived %v after it was sent", at.Sub(before))
		}
		if at.Before(reading.Add(-wait / 2)) {
			early++
		}
	}
}

func TestArrivalThroughTLS(t *testing.T) {
	stamped(t)
	server, client := pair(t)
	c := tls.Server(server, &tls.Config{})
	_, _ = client.Write([]byte("no handshake at all"))
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_ = c.Handshake()
	if at, ok := Arrival(c); ok && time.Since(at) > 2*time.Minute {
		t.Errorf("arrived at %v", at)
	} else if _, below := Arrival(server); ok != below {
		t.Errorf("known %v through TLS, %v below", ok, below)
	}
	if _, ok := Arrival(client); ok {
		t.Error("a connection that nobody stamps has a stamp")
	}
	if _, ok := Arrival(nil); ok {
		t.Error("no connection has a stamp")
	}
}

// A listener of another kind works as before.
func TestOtherListeners(t *testing.T) {
	plain, err := net.Listen("unix", t.TempDir()+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	l := Listen(plain)
	defer l.Close()
	go func() {
		if c, err := net.Dial("unix", l.Addr().String()); err == nil {
			_, _ = c.Write([]byte("x"))
			c.Close()
		}
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, ok := Arrival(c); ok {
		t.Error("a stamp from nowhere")
	}
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted after Close: %v", err)
	}
}

func TestEndOfFileAndHalfClose(t *testing.T) {
	server, client := pair(t)
	_, _ = client.Write([]byte("last words"))
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(server)
	if string(got) != "last words" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if n, err := server.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
	// The other direction is open still, and closes by itself.
	if _, err := server.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := server.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Errors are what a *net.TCPConn returns.
func TestErrors(t *testing.T) {
	server, _ := pair(t)
	_ = server.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := server.Read(make([]byte, 1))
	var op *net.OpError
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &op) || op.Op != "read" || op.Addr == nil || !op.Timeout() {
		t.Errorf("a deadline: %v", err)
	}
	_ = server.SetReadDeadline(time.Time{})

	done := make(chan error)
	go func() {
		_, err := server.Read(make([]byte, 1))
		done <- err
	}()
	time.Sleep(10 * time.Millisecond)
	server.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed during a read: %v", err)
	}
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
	if _, err := server.Read(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read of nothing after Close: %v", err)
	}

	server, client := pair(t)
	_ = client.(*net.TCPConn).SetLinger(0)
	client.Close()
	if _, err := server.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("reset by the peer: %v", err)
	}
}

// io.Copy from a stamped connection reads through it: of some copies at least one has a stamp, which the first bytes of a connection may lack.
func TestCopyDoesNotGoPast(t *testing.T) {
	stamped(t)
	for range 20 {
		server, client := pair(t)
		other, sink := pair(t)
		go func() {
			_, _ = client.Write(bytes.Repeat([]byte("x"), 1000))
			client.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, sink) }()
		n, err := io.Copy(other.(interface{ NetConn() net.Conn }).NetConn(), server)
		if n != 1000 || err != nil {
			t.Fatal(n, err)
		}
		other.Close()
		if _, ok := Arrival(server); ok {
			return
		}
	}
	t.Error("the bytes went past Read")
}

// Readers, writers and a closer at once; what several goroutines read is what was sent.
func TestConcurrently(t *testing.T) {
	server, client := pair(t)
	const each, size = 200, 64
	var writers, readers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range each {
				_, _ = client.Write(make([]byte, size))
			}
		})
	}
	total := make(chan int, 4)
	for range 4 {
		readers.Go(func() {
			n, buf := 0, make([]byte, 100)
			for {
				k, err := server.Read(buf)
				n += k
				Arrival(server)
				if err != nil {
					total <- n
					return
				}
			}
		})
	}
	go func() { _, _ = server.Write(make([]byte, 1<<16)) }()
	go func() { _, _ = io.ReadFull(client, make([]byte, 1<<16)) }()
	writers.Wait()
	_ = client.(*net.TCPConn).CloseWrite()
	readers.Wait()
	sum := 0
	for range 4 {
		sum += <-total
	}
	if sum != 4*each*size {
		t.Errorf("read %d bytes, sent %d", sum, 4*each*size)
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	server, client := pair(t)
	out, in := []byte("x"), make([]byte, 16)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = client.Write(out)
		_, _ = server.Read(in)
		Arrival(server)
	}); n != 0 {
		t.Errorf("%v allocations a read, want 0", n)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, name := range []string{"stamped", "plain"} {
		b.Run(name, func(b *testing.B) {
			server, client := pair(b)
			if below, ok := server.(interface{ NetConn() net.Conn }); ok && name == "plain" {
				server = below.NetConn()
			}
			ctx, cancel := context.WithCancel(b.Context())
			var feeding sync.WaitGroup
			feeding.Go(func() {
				out := make([]byte, 1<<16)
				for ctx.Err() == nil {
					if _, err := client.Write(out); err != nil {
						return
					}
				}
			})
			in := make([]byte, 100)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = server.Read(in)
			}
			cancel()
			server.Close()
			feeding.Wait()
		})
	}
}
