package grpcgate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// crowdEnv makes this test binary a crowd of clients: address and number.
const crowdEnv = "GRPCGATE_TEST_CROWD"

// TestMemoryPerClient measures what a client that obeys credits costs a server
// more than a plain one: heap and stacks in use, connections not counted. The
// clients are another process, so that only the server's half is seen. It fails
// beyond the bar of 1 KiB a client for 10,000 clients, of which as many have a
// control stream as the default limit allows.
func TestMemoryPerClient(t *testing.T) {
	if spec := os.Getenv(crowdEnv); spec != "" {
		crowd(t, spec)
		return
	}
	if raceEnabled {
		t.Skip("the race detector's own memory would be measured")
	}
	const clients, sample = 10_000, 256

	// Accounts, of connections that exist anyway.
	gate := newGate(t, admission.Config{})
	_, s := newServer(gate, nil)
	conns := make([]*connection, clients)
	for i := range conns {
		conns[i] = s.newConnection(&peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(10, 1, byte(i>>8), byte(i)), Port: 1}})
	}
	before := inUse()
	for i, c := range conns {
		c.open(live.Now(), uint64(i)+1)
	}
	account := (inUse() - before) / clients
	if got := gate.Stats().Clients; got != clients {
		t.Fatalf("%d accounts, expected %d", got, clients)
	}
	for _, c := range conns {
		c.end()
	}

	// Control streams, of real connections.
	real := serve(t, newGate(t, admission.Config{}), &echo{}, nil)
	cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryPerClient$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", crowdEnv, real.addr, sample))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	lines := bufio.NewScanner(out)
	expect := func(word string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == word {
				return
			}
		}
		t.Fatalf("the crowd ended before %q", word)
	}
	expect("connected")
	before = inUse()
	io.WriteString(in, "streams\n")
	expect("streaming")
	if got := real.gate.Stats().Clients; got != sample {
		t.Fatalf("%d accounts, expected %d", got, sample)
	}
	stream := (inUse() - before) / sample

	total := account + stream*float64(defaultControlLimit)/clients
	t.Logf("an account: %.0f B; a control stream: %.0f B; 10,000 clients with %d control streams: %.0f B a client", account, stream, defaultControlLimit, total)
	if total > 1024 {
		t.Errorf("%.0f B a client, the bar is 1,024", total)
	}
}

// inUse returns the bytes of heap and stacks in use.
func inUse() float64 {
	runtime.GC()
	time.Sleep(50 * time.Millisecond) // for what ends with the collection
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}

// crowd connects clients, which obey credits, and opens control streams when it
// is told to.
func crowd(t *testing.T, spec string) {
	var addr string
	var n int
	if _, err := fmt.Sscan(spec, &addr, &n); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(withTags(context.Background(), wire.Tags{Credits: true}), patience)
	defer cancel()
	var conns []*grpc.ClientConn
	for range n {
		conn := dial(t, addr)
		if _, err := call1(ctx, conn, "x"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	fmt.Println("connected")
	words := bufio.NewScanner(os.Stdin)
	for words.Scan() && strings.TrimSpace(words.Text()) == "streams" {
		for _, conn := range conns {
			ss, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, controlMethod)
			if err != nil {
				t.Fatal(err)
			}
			if err := ss.SendMsg(demandMessage(1)); err != nil {
				t.Fatal(err)
			}
			if _, err := ss.Header(); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Println("streaming")
	}
}
