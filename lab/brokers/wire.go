package brokers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// wire is a protocol as the generator speaks it. All messages have one size, so what a
// subscriber reads is split by counting bytes.
type wire struct {
	// open begins a connection of a client with a name, which subscribes to every topic
	// of the lab if it is the subscriber.
	open func(conn net.Conn, id string, subscribe bool) error
	// topic is the name of a topic's number, and head what stands before the payload of a
	// message that is sent, tail what stands after it.
	head, tail string
	// came is how many bytes a message has that comes, of which before stand before the
	// payload.
	came, before int
}

// protocols are those that contenders speak, NSQ only to connect.
var protocols = map[string]*wire{
	mqtt: {open: openMQTT, head: "\x30\x6c\x00\x06lab/%02d", came: 10 + payload, before: 10},
	// The subscriber's is 3.1.1.
	mqtt5: {open: openMQTT, head: "\x30\x6d\x00\x06lab/%02d\x00", came: 10 + payload, before: 10},
	nsq:   {open: openNSQ},
	nats:  {open: openNATS, head: "PUB lab.%02d 100\r\n", tail: "\r\n", came: 18 + payload + 2, before: 18},
}

// The protocols' names.
const (
	mqtt  = "mqtt"
	mqtt5 = "mqtt5"
	nats  = "nats"
	nsq   = "nsq"
)

// packet returns one message of a stream, whose payload begins with the stream's number
// and room for an instant, and where the payload is.
func (w *wire) packet(stream int) (b []byte, at int) {
	b = fmt.Appendf(nil, w.head, stream)
	at = len(b)
	b = append(append(b, make([]byte, payload)...), w.tail...)
	b[at] = byte(stream)
	return b, at
}

// openMQTT connects a client of MQTT 3.1.1.
func openMQTT(conn net.Conn, id string, subscribe bool) error {
	b := append([]byte{0x10, byte(12 + len(id)), 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, byte(len(id))}, id...)
	answers := 4
	if subscribe {
		b = append(b, 0x82, 10, 0, 1, 0, 5, 'l', 'a', 'b', '/', '#', 0)
		answers += 5
	}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	got := make([]byte, answers)
	if _, err := io.ReadFull(conn, got); err != nil || got[0] != 0x20 || got[3] != 0 {
		return fmt.Errorf("CONNECT was answered %x, %w", got, err)
	}
	return nil
}

// openNATS connects a client of NATS, and waits until the server has taken all.
func openNATS(conn net.Conn, _ string, subscribe bool) error {
	b := "CONNECT {\"verbose\":false,\"protocol\":0}\r\n"
	if subscribe {
		b += "SUB lab.> 1\r\n"
	}
	if _, err := conn.Write([]byte(b + "PING\r\n")); err != nil {
		return err
	}
	var got []byte
	for one := make([]byte, 1); !bytes.HasSuffix(got, []byte("PONG\r\n")); got = append(got, one[0]) {
		if _, err := conn.Read(one); err != nil {
			return fmt.Errorf("CONNECT was answered %q, %w", got, err)
		}
		if len(got) > 4096 {
			return errors.New("4,096 bytes without an answer to PING")
		}
	}
	return nil
}

// openNSQ connects a client of NSQ, which is a consumer of every client's channel if it subscribes.
func openNSQ(conn net.Conn, _ string, subscribe bool) error {
	b, answers := "  V2IDENTIFY\n\x00\x00\x00\x02{}", 1
	if subscribe {
		b += "SUB lab c#ephemeral\nRDY 1\n"
		answers++
	}
	if _, err := conn.Write([]byte(b)); err != nil {
		return err
	}
	const ok = "\x00\x00\x00\x06\x00\x00\x00\x00OK"
	got := make([]byte, answers*len(ok))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != strings.Repeat(ok, answers) {
		return fmt.Errorf("IDENTIFY was answered %q, %w", got, err)
	}
	return nil
}
