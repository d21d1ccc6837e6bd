package freeport

import (
	"net"
	"testing"
)

// TestListen: ports that are held differ, are below those of connections, and can be listened on once they were closed.
func TestListen(t *testing.T) {
	held := map[int]net.Listener{}
	for range 200 {
		l, err := Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		if held[port] != nil || port < first || port > last {
			t.Errorf("port %d, expected another from %d to %d", port, first, last)
		}
		held[port] = l
	}
	for _, l := range held {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := net.Listen("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		break
	}
}
