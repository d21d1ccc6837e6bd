package world

import (
	"time"

	"github.com/spillgate/spillgate/internal/work"
)

// Group is a number of like clients.
type Group struct {
	Name string
	// Clients is how many processes there are, each with so many Connections, by
	// which they are accounted; default 1 and 1. With SharedAddress all clients
	// of the group come from one address: where there are no connections to tell
	// clients apart they are one.
	Clients, Connections int
	SharedAddress        bool
	// Kind is what they know of overload control.
	Kind Kind
	// ByReply clients hear of credits with answers alone, and tell of demand with requests alone, as over
	// HTTP. Others do both at any time, as over gRPC. Real processes do what their transport does.
	ByReply bool
	// Ask is what they ask for, each as often as its weight. At least one.
	Ask []Ask
	// Load is what all clients of the group together mean to send.
	Load Load
	// Arrive is the time in which they connect, evenly one after the other. Default
	// 0: all at the start.
	Arrive time.Duration
	// Churn makes connections come and go. Default: they stay.
	Churn Churn
	// Deadline is the time that callers allow, counted from the intended send
	// time. Default the objective; negative: they wait for ever.
	Deadline time.Duration
	// GiveUp is the mean of an exponential time after which callers give up, if that is
	// before the deadline. Unlike that, it is told nobody. Default 0: none does.
	GiveUp time.Duration
	// Cycle, if above 0, is after how many requests of the group the next ones ask for
	// the same work again, so that two parts of a run compare. Only real processes do.
	Cycle int
	// Patient clients take an answer however late it is. They tell services the
	// deadline all the same.
	Patient bool
	// Retry is how a refused request is sent again.
	Retry Retry
	// Workflow, Class and Priority are what the requests are tagged with. Default
	// the group's name, and the zero values.
	Workflow string
	Class    work.Class
	Priority work.Priority
	// Share is the weight of the workflow among workflows at the services asked.
	// Default 1.
	Share float64
}

// Churn is how long a connection stays, and how long it is away before the next, on
// average; both are exponential. Clients send nothing by a connection that is away,
// and forget what they had sent. Both are above 0, or both 0.
type Churn struct{ Stay, Away time.Duration }

// Kind is what clients know of overload control.
type Kind uint8

const (
	// Credits: clients with Spillgate's wallet.
	Credits Kind = iota
	// Plain clients know nothing, and send what they have.
	Plain
	// Greedy clients speak the protocol, and ignore every window.
	Greedy
	// Minting clients are greedy, and open a new connection for each request.
	Minting
)

// Ask is a method and how often it is asked for.
type Ask struct {
	Target
	// Weight is relative to the other methods of the group. Default 1.
	Weight float64
}

// Retry is how often and when a refused request is sent again. Only a refusal that
// says that nothing was executed is retried, and never past the deadline.
type Retry struct {
	// Attempts is the most of a request, the first one included. 0 or 1: no retry.
	Attempts int
	// Backoff is the mean of the wait before the first retry; it doubles each
	// time and is drawn between half and one and a half of that. A server's
	// pushback counts instead unless Stubborn.
	Backoff  time.Duration
	Stubborn bool
	// Budget is the share of successes that may be retried. 0: any number.
	Budget float64
}

// Load is what a group means to send over time. One of Steps, Users and Arrivals is
// set.
type Load struct {
	// Steps are rates, each from its instant to the next. The first is at 0.
	// Arrivals are a Poisson process.
	Steps []Rate
	// Users send their next request when the answer to the last is there and
	// Think, exponential, is over: a closed loop. A user that is refused in no time
	// at all waits for a millisecond.
	Users int
	Think time.Duration
	// Arrivals are instants of a trace, ascending, from the start of the run. The
	// trace starts again one mean gap after its last instant.
	Arrivals []time.Duration
}

// Rate is a rate from an instant on.
type Rate struct {
	At time.Duration
	// PerSecond are requests per second, if above 0; else Times the capacity of
	// the world for what the group asks. Both 0: nothing is sent.
	PerSecond, Times float64
	// With For and Every above 0 the rate is a burst: it holds for For, again each
	// Every, until the next step that is no burst. Between, the rate of the last
	// step that was no burst holds; the first step is none.
	For, Every time.Duration
}
