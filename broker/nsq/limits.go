package nsq

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
	// Stored is the most channels that the clients of one user make at this node where messages are stored, those of all anonymous clients
	// together: the cluster has about 2,000, with the shared subscriptions of MQTT. Default 500. The next SUB that needs a new one gets
	// E_BAD_CHANNEL.
	Stored int
	// ChannelExpiry is how long a channel lives without consumers. Default one day.
	ChannelExpiry time.Duration
	// Queue is the most messages of one channel that are not finished. Default 10,000.
	// What comes beyond is dropped and counted, or waits where it is stored.
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

// fields are those of l, by their names in configuration files.
func (l *Limits) fields() link.Limits {
	var f link.Limits
	f.Number("connections", &l.Connections, 20_000, 1, 1_000_000, "connections")
	f.Number("message", &l.Message, 1<<20, 128, 64<<20, "bytes")
	f.Number("body", &l.Body, 5<<20, 128, 256<<20, "bytes")
	f.Number("unanswered", &l.Unanswered, 10_000, 1, 65_535, "commands")
	f.Number("ready", &l.Ready, 2500, 1, 1_000_000, "messages")
	f.Number("topics", &l.Topics, 10_000, 1, 10_000_000, "topics")
	f.Number("channels", &l.Channels, 10_000, 1, 1_000_000, "channels")
	f.Number("stored_channels", &l.Stored, 500, 1, 1_000_000, "channels")
	f.Number("queue", &l.Queue, 10_000, 1, 10_000_000, "messages")
	f.Number("queue_bytes", &l.QueueBytes, 16<<20, 1, 1<<34, "bytes")
	f.Number("deferred", &l.Deferred, 10_000, 1, 10_000_000, "messages")
	f.Number("deferred_bytes", &l.DeferredBytes, 16<<20, 1, 1<<34, "bytes")
	f.Number("outbound", &l.Outbound, 8<<20, 4096, 1<<30, "bytes")
	f.Duration("channel_expiry", &l.ChannelExpiry, 24*time.Hour, 365*24*time.Hour)
	f.Duration("message_timeout", &l.MessageTimeout, time.Minute, 365*24*time.Hour)
	f.Duration("max_timeout", &l.MaxTimeout, time.Hour, 365*24*time.Hour)
	f.Duration("connect", &l.Connect, 10*time.Second, 365*24*time.Hour)
	f.Duration("heartbeat", &l.Heartbeat, 30*time.Second, 365*24*time.Hour)
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
	if full.Outbound < full.Message+frameSize+messageHead {
		wrong("outbound", fmt.Sprint(full.Outbound), fmt.Sprintf("at least message and %d, which is %d: a larger message could never be sent on", frameSize+messageHead, full.Message+frameSize+messageHead))
	}
	if full.MessageTimeout > full.MaxTimeout {
		wrong("message_timeout", full.MessageTimeout.String(), "at most max_timeout, which is "+full.MaxTimeout.String())
	}
}
