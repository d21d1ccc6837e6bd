package fastrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// welcomed accepts a connection and exchanges the prefaces.
func welcomed(l net.Listener, lanes uint32) (net.Conn, *inbox, error) {
	conn, err := l.Accept()
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(conn, make([]byte, prefaceLen)); err != nil {
		return conn, nil, err
	}
	_, err = conn.Write(preface{lowest: 1, highest: 1, credits: true, frame: leastFrame, lanes: lanes}.append(nil))
	return conn, &inbox{conn: conn, limit: leastFrame}, err
}

// nextRequest returns the next request, past other frames.
func nextRequest(in *inbox) (r request, err error) {
	for {
		f, err := in.next()
		if err != nil {
			return r, err
		}
		if f[0] == kindRequest {
			_, err = parseRequest(f, &r)
			return r, err
		}
	}
}

// grantOf is a grant frame.
func grantOf(seq, window uint32) []byte {
	return appendText(nil, kindGrant, wire.Reply{Grant: wire.Grant{Epoch: 1, Seq: seq, Window: window, Revive: time.Hour}, HasGrant: true}.Append(nil))
}

// A call that waits for a credit when the last connection goes knows that at once, as one does that comes then.
func TestWaitsEndWithTheLastConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, _, err := welcomed(l, 16)
		_ = l.Close() // the client finds nobody when it comes back
		if err == nil {
			_, _ = conn.Write(grantOf(1, 0))
		}
		accepted <- conn
	}()
	c := dial(t, ClientConfig{}, l.Addr().String())
	conn := <-accepted
	eventually(t, "the grant came", func() bool { n, credited := c.routes.Load().links[0].server.Window(); return credited && n == 0 })
	called := make(chan error, 1)
	go func() { _, err := c.Method("echo").Call(within(t), nil, nil); called <- err }()
	eventually(t, "the call waits", func() bool { return c.Waiting() == 1 })
	_ = conn.Close()
	if err := <-called; !errors.Is(err, ErrLost) {
		t.Errorf("the call returned %v", err)
	}
}

// A grant of more requests than a connection has lanes lets calls wait for a lane, and none is refused.
func TestGrantsBeyondTheLanes(t *testing.T) {
	const lanes, calls = 8, 64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end := make(chan error, 1)
	go func() {
		conn, in, err := welcomed(l, lanes)
		if err != nil {
			end <- err
			return
		}
		defer conn.Close()
		_, err = conn.Write(grantOf(1, 1000))
		seq := uint32(1)
		for served := 0; served < calls && err == nil; {
			var answers []byte
			for range lanes { // all lanes are taken before the first is free
				var r request
				if r, err = nextRequest(in); err != nil {
					break
				}
				seq++
				answers = (&response{stream: r.stream, granted: true, seq: seq, window: 1000}).append(answers, nil)
				served++
			}
			if err == nil {
				_, err = conn.Write(answers)
			}
		}
		end <- err
		_, _ = in.next()
	}()
	c := dial(t, ClientConfig{}, l.Addr().String())
	eventually(t, "the grant came", func() bool { _, credited := c.routes.Load().links[0].server.Window(); return credited })
	ended := make(chan error, calls)
	for range calls {
		go func() {
			_, err := c.Method("echo").Call(within(t), nil, nil)
			ended <- err
		}()
	}
	for range calls {
		if err := <-ended; err != nil {
			t.Fatalf("a call ended with %v", err)
		}
	}
	if err := <-end; err != nil {
		t.Error(err)
	}
}

// Shutdown returns when its context ends, also while a handler runs that does not listen.
func TestShutdownDoesNotWaitForHandlersForEver(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s, address := serve(t, ServerConfig{}, func(s *Server) {
		s.Handle("deaf", func(_ context.Context, _, out []byte) ([]byte, error) {
			close(entered)
			<-release
			return out, nil
		})
	})
	c := dial(t, ClientConfig{}, address)
	ended := make(chan error, 1)
	go func() { _, err := c.Method("deaf").Call(within(t), nil, nil); ended <- err }()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	shut := make(chan error, 1)
	go func() { shut <- s.Shutdown(ctx) }()
	select {
	case err := <-shut:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v", err)
		}
	case <-time.After(patience):
		t.Error("Shutdown does not return while a handler runs")
	}
	close(release)
	if err := <-ended; !errors.Is(err, ErrLost) {
		t.Errorf("the call returned %v", err)
	}
}

// A call on a connection whose last write failed, which its reader does not know yet, finds that it is lost.
func TestBrokenWritesAreLostConnections(t *testing.T) {
	_, address := serve(t, ServerConfig{}, echoes)
	c := dial(t, ClientConfig{}, address)
	out := &c.routes.Load().links[0].out
	out.mu.Lock()
	out.err = io.ErrClosedPipe
	out.mu.Unlock()
	if _, err := c.Method("echo").Call(within(t), nil, nil); !errors.Is(err, ErrLost) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the call returned %v", err)
	}
}

// A call returns when its context ends, also if the server has stopped to read and it was this call that wrote.
func TestCallsDoNotWaitForASlowReader(t *testing.T) {
	t.Run("plain", func(t *testing.T) { callSlowReader(t, nil, nil) })
	t.Run("encrypted", func(t *testing.T) {
		stand := httptest.NewTLSServer(nil) // which has a certificate for 127.0.0.1, and a client that trusts it
		defer stand.Close()
		trust := stand.Client().Transport.(*http.Transport).TLSClientConfig
		callSlowReader(t, &tls.Config{Certificates: stand.TLS.Certificates}, &tls.Config{RootCAs: trust.RootCAs})
	})
}

func callSlowReader(t *testing.T, own, trust *tls.Config) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if own != nil {
		l = tls.NewListener(l, own)
	}
	defer l.Close()
	read, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.ReadFull(conn, make([]byte, prefaceLen))
		_, _ = conn.Write(preface{lowest: 1, highest: 1, credits: true, frame: 1 << 20, lanes: MaxLanes}.append(nil))
		_, _ = conn.Write(grantOf(1, MaxLanes))
		<-read
		in := inbox{conn: conn, limit: 1 << 20}
		for {
			r, err := nextRequest(&in)
			if err != nil {
				return
			}
			if _, err := conn.Write((&response{stream: r.stream}).append(nil, nil)); err != nil {
				return
			}
		}
	}()
	c := dial(t, ClientConfig{WriteTimeout: 2 * patience, TLS: trust}, l.Addr().String())
	eventually(t, "the grant came", func() bool { _, credited := c.routes.Load().links[0].server.Window(); return credited })
	big := make([]byte, 64<<10)
	for full := false; !full; { // until the sockets are full, and what waits in the client
		const calls = 8
		ended := make(chan error, calls)
		for range calls {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				_, err := c.Method("echo").Call(ctx, big, nil)
				ended <- err
			}()
		}
		for range calls {
			select {
			case err := <-ended:
				var refusal *spillgate.Refusal
				if full = full || errors.As(err, &refusal) && refusal.Reason == spillgate.ReasonWalletFull; err == nil {
					t.Fatal("a call was answered")
				}
			case <-time.After(patience):
				t.Fatal("a call goes on after its deadline")
			}
		}
	}
	close(read) // what was written then arrives whole
	eventually(t, "everything is answered", func() bool { return c.routes.Load().links[0].flying.Load() == 0 })
	if _, err := c.Method("echo").Call(within(t), big, nil); err != nil {
		t.Errorf("a later call returned %v", err)
	}
	c.Close()
	<-done
}

// A gate that is turned off stops granting, and its clients stop waiting; turned on again it grants.
func TestGateTurnedOff(t *testing.T) {
	const calls = 100
	gate := newGate(t, spillgate.Config{})
	var running atomic.Int64
	release := make(chan struct{})
	_, address := serve(t, ServerConfig{Gate: gate}, func(s *Server) {
		echoes(s)
		s.Handle("hold", func(_ context.Context, _, out []byte) ([]byte, error) {
			running.Add(1)
			<-release
			return out, nil
		})
	})
	c := dial(t, ClientConfig{}, address)
	server := func() *live.Server { return c.routes.Load().links[0].server }
	eventually(t, "a grant came", func() bool { _, credited := server().Window(); return credited })
	gate.SetMode(spillgate.Off)
	for range plainForGood + 1 {
		if _, err := c.Method("echo").Call(within(t), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if _, err := c.Method("hold").Call(within(t), nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all calls run at once", func() bool { return running.Load() == calls })
	gate.SetMode(spillgate.Enforce)
	close(release)
	all.Wait()
	eventually(t, "a grant came again", func() bool {
		if _, err := c.Method("inline").Call(within(t), nil, nil); err != nil {
			t.Fatal(err)
		}
		_, credited := server().Window()
		return credited
	})
}

// A handler whose call further down was refused, and that says something else of it, has its outcome counted as that.
func TestRefusedFurtherDown(t *testing.T) {
	gate, below := newGate(t, spillgate.Config{}), newGate(t, spillgate.Config{})
	_, store := serve(t, ServerConfig{Gate: below}, echoes)
	below.Drain()
	down := dial(t, ClientConfig{}, store)
	_, address := serve(t, ServerConfig{Gate: gate}, func(s *Server) {
		s.Handle("ask", func(ctx context.Context, in, out []byte) ([]byte, error) {
			if _, err := down.Method("echo").Call(ctx, in, nil); err != nil && len(in) > 0 {
				return out, &Error{Code: 7, Message: "rewritten"}
			}
			return out, nil
		})
	})
	c := dial(t, ClientConfig{}, address)
	for _, in := range []string{"", "x", ""} { // without a request, the handler can do without the store
		_, err := c.Method("ask").Call(within(t), []byte(in), nil)
		var own *Error
		if (in != "") != (errors.As(err, &own) && own.Code == 7) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if s := gate.Stats().Served; s[spillgate.OutcomeDropped] != 1 || s[spillgate.OutcomeDone] != 2 {
		t.Errorf("served %v, expected one that was dropped and two that were done", s)
	}
}
