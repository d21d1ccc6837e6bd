package nats

import (
	"fmt"
	"time"

	"github.com/spillgate/spillgate/broker/link"
)

// Limits bound what clients may take. Zero fields take the default.
type Limits struct {
	// Connections is the most connections at once. Default 20,000. What comes beyond
	// is closed at once.
	Connections int
	// Payload is the most bytes of a message, with its header. Default 1 MiB. A larger
	// one closes the connection with "Maximum Payload Violation".
	Payload int
	// Outbound is the most bytes that wait for one client's socket. Default 8 MiB. A
	// message that finds no room is dropped and counted; a client that lets twice as
	// much of other answers pile up is disconnected.
	Outbound int
	// Subscriptions is the most subscriptions of one connection. Default 1,000. The
	// next is answered "maximum subscriptions exceeded".
	Subscriptions int
	// Topics is the most topics that one connection makes and that are not forgotten.
	// Default 10,000. A message to a further one is refused.
	Topics int
	// StreamBytes is the most bytes of one stream of JetStream, and what one has that asks for no
	// limit: NATS sets as much of the disk aside. Default 256 MiB.
	StreamBytes int
	// Connect is how long a client may take to send CONNECT, TLS included. Default
	// 10 s. Then it is disconnected.
	Connect time.Duration
	// Stall is how long a client that is behind may read nothing at all. Default
	// 30 s. Then it is disconnected.
	Stall time.Duration
	// Ping is how often a client is asked whether it is there. Default 2 min. One that
	// was silent for two of them is disconnected with "Stale Connection".
	Ping time.Duration
}

// fields are those of l, by their names in configuration files.
func (l *Limits) fields() link.Limits {
	var f link.Limits
	f.Number("connections", &l.Connections, 20_000, 1, 1_000_000, "connections")
	f.Number("payload", &l.Payload, 1<<20, 128, 64<<20, "bytes")
	f.Number("outbound", &l.Outbound, 8<<20, 4096, 1<<30, "bytes")
	f.Number("subscriptions", &l.Subscriptions, 1000, 1, 1_000_000, "subscriptions")
	f.Number("topics", &l.Topics, 10_000, 1, 10_000_000, "topics")
	f.Number("stream_bytes", &l.StreamBytes, 256<<20, 1<<20, 1<<50, "bytes")
	f.Duration("connect", &l.Connect, 10*time.Second, 24*time.Hour)
	f.Duration("stall", &l.Stall, 30*time.Second, 24*time.Hour)
	f.Duration("ping", &l.Ping, 2*time.Minute, 24*time.Hour)
	return f
}

// WithDefaults returns l with the defaults filled in.
func (l Limits) WithDefaults() Limits {
	l.fields().Fill()
	return l
}

// Check calls wrong for every mistake in l: the field as configuration files name
// it, what was found and what was expected.
func (l Limits) Check(wrong func(field, value, want string)) {
	l.fields().Check(wrong)
	if full := l.WithDefaults(); full.Outbound < full.Payload+maxLine {
		wrong("outbound", fmt.Sprint(full.Outbound), fmt.Sprintf("at least payload and %d, which is %d: a larger message could never be sent on", maxLine, full.Payload+maxLine))
	}
}
