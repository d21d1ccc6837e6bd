package brokers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/mochi-mqtt/server/v2/packets"

	edge "github.com/spillgate/spillgate/broker/mqtt"
)

// publisher names the publisher of a stream.
func publisher(stream, n int) string { return fmt.Sprintf("p%d.%d", stream, n) }

// groupOf names the group of a publisher, empty where each sends on its own.
func groupOf(n, together int) string {
	if together <= 1 {
		return ""
	}
	return fmt.Sprint("g", n/together)
}

// dialing is how many publishers connect at a time.
const dialing = 50

// spread connects the publishers of one stream to the nodes, one after the other in
// turn, and where they follow, to where each belongs.
func (g *generator) spread() error {
	n := g.o.Streams[0].Publishers
	g.conns, g.first = make([]socket, n), []int{0, n}
	errs := make([]error, n)
	var all sync.WaitGroup
	room := make(chan struct{}, dialing)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			g.conns[i], errs[i] = g.enter(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// enter connects one publisher.
func (g *generator) enter(i int) (s socket, err error) {
	addr := g.o.Nodes[i/max(g.o.Dealt, 1)%len(g.o.Nodes)]
	for range len(g.o.Nodes) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return s, err
		}
		answer, err := g.hello(conn, i)
		if err != nil {
			return s, err
		}
		if answer.ReasonCode == 0 {
			return socketOf(conn)
		}
		conn.Close()
		if addr = answer.Properties.ServerReference; answer.ReasonCode != packets.ErrUseAnotherServer.Code || addr == "" {
			return s, fmt.Errorf("CONNECT was answered %#x", answer.ReasonCode)
		}
	}
	return s, fmt.Errorf("%s is sent from node to node", publisher(0, i))
}

// hello sends a CONNECT of MQTT 5, and returns its answer.
func (g *generator) hello(conn net.Conn, i int) (answer packets.Packet, err error) {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 5,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), ClientIdentifier: publisher(0, i), Clean: true}}
	if g.o.Follow {
		pk.Properties.User = []packets.UserProperty{{Key: edge.PropertyRedirect, Val: "1"}, {Key: edge.PropertyTopic, Val: placedTopic}}
		if group := groupOf(i, g.o.Together); group != "" {
			pk.Properties.User = append(pk.Properties.User, packets.UserProperty{Key: edge.PropertyGroup, Val: group})
		}
	}
	var out bytes.Buffer
	if err := pk.ConnectEncode(&out); err != nil {
		return answer, err
	}
	if _, err := conn.Write(out.Bytes()); err != nil {
		return answer, err
	}
	head := make([]byte, 2) // CONNACK is shorter than 128 bytes
	if _, err := io.ReadFull(conn, head); err != nil {
		return answer, err
	}
	body := make([]byte, head[1])
	if _, err := io.ReadFull(conn, body); err != nil {
		return answer, err
	}
	answer = packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connack, Remaining: len(body)}, ProtocolVersion: 5}
	return answer, answer.ConnackDecode(body)
}
