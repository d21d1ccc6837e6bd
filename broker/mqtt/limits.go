package mqtt

import (
	"fmt"
	"time"
)

// Limits bound what clients may take. Zero fields take the default.
type Limits struct {
	// Connections is the most connections at once. Default 20,000. What comes beyond
	// is closed at once.
	Connections int
	// Sessions is the most sessions, connected or not. Default 100,000. Beyond, a
	// client that is not known gets reason code 0x97.
	Sessions int
	// SessionExpiry is the longest that a session lives without a connection.
	// Default one day. Clients that ask for longer are told.
	SessionExpiry time.Duration
	// Packet is the largest packet, in bytes. Default 256 KiB. A larger one gets
	// 0x95.
	Packet int
	// Inflight is the most messages of QoS 1 and 2 that one client may have without
	// an acknowledgement, in each direction: the Receive Maximum. Default 1,000, at
	// most 65,535. A client that sends more gets 0x93.
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

// WithDefaults returns l with the defaults filled in.
func (l Limits) WithDefaults() Limits {
	for _, f := range [...]struct {
		n     *int
		value int
	}{{&l.Connections, 20_000}, {&l.Sessions, 100_000}, {&l.Packet, 256 << 10}, {&l.Inflight, 1000}, {&l.Queue, 1000},
		{&l.QueueBytes, 4 << 20}, {&l.Outbound, 1 << 20}, {&l.Subscriptions, 1000}, {&l.Topics, 10_000}} {
		if *f.n == 0 {
			*f.n = f.value
		}
	}
	for _, f := range [...]struct {
		d     *time.Duration
		value time.Duration
	}{{&l.SessionExpiry, 24 * time.Hour}, {&l.Connect, 10 * time.Second}, {&l.Stall, 30 * time.Second}} {
		if *f.d == 0 {
			*f.d = f.value
		}
	}
	return l
}

// Check calls wrong for every mistake in l: the field as configuration files name
// it, what was found and what was expected.
func (l Limits) Check(wrong func(field, value, want string)) {
	for _, f := range [...]struct {
		name        string
		n           int
		least, most int
		unit        string
	}{
		{"connections", l.Connections, 1, 1_000_000, "connections"},
		{"sessions", l.Sessions, 1, 10_000_000, "sessions"},
		{"packet", l.Packet, 128, 256<<20 - 1, "bytes"},
		{"inflight", l.Inflight, 1, 65_535, "messages"},
		{"queue", l.Queue, 1, 10_000_000, "messages"},
		{"queue_bytes", l.QueueBytes, 1, 1 << 34, "bytes"},
		{"outbound", l.Outbound, 4096, 1 << 30, "bytes"},
		{"subscriptions", l.Subscriptions, 1, 1_000_000, "subscriptions"},
		{"topics", l.Topics, 1, 10_000_000, "topics"},
	} {
		if f.n != 0 && (f.n < f.least || f.n > f.most) {
			wrong(f.name, fmt.Sprint(f.n), fmt.Sprintf("%d to %d %s, or 0 for the default", f.least, f.most, f.unit))
		}
	}
	full := l.WithDefaults()
	if full.Outbound < full.Packet {
		wrong("outbound", fmt.Sprint(full.Outbound), fmt.Sprintf("at least packet, which is %d: a larger packet could never be sent on", full.Packet))
	}
	for _, f := range [...]struct {
		name string
		d    time.Duration
	}{{"session_expiry", l.SessionExpiry}, {"connect", l.Connect}, {"stall", l.Stall}} {
		if f.d < 0 || f.d > 365*24*time.Hour {
			wrong(f.name, f.d.String(), "above 0 and at most 8760h, or 0 for the default")
		}
	}
}
