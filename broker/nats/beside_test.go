package nats

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"

	"github.com/spillgate/spillgate/broker/access"
)

// Options that clients send.
const (
	said     = "CONNECT {}\r\n"
	brief    = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true}\r\n"
	end      = "PING\r\n"
	headed   = "HPUB a 18 19\r\nNATS/1.0\r\nK: v\r\n\r\nx\r\n"
	question = "SUB r 1\r\nPUB nobody r 0\r\n\r\n"
)

// besides are lines that are answered as nats-server answers them, byte for byte.
var besides = []string{
	end, said + end, brief + end, said + said + end, "ping\r\nPiNg\r\n" + end, "PING\n" + end, "PING \r\n" + end,
	"CONNECT {\"x\":1}\r\n" + end, "CONNECT {\"protocol\":1}\r\n" + end, "CONNECT {\"protocol\":7}\r\n" + end, "CONNECT {\"protocol\":-1}\r\n" + end,
	"CONNECT {\"no_responders\":true}\r\n" + end, "CONNECT {\"verbose\":false}\r\nCONNECT {}\r\nPUB a 0\r\n\r\n" + end,
	// Acknowledgements of a verbose client, which one is that says nothing.
	"PUB a 0\r\n\r\n" + end, "SUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1\r\n" + end, said + "UNSUB 9\r\n" + end, said + "PONG\r\n+OK\r\nINFO {}\r\n" + end,
	// Blanks, cases, line ends.
	said + "pub a 0\r\n\r\nsub b 1\r\nunsub 1\r\n" + end, brief + "PUB\ta\t0\r\n\r\n" + end, brief + "SUB  a   1\r\nPUB a   1  \r\nx\r\n" + end, brief + "SUB a 1\nPUB a 1\nx\r\n" + end,
	// Subscriptions.
	brief + "SUB a 1\r\nPUB a b 1\r\nx\r\n" + end, brief + "SUB a q 1\r\nPUB a b 1\r\nx\r\n" + end, brief + "SUB a q/+ 1\r\nPUB a 0\r\n\r\n" + end,
	brief + "SUB a 1\r\nSUB a 1\r\nPUB a 0\r\n\r\n" + end, brief + "SUB a 1\r\nSUB b 1\r\nPUB b 0\r\n\r\n" + end,
	brief + "SUB a 1\r\nUNSUB 1 2\r\nPUB a 0\r\n\r\nPUB a 0\r\n\r\nPUB a 0\r\n\r\n" + end, brief + "SUB a 1\r\nPUB a 0\r\n\r\nPUB a 0\r\n\r\nUNSUB 1 1\r\nPUB a 0\r\n\r\n" + end,
	brief + "SUB > 1\r\nPUB a.b 0\r\n\r\n" + end, brief + "SUB * 1\r\nPUB a 0\r\n\r\nPUB a.b 0\r\n\r\n" + end, brief + "SUB a.* 1\r\nSUB a.> 2\r\nPUB a 0\r\n\r\n" + end,
	brief + "SUB a*b 1\r\nPUB a*b 0\r\n\r\n" + end, brief + "SUB a/b 1\r\nPUB a/b 0\r\n\r\n" + end, brief + "SUB $a 1\r\nPUB $a 0\r\n\r\n" + end,
	said + "SUB a..b 1\r\n" + end, brief + "SUB .a 1\r\n" + end, brief + "SUB a. 1\r\n" + end, brief + "SUB a.>.b 1\r\n" + end,
	said + "SUB a 1\r\nSUB a 2\r\nSUB a 3\r\nSUB a 4\r\n" + end,
	"CONNECT {\"verbose\":false,\"echo\":false,\"protocol\":1}\r\nSUB a 1\r\nPUB a 0\r\n\r\n" + end,
	// Sizes.
	said + "PUB a 1001\r\n", said + "PUB a 1000\r\n" + strings.Repeat("x", 1000) + "\r\n" + end, said + "PUB " + strings.Repeat("a", 5000), said + "SUB " + strings.Repeat("a", 4096) + " 1\r\n" + end,
	// Headers and requests that nobody gets.
	brief + "SUB a 1\r\n" + headed + end, "CONNECT {\"verbose\":false,\"headers\":true}\r\n" + question + end, "CONNECT {\"verbose\":false}\r\n" + question + end, brief + question + end,
	// No commands.
	"hello\r\n", "PI\r\n", " PING\r\n", "\r\n", "GET / HTTP/1.1\r\n\r\n",
}

func TestBesideServer(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxPayload: 1000, MaxSubs: 3, MaxControlLine: maxLine})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(patience) {
		t.Fatal("nats-server does not start")
	}
	_, ours, _ := start(t, access.Config{}, Limits{Payload: 1000, Subscriptions: 3})
	for _, say := range besides {
		if got, want := raw(t, ours, say), raw(t, s.Addr().String(), say); got != want {
			t.Errorf("%.120q is answered\n%.200q, by nats-server\n%.200q", say, got, want)
		}
	}
}

// A client learns that the server leaves, and goes to another one when it has left. One that does not understand that is not told.
func TestLeaving(t *testing.T) {
	srv, addr, _ := start(t, access.Config{}, Limits{})
	_, other, _ := start(t, access.Config{}, Limits{})
	told, again := make(chan struct{}, 1), make(chan struct{}, 1)
	nc, err := client.Connect("nats://"+addr+",nats://"+other, client.DontRandomize(), client.Timeout(patience), client.ReconnectWait(1), client.MaxReconnects(-1),
		client.LameDuckModeHandler(func(*client.Conn) { told <- struct{}{} }), client.ReconnectHandler(func(*client.Conn) { again <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	old, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	_ = old.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(old, said+end); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(old)
	for line := ""; line != "PONG\r\n"; {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	s := subscribed(t, nc, "a")
	srv.Leaving()
	comes(t, "the client is told", told)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if told, err := io.ReadAll(lines); err != nil || len(told) > 0 {
		t.Errorf("one that does not understand it is told %q, %v", told, err)
	}
	comes(t, "the client is connected again", again)
	if err := nc.Publish("a", nil); err != nil {
		t.Fatal(err)
	}
	next(t, s, "a=")
}

// comes waits for a sign.
func comes(t *testing.T, what string, sign <-chan struct{}) {
	t.Helper()
	select {
	case <-sign:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
}
