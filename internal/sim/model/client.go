package model

import (
	"math/rand/v2"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// The purposes for which clients draw chance.
const (
	drawArrivals sim.Stream = iota
	drawWork
	drawNetwork
	drawRetry
	drawChurn
	drawFault
)

// client is one client with at most one connection.
type client struct {
	group    int
	kind     Kind
	arrivals arrivals
	work     *rand.Rand
	net      *rand.Rand
	retry    *rand.Rand
	churn    *rand.Rand

	sender baseline.Sender
	conn   int32 // counts connections; messages of older ones are dropped
	up     bool  // connected, as the client sees it
	away   bool  // it has left, and means to send nothing
	armed  mono.Time
	tokens float64 // retry budget
	// Messages of one direction keep their order.
	lastUp, lastDown mono.Time
	inside           int // requests not ended

	// The server's side.
	account  *credit.Client
	accepted bool // the server has seen connection conn

	stats ClientStats
}

// ClientStats is what became of one client's requests, from the start.
type ClientStats struct {
	Offered, Good, Sent int
	// LastGood is the instant of the last good answer.
	LastGood mono.Time
	// WaitingSince is the intended time of the first request since the last
	// good answer, mono.Never if there is none.
	WaitingSince mono.Time
}

// request is one request over all its attempts. A request object is used again
// once its client has done with it and no message or ticket of it is left.
type request struct {
	id       int32 // index in the slab
	gen      int32 // tells its uses apart
	client   int32
	conn     int32 // connection of the present attempt
	attempt  int
	intended mono.Time
	sent     mono.Time
	work     float64 // ns at nominal speed
	priority work.Priority
	demand   int
	waiter   credit.Waiter
	ticket   admission.Ticket
	feedback baseline.Feedback

	open     bool // the client still wants it
	phase    phase
	timed    bool // its giveUp is scheduled
	inNet    bool // a message or a ticket of it exists
	atServer ticketState
}

// phase is where the client's side of an open request is.
type phase uint8

const (
	backoff phase = iota // before its first or next attempt
	waiting              // in the sender
	sent
)

// ticketState is where the server's side of a request is.
type ticketState uint8

const (
	notHere ticketState = iota
	inQueue
	inStation // told to run
	abandoned // left the door, while the station works on
	answering // ended; a refusal's messages may still cost time
)

// flood sends everything at once.
type flood struct{}

var _ baseline.Sender = flood{}

// Submit sends the request.
func (flood) Submit(mono.Time, *credit.Waiter, work.Priority) (credit.Step, work.Reason) {
	return credit.Send, work.None
}

// Next: nothing ever waits.
func (flood) Next(mono.Time) (*credit.Waiter, credit.Step, work.Reason) {
	return nil, credit.Wait, work.None
}

// Cancel: nothing ever waits.
func (flood) Cancel(*credit.Waiter) bool { return false }

// Demand claims as much as a client can.
func (flood) Demand() int { return credit.WindowLimit }

// OnReply ignores it.
func (flood) OnReply(mono.Time, *credit.Waiter, time.Duration, baseline.Feedback) {}

// OnGrant ignores it.
func (flood) OnGrant(mono.Time, wire.Grant) {}

// NextWake: never.
func (flood) NextWake() mono.Time { return mono.Never }

// OnWake does nothing.
func (flood) OnWake(mono.Time) {}

// A Sender may implement these as well.
type (
	// reporter names demand to be told to the server although no request
	// carries it.
	reporter interface {
		NextDemand(now mono.Time) (int, bool)
	}
	// loser is told of a request whose answer will never come; others get a
	// reply that says canceled.
	loser interface{ OnLost(w *credit.Waiter) }
	// resetter is told that the connection is a new one.
	resetter interface{ Reset() }
)
