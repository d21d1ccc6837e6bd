package nsq

import (
	"fmt"
	"time"
)

// Limits bound what clients may take. Zero fields take the default.
type Limits struct {
	// Connections is the most connections at once. Default 20,000. What comes beyond
	// is closed at once.
	Connections int
	// Message is the largest message, in bytes. Default 1 MiB. A larger one closes the
	// connection with E_BAD_MESSAGE.
	Message int
	// Body is the largest body of an MPUB, in bytes. Default 5 MiB. A larger one closes
	// the connection with E_BAD_BODY.
	Body int
	// Unanswered is the most publishing commands of one connection that wait for their
	// answer. Default 10,000, at most 65,535. The next closes the connection with
	// E_PUB_FAILED.
	Unanswered int
	// Ready is the highest RDY. Default 2,500. A higher one closes the connection with
	// E_INVALID.
	Ready int
	// Topics is the most topics that one connection makes and that are not forgotten.
	// Default 10,000. A message to a further one is answered E_PUB_FAILED.
	Topics int
	// Channels is the most channels. Default 10,000. The next SUB that needs a new one
	// gets E_BAD_CHANNEL.
	Channels int
	// ChannelExpiry is how long a channel lives without consumers. Default one day.
	ChannelExpiry time.Duration
	// Queue is the most messages of one channel that are not finished. Default 10,000.
	// What comes beyond is dropped and counted.
	Queue int
	// QueueBytes is the most bytes of those. Default 16 MiB.
	QueueBytes int
	// Deferred is the most messages of DPUB that are not due yet. Default 10,000. The
	// next gets E_DPUB_FAILED.
	Deferred int
	// DeferredBytes is the most bytes of those. Default 16 MiB.
	DeferredBytes int
	// Outbound is the most bytes that wait for one client's socket. Default 8 MiB. A
	// message that finds no room waits in its channel; a client that lets twice as
	// much pile up is disconnected.
	Outbound int
	// MessageTimeout is how long a consumer may take for a message, if it does not say.
	// Default 1 min. Then the message goes to another.
	MessageTimeout time.Duration
	// MaxTimeout is the longest that a consumer may ask for, by IDENTIFY or TOUCH, and
	// the longest delay of REQ and DPUB. Default 1 h.
	MaxTimeout time.Duration
	// Connect is how long a client may take for its first commands, TLS included.
	// Default 10 s. Then it is disconnected.
	Connect time.Duration
	// Heartbeat is how often a client is asked whether it is there, if it does not say.
	// Default 30 s. One that says nothing for two of them is disconnected.
	Heartbeat time.Duration
	// Stall is how long a client that is behind may read nothing at all. Default 30 s.
	// Then it is disconnected.
	Stall time.Duration
}

// WithDefaults returns l with the defaults filled in.
func (l Limits) WithDefaults() Limits {
	for _, f := range [...]struct {
		n     *int
		value int
	}{{&l.Connections, 20_000}, {&l.Message, 1 << 20}, {&l.Body, 5 << 20}, {&l.Unanswered, 10_000}, {&l.Ready, 2500}, {&l.Topics, 10_000}, {&l.Channels, 10_000},
		{&l.Queue, 10_000}, {&l.QueueBytes, 16 << 20}, {&l.Deferred, 10_000}, {&l.DeferredBytes, 16 << 20}, {&l.Outbound, 8 << 20}} {
		if *f.n == 0 {
			*f.n = f.value
		}
	}
	for _, f := range [...]struct {
		d     *time.Duration
		value time.Duration
	}{{&l.ChannelExpiry, 24 * time.Hour}, {&l.MessageTimeout, time.Minute}, {&l.MaxTimeout, time.Hour}, {&l.Connect, 10 * time.Second},
		{&l.Heartbeat, 30 * time.Second}, {&l.Stall, 30 * time.Second}} {
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
		{"message", l.Message, 128, 64 << 20, "bytes"},
		{"body", l.Body, 128, 256 << 20, "bytes"},
		{"unanswered", l.Unanswered, 1, 65_535, "commands"},
		{"ready", l.Ready, 1, 1_000_000, "messages"},
		{"topics", l.Topics, 1, 10_000_000, "topics"},
		{"channels", l.Channels, 1, 1_000_000, "channels"},
		{"queue", l.Queue, 1, 10_000_000, "messages"},
		{"queue_bytes", l.QueueBytes, 1, 1 << 34, "bytes"},
		{"deferred", l.Deferred, 1, 10_000_000, "messages"},
		{"deferred_bytes", l.DeferredBytes, 1, 1 << 34, "bytes"},
		{"outbound", l.Outbound, 4096, 1 << 30, "bytes"},
	} {
		if f.n != 0 && (f.n < f.least || f.n > f.most) {
			wrong(f.name, fmt.Sprint(f.n), fmt.Sprintf("%d to %d %s, or 0 for the default", f.least, f.most, f.unit))
		}
	}
	full := l.WithDefaults()
	if full.Outbound < full.Message+frameSize+messageHead {
		wrong("outbound", fmt.Sprint(full.Outbound), fmt.Sprintf("at least message and %d, which is %d: a larger message could never be sent on", frameSize+messageHead, full.Message+frameSize+messageHead))
	}
	for _, f := range [...]struct {
		name string
		d    time.Duration
	}{{"channel_expiry", l.ChannelExpiry}, {"message_timeout", l.MessageTimeout}, {"max_timeout", l.MaxTimeout}, {"connect", l.Connect}, {"heartbeat", l.Heartbeat}, {"stall", l.Stall}} {
		if f.d < 0 || f.d > 365*24*time.Hour {
			wrong(f.name, f.d.String(), "above 0 and at most 8760h, or 0 for the default")
		}
	}
	if full.MessageTimeout > full.MaxTimeout {
		wrong("message_timeout", full.MessageTimeout.String(), "at most max_timeout, which is "+full.MaxTimeout.String())
	}
}
