package nats

import (
	"fmt"
	"time"
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

// WithDefaults returns l with the defaults filled in.
func (l Limits) WithDefaults() Limits {
	for _, f := range [...]struct {
		n     *int
		value int
	}{{&l.Connections, 20_000}, {&l.Payload, 1 << 20}, {&l.Outbound, 8 << 20}, {&l.Subscriptions, 1000}, {&l.Topics, 10_000}} {
		if *f.n == 0 {
			*f.n = f.value
		}
	}
	for _, f := range [...]struct {
		d     *time.Duration
		value time.Duration
	}{{&l.Connect, 10 * time.Second}, {&l.Stall, 30 * time.Second}, {&l.Ping, 2 * time.Minute}} {
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
		{"payload", l.Payload, 128, 64 << 20, "bytes"},
		{"outbound", l.Outbound, 4096, 1 << 30, "bytes"},
		{"subscriptions", l.Subscriptions, 1, 1_000_000, "subscriptions"},
		{"topics", l.Topics, 1, 10_000_000, "topics"},
	} {
		if f.n != 0 && (f.n < f.least || f.n > f.most) {
			wrong(f.name, fmt.Sprint(f.n), fmt.Sprintf("%d to %d %s, or 0 for the default", f.least, f.most, f.unit))
		}
	}
	if full := l.WithDefaults(); full.Outbound < full.Payload+maxLine {
		wrong("outbound", fmt.Sprint(full.Outbound), fmt.Sprintf("at least payload and %d, which is %d: a larger message could never be sent on", maxLine, full.Payload+maxLine))
	}
	for _, f := range [...]struct {
		name string
		d    time.Duration
	}{{"connect", l.Connect}, {"stall", l.Stall}, {"ping", l.Ping}} {
		if f.d < 0 || f.d > 24*time.Hour {
			wrong(f.name, f.d.String(), "above 0 and at most 24h, or 0 for the default")
		}
	}
}
