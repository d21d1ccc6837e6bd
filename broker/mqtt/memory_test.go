package mqtt

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/link"
)

// A message of any QoS, from the bytes of the publisher to those of the subscriber,
// allocates nothing.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools at random")
	}
	srv, addr := start(t, Limits{}, engine.Limit{Filter: "limited", Rate: 1e8, Burst: 1e6})
	sub := join(t, addr, v5, "sub")
	sub.subscribe("#", 0)
	done := make(chan struct{})
	_ = sub.nc.SetReadDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, sub.nc); close(done) }()

	near, far := sockets(t) // a pipe allocates for each deadline
	go func() { _, _ = io.Copy(io.Discard, far) }()
	c := &conn{srv: srv, nc: near, reader: link.NewReader(near), done: make(chan struct{}), batch: srv.hub.NewBatch(), maker: engine.NewMaker(1000), out: engine.NewOutbox(near, 1<<20, time.Second)}
	give := func(b []byte) {
		if used, _, err := c.handle(b); err != nil || used != len(b) {
			t.Fatal(used, err)
		}
	}
	var connect bytes.Buffer
	pk := &packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: v5,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: "pub", Clean: true}}
	if err := pk.ConnectEncode(&connect); err != nil {
		t.Fatal(err)
	}
	give(connect.Bytes())
	for _, topic := range []string{"free", "limited"} {
		for qos := range byte(3) {
			b := outgoingBytes(t, srv, topic, qos)
			if qos == 2 {
				b = appendAck(b, packets.Pubrel, v5, 7, 0)
			}
			for range 1000 {
				give(b)
			}
			if n := testing.AllocsPerRun(1000, func() { give(b) }); n > 0.1 {
				t.Errorf("%s, QoS %d: %v allocations a message", topic, qos, n)
			}
		}
	}
	srv.leave(c)
	close(c.done)
	sub.nc.Close()
	<-done
}

// sockets returns both ends of a connection.
func sockets(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if near, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

func outgoingBytes(t *testing.T, srv *Server, name string, qos byte) []byte {
	t.Helper()
	topic, err := srv.hub.Topic([]byte(name))
	if err != nil {
		t.Fatal(err)
	}
	return (&outgoing{m: &engine.Message{Topic: topic, Payload: make([]byte, 100)}, version: v5, qos: qos, id: 7}).append(nil)
}

// What an idle connection costs: its goroutine, its buffers and its session.
func TestIdleConnections(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector multiplies memory")
	}
	_, addr := start(t, Limits{})
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	const n = 400
	conns := make([]net.Conn, 0, n)
	before := inUse()
	for i := range n {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		conns = append(conns, nc)
		id := fmt.Sprintf("idle%03d", i)
		if _, err := nc.Write(append([]byte{0x10, byte(12 + len(id)), 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, byte(len(id))}, id...)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	each := (inUse() - before) / n
	t.Logf("%d bytes a connection, with the client's end of it", each)
	if each > 12<<10 {
		t.Errorf("an idle connection takes %d bytes, want at most 12 KiB", each)
	}
	runtime.KeepAlive(conns)
}
