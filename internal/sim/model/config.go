package model

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/baseline"
	"github.com/spillgate/spillgate/internal/mono"
)

// Config describes a world. Policy, Objective, Groups, Server.Cores,
// Server.Service.Mean and Length are required.
type Config struct {
	// Seed is the source of all chance. Any value.
	Seed uint64
	// Policy decides at the server and at the clients.
	Policy Policy
	// Objective is the latency objective, from the intended send time to the
	// answer; it is also every request's budget.
	Objective time.Duration
	// Deadline is what callers allow. Default Objective; negative: no deadline.
	Deadline time.Duration
	// Groups are the clients.
	Groups []Group
	// Server is the one server.
	Server Server
	// Network lies between every client and the server.
	Network Network
	// Retry is how clients of the well-behaved kind try again. Zero: never.
	Retry Retry
	// Faults happen at their instants.
	Faults []Fault
	// GiveUp makes clients cancel a sent request at its deadline, as an RPC
	// library does. Without it they wait for the late answer.
	GiveUp bool
	// Warmup is the time from the start whose requests are not counted in the
	// totals, though in the bins. Default 0.
	Warmup time.Duration
	// Length is the simulated time, warm-up included. Requests are counted up
	// to its end and the world stops there.
	Length time.Duration
	// Bin is the length of the bins of Report.Bins. Default 0: no bins.
	Bin time.Duration
	// Log, if not nil, gets a line per event. Errors of writing are returned
	// by Run.
	Log io.Writer
	// Hooks watch the world, for checks.
	Hooks Hooks
}

// Policy is a pair of policies under test. Constructors get the world's seed or
// one derived from it.
type Policy struct {
	// Name labels results.
	Name string
	// Ranked gives each request a priority by chance, from the best to the least.
	// Without it all have the best.
	Ranked bool
	// Door makes the server's policy, at the start and again when a server
	// that was killed restarts; life counts these from 0.
	Door func(seed uint64, life int) (baseline.Door, error)
	// Sender makes a client's policy for a new connection.
	Sender func(seed uint64, client int) (baseline.Sender, error)
}

// Hooks are called by a running world. Any may be nil. They must not change
// anything.
type Hooks struct {
	// Event is called after every event.
	Event func(w *World)
	// Decision is called when the door has decided about a ticket: on its
	// arrival, or, with queued true, when it left the door's queue.
	Decision func(w *World, t *admission.Ticket, v admission.Verdict, queued bool)
	// Canceled is called when a waiting ticket was taken out of the queue.
	Canceled func(w *World, t *admission.Ticket)
	// Restarted is called when the server got a new door.
	Restarted func(w *World)
}

// Group is a number of like clients.
type Group struct {
	// Name labels results.
	Name string
	// Clients is how many there are, each with one connection.
	Clients int
	// Load is what all clients of the group together mean to send.
	Load Load
	// Kind is how they behave. Default Honest.
	Kind Kind
	// Poll, if above 0, makes the requests of the group take so long and no core.
	Poll time.Duration
	// Churn makes clients come and go. Zero: they stay.
	Churn Churn
}

// Kind is how a client behaves towards its policy.
type Kind uint8

const (
	// Honest clients do what their Sender says.
	Honest Kind = iota
	// Flooding clients ignore their Sender and send everything at once.
	Flooding
	// Minting clients flood, and open a new connection, so a new identity, for
	// each request.
	Minting
)

// Churn is how long a client stays connected and away, on average; both are
// exponential. A client that is away sends nothing.
type Churn struct{ Stay, Away time.Duration }

// Server is the one server.
type Server struct {
	// Cores is the number of requests worked on at a time.
	Cores int
	// Service is the distribution of the work of a request.
	Service Service
	// Handle is core time that every executed request costs beside its service,
	// for receiving it and answering. Default 0: the service time includes it.
	Handle time.Duration
	// Message is core time per message outside executed requests: a refusal
	// costs two, a grant without a reply and a report of demand one each.
	// Default 500 ns, so that a refusal costs 1 µs (measured for pipelined RPC
	// in Go without a gRPC stack: 0.5 µs a call); negative: free.
	Message time.Duration
	// Deaf makes the door and the station two servers, as a proxy and an upstream
	// are that does not notice that nobody waits any more: a canceled request
	// leaves the door, and the station works on it to its end.
	Deaf bool
}

// Capacity returns the most requests per second the server can execute.
func (s Server) Capacity() float64 {
	return float64(s.Cores) / (s.Service.Mean + s.Handle).Seconds()
}

// Network is the way between clients and server.
type Network struct {
	// Delay is the time each way. Jitter adds an exponential time of that mean;
	// the messages of one connection and direction stay in order.
	Delay, Jitter time.Duration
	// LoseGrant, RepeatGrant and DelayGrant are the shares, 0 to 1, of grants
	// that get lost (also from replies), come a second time up to ten delays
	// later, and come up to ten delays late and so out of order.
	LoseGrant, RepeatGrant, DelayGrant float64
}

// Retry is how clients try again after a refusal that is retryable.
type Retry struct {
	// Max is the most retries of a request. Zero: none.
	Max int
	// Budget is the share of successes that may be retried. Default 0.1.
	Budget float64
	// Backoff is the mean of the wait before the first retry; it doubles each
	// time and is drawn between half and one and a half. Default a quarter of
	// the objective.
	Backoff time.Duration
}

// Fault is something that happens to the world at an instant.
type Fault struct {
	// At is the time from the start.
	At time.Duration
	// Speed, if above 0, becomes the speed of the server's cores; 1 is nominal.
	Speed float64
	// KillServer, if above 0, kills the server with all its state for so long.
	// Connections break at once.
	KillServer time.Duration
	// KillClients is the share, 0 to 1, of all clients that vanish without a
	// word. The server notices after Notice (default 100 ms); the clients come
	// back, with new connections, after Back, or never if that is 0.
	KillClients float64
	// Notice and Back belong to KillClients.
	Notice, Back time.Duration
}

func (c *Config) withDefaults() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("model: "+format, args...)) }
	if c.Policy.Door == nil || c.Policy.Sender == nil {
		bad("Policy %q lacks a constructor, expected Door and Sender", c.Policy.Name)
	}
	if c.Objective <= 0 {
		bad("Objective is %v, expected above 0", c.Objective)
	}
	if len(c.Groups) == 0 {
		bad("Groups is empty, expected at least one group of clients")
	}
	for _, g := range c.Groups {
		if g.Clients <= 0 {
			bad("group %q has %d clients, expected 1 or more", g.Name, g.Clients)
		}
		if err := g.Load.check(); err != nil {
			bad("group %q: %w", g.Name, err)
		}
		if g.Churn.Stay < 0 || g.Churn.Away < 0 || g.Churn.Stay > 0 && g.Churn.Away == 0 {
			bad("group %q has Churn %v, expected both times above 0, or both 0", g.Name, g.Churn)
		}
	}
	if c.Server.Cores <= 0 {
		bad("Server.Cores is %d, expected 1 or more", c.Server.Cores)
	}
	if c.Server.Service.Mean <= 0 {
		bad("Server.Service.Mean is %v, expected above 0", c.Server.Service.Mean)
	}
	if c.Server.Handle < 0 {
		bad("Server.Handle is %v, expected 0 or more", c.Server.Handle)
	}
	if c.Network.Delay < 0 || c.Network.Jitter < 0 {
		bad("Network.Delay and Jitter are %v and %v, expected 0 or more", c.Network.Delay, c.Network.Jitter)
	}
	for _, share := range []float64{c.Network.LoseGrant, c.Network.RepeatGrant, c.Network.DelayGrant} {
		if !(share >= 0 && share <= 1) {
			bad("a share of grants is %v, expected 0 to 1", share)
		}
	}
	if c.Length <= 0 || c.Warmup < 0 || c.Warmup >= c.Length {
		bad("Length is %v and Warmup %v, expected Length above Warmup, and both positive", c.Length, c.Warmup)
	}
	for _, f := range c.Faults {
		if f.At < 0 || f.Speed < 0 || f.KillServer < 0 || !(f.KillClients >= 0 && f.KillClients <= 1) {
			bad("fault %+v has a value out of range, expected times and speeds of 0 or more and a share of 0 to 1", f)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	switch {
	case c.Server.Message == 0:
		c.Server.Message = 500 * time.Nanosecond
	case c.Server.Message < 0:
		c.Server.Message = 0
	}
	if c.Deadline == 0 {
		c.Deadline = c.Objective
	}
	if c.Retry.Budget == 0 {
		c.Retry.Budget = 0.1
	}
	if c.Retry.Backoff == 0 {
		c.Retry.Backoff = c.Objective / 4
	}
	return nil
}

// origin is the instant at which a world starts: not zero, as a server is not
// started at the origin of its machine's clock.
const origin = mono.Time(time.Hour)
