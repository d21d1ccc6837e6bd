package fastrpc_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/fastrpc"
)

// A server registers handlers of bytes, and a client calls them by name.
func Example() {
	gate := spillgate.MustNew(time.Second)
	defer gate.Close()
	server, err := fastrpc.NewServer(fastrpc.ServerConfig{Gate: gate})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.HandleInline("upper", func(_ context.Context, in, out []byte) ([]byte, error) { // microseconds, never waits
		for _, b := range in {
			out = append(out, b-'a'+'A')
		}
		return out, nil
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = server.Serve(listener) }() // returns when the server is closed
	defer server.Close()

	client, err := fastrpc.Dial(context.Background(), fastrpc.ClientConfig{}, listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	upper := client.Method("upper")
	answer, err := upper.Call(context.Background(), []byte("hello"), nil)
	fmt.Println(string(answer), err)
	// Output:
	// HELLO <nil>
}
