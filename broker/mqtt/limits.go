package mqtt

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
	// Sessions is the most sessions, connected or not; where they are stored, those of all nodes. Default 100,000.
	// Beyond, a client that is not known gets reason code 0x97.
	Sessions int
	// SessionExpiry is the longest that a session lives without a connection.
	// Default one day. Clients that ask for longer are told.
	SessionExpiry time.Duration
	// Packet is the largest packet, in bytes. Default 256 KiB. A larger one gets
	// 0x95.
	Packet int
	// Inflight is the most messages of QoS 1 and 2 that one client may have without
	// an acknowledgement, in each direction: the Receive Maximum. Default 1,000, at
	// most 65,535. A client that sends more gets 0x93. One of MQTT 3.1.1, which has no Receive Maximum, may send more, but
	// not of QoS 2 where its session is stored.
	Inflight int
	// Queue is the most messages of QoS 1 and 2 that wait for one session which is
	// away or has Inflight under way. Default 1,000. What comes beyond is dropped and
	// counted.
	Queue int
	// QueueBytes is the most bytes that wait there. Default 4 MiB.
	QueueBytes int
	// Outbound is the most bytes that wait for one client's socket. Default 1 MiB. A
	// message of QoS 0 that finds no room is dropped and counted; a client that lets
	// twice as much of other packets pile up is disconnected.
	Outbound int
	// Subscriptions is the most subscriptions of one session. Default 1,000. The
	// next is answered 0x97.
	Subscriptions int
	// Shared is the most shared subscriptions that the clients of one user, or one client without a user, make at this
	// node where messages are stored: the cluster has about 2,000. Default 200. The next is answered 0x97.
	Shared int
	// Topics is the most topics that one connection makes and that are not forgotten.
	// Default 10,000. A message to a further one is answered 0x97.
	Topics int
	// Connect is how long a client may take to send its CONNECT packet. Default
	// 10 s.
	Connect time.Duration
	// Stall is how long a client that is behind may read nothing at all. Default
	// 30 s. Then it is disconnected.
	Stall time.Duration
}

// fields are those of l, by their names in configuration files.
func (l *Limits) fields() link.Limits {
	var f link.Limits
	f.Number("connections", &l.Connections, 20_000, 1, 1_000_000, "connections")
	f.Number("sessions", &l.Sessions, 100_000, 1, 10_000_000, "sessions")
	f.Number("packet", &l.Packet, 256<<10, 128, 256<<20-1, "bytes")
	f.Number("inflight", &l.Inflight, 1000, 1, 65_535, "messages")
	f.Number("queue", &l.Queue, 1000, 1, 10_000_000, "messages")
	f.Number("queue_bytes", &l.QueueBytes, 4<<20, 1, 1<<34, "bytes")
	f.Number("outbound", &l.Outbound, 1<<20, 4096, 1<<30, "bytes")
	f.Number("subscriptions", &l.Subscriptions, 1000, 1, 1_000_000, "subscriptions")
	f.Number("shared", &l.Shared, 200, 1, 1_000_000, "subscriptions")
	f.Number("topics", &l.Topics, 10_000, 1, 10_000_000, "topics")
	f.Duration("session_expiry", &l.SessionExpiry, 24*time.Hour, 365*24*time.Hour)
	f.Duration("connect", &l.Connect, 10*time.Second, 365*24*time.Hour)
	f.Duration("stall", &l.Stall, 30*time.Second, 365*24*time.Hour)
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
	full := l.WithDefaults()
	if full.Outbound < full.Packet {
		wrong("outbound", fmt.Sprint(full.Outbound), fmt.Sprintf("at least packet, which is %d: a larger packet could never be sent on", full.Packet))
	}
}
