// Package spillgate decides, in front of a Go service, which requests run, which wait
// and which are refused, so that admitted requests are answered within the service's
// latency objective.
//
//	gate, err := spillgate.New(100 * time.Millisecond)
//	server := grpc.NewServer(grpcgate.ServerOptions(gate)...)     // gRPC
//	httpgate.Install(gate, server)                                // net/http
//	err = gate.Do(ctx, "resize", func(ctx context.Context) error { … }) // a job, a message of a queue
//
// One Gate stands in front of everything that a process serves with one capacity.
// Packages grpcgate and httpgate send requests through it, package telemetry has its
// metrics, and the command spillgate has a proxy for services in other languages.
//
// Invariants: the objective is the only setting that a Gate needs; all methods may be
// called from any goroutine.
//
// What this package does not do: it knows no protocol, and it has no settings of its
// own. It re-exports the types of packages under internal that a service's own code
// may have to name. Their comments here list what services use of them; go doc shows
// all fields and methods where they are declared:
//
//	go doc github.com/spillgate/spillgate/internal/live.Gate
//	go doc github.com/spillgate/spillgate/internal/live.GateConfig
package spillgate

import (
	"context"
	"errors"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// The types that a service's own code may have to name.
type (
	// Gate admits requests to a service. New and NewWith make one; the zero Gate and a nil one do not
	// work. All methods may be called at once from any goroutine.
	//
	//	Do(ctx, kind, fn) error       // run fn, or return a *Refusal without running it
	//	Drain()                       // refuse what comes; what waits or runs goes on
	//	Close() error                 // refuse what comes and what waits; what runs finishes. Again: nothing
	//	Objective() time.Duration
	//	SetObjective(d) error         // what the gate has learned stays
	//	SetMode(Mode)
	//	SetShare(workflow, n) bool    // of the slots, with Schedule.Fair; false: there is no room for the workflow
	//	SetWeight(Class, n) bool      // of the slots
	//	Stats() Stats
	//	Explain(id) (_, bool)         // why it refused the request with this Refusal.ID
	//	Calls() *Calls                // for the clients of the service's handlers
	//	Untagged()                    // for them as well: calls without the request's context
	Gate = live.Gate
	// Config is every setting of a Gate. Only Objective is required; each field says its default, at
	// internal/live.GateConfig.
	//
	//	Config       // the Admission: Objective, and what policies read
	//	Mode         // Enforce
	//	Service      // the service's name, for Rates
	//	Shares       // of the slots by workflow, with Schedule.Fair
	//	NoTurns      // false: while requests wait, clients take turns
	//	ClassShares  // nil: classes are not learned
	//	Culprit      // MonitorCulprits
	//	Learned      // what Gate.Learned of the gate before returned
	//	Observe      // is told the end of each request; telemetry.Gate.Observe
	Config = live.GateConfig
	// Admission is the part of Config that policies read: see internal/admission.Config.
	//
	//	Objective    // latency from arrival to answer. Required
	//	QueueLimit   // requests that wait, 10,000
	//	Slots        // bounds of the concurrency limit
	//	Schedule     // first in, first out
	//	Rates        // nil: workflows have no rates
	Admission = admission.Config
	// Slots bounds the requests that run at once; a field of Admission. Equal Min and Max fix the limit.
	//
	//	Initial      // before anything was measured, 64
	//	Min, Max     // 1 and 100,000
	Slots = slots.Config
	// Rates configures rates along a call graph; a field of Admission: see internal/rates.Config.
	//
	//	Policy       // BottleneckFair
	//	Terms        // weight and guarantee by workflow
	//	Period       // between two decisions, 100 ms
	Rates = rates.Config
	// Terms are what Rates grants one workflow.
	//
	//	Weight       // of its fair share, 1
	//	Guarantee    // requests per second below which it is never limited, 0
	Terms = rates.Terms
	// Schedule configures the order of waiting requests; a field of Admission: see internal/schedule.Config.
	//
	//	Order        // OrderFIFO
	//	Fair         // false: workflows share one queue
	//	Workflows    // workflows that Fair tells apart, 64
	//	Aging        // the age from which a request goes first, 5 s
	Schedule = schedule.Config
	// ClassShares lets a Gate learn which requests are interactive and give them a larger
	// share of the slots; a field of Config.
	ClassShares = live.SharesConfig
	// Wallet configures the queue in which a client's requests wait for credits, for
	// grpcgate.WithWallet and httpgate.Wallet.
	//
	//	QueueLimit   // requests that wait, 1,024
	//	MaxWait      // for a credit; by default a sixth of the deadline or of the objective
	Wallet = credit.WalletConfig
	// Mode says whether a Gate enforces its decisions.
	Mode = live.Mode
	// Refusal is the error (errors.As) of a request that was refused, by a Gate or by a client before it
	// was sent. errors.Is finds the cause in it if the caller's context had ended.
	//
	//	ID           // what Explain and spillgate explain know it by; 0 if the client refused it
	//	Reason       // why
	//	Pushback     // how long to wait before another attempt; negative: it is of no use
	Refusal = live.Refusal
	// Reason says why a request was refused.
	//
	//	String() string     // the name in metrics and docs/faq.md, such as delay
	//	Retryable() bool    // another attempt can help
	//	Sent() bool         // a server refused it; false: the client did, unsent
	Reason = work.Reason
	// Outcome says how an admitted request ended; see httpgate.SetOutcome.
	Outcome = work.Outcome
	// Tags is what a caller says about a request, and the result of a Classifier.
	//
	//	Workflow     // a name; empty: the default workflow
	//	Class        // Default
	//	Priority     // 0, the best, to 127
	Tags = wire.Tags
	// Class is a kind of requests with its own share of the slots.
	Class = work.Class
	// Calls counts the outcomes of the requests that a program sends. Ready as its zero value.
	Calls = live.Calls
	// Stats is what a Gate counted, and its state at one instant.
	//
	//	Waiting, Running   // requests in the queue and in slots
	//	Limit              // the most that may run at once
	//	Delay              // queueing delay now
	//	Service            // estimate of the time that a request takes without queueing
	//	Unreachable        // the service takes longer than the objective where nothing waits
	Stats = live.Stats
	// Culprit configures how a Gate treats a request that blocks others; a field of
	// Config: see internal/live.CulpritConfig.
	//
	//	Mode         // MonitorCulprits
	//	Audit        // an io.Writer for a line of JSON per decision
	//	Notify       // is told what is decided
	Culprit = live.CulpritConfig
	// CulpritNotice is what a Gate reports about such requests.
	CulpritNotice = live.CulpritNotice
)

// The modes. Enforce refuses; Monitor decides and counts but refuses nothing; Off does
// not decide.
const (
	Enforce = live.Enforce
	Monitor = live.Monitor
	Off     = live.Off
)

// The orders of Schedule. Priority comes before each. All but OrderFIFO believe the deadlines and sizes that callers send.
const (
	OrderFIFO = schedule.FIFO // first in, first out
	OrderEDF  = schedule.EDF  // the earliest deadline first
	OrderLSTF = schedule.LSTF // the least slack: deadline less remaining work
	OrderSJF  = schedule.SJF  // the least work in total
	OrderSRTF = schedule.SRTF // the least work that remains
	OrderLASF = schedule.LASF // the least work so far
)

// The policies of Rates: how a short resource is divided among workflows.
const (
	BottleneckFair = rates.BottleneckFair // under overload alone, by weight
	MaxMinFair     = rates.MaxMinFair     // at all times, by weight
	DominantFair   = rates.DominantFair   // at all times, by the resource that each workflow needs most
)

// The modes of Culprit. The default, MonitorCulprits, names the request that blocks
// others; EnforceCulprits cancels its context.
const (
	MonitorCulprits = culprit.Monitor
	EnforceCulprits = culprit.Enforce
	IgnoreCulprits  = culprit.Off
)

// The reasons of a Refusal. docs/faq.md says what each means for a caller, and what to do.
const (
	ReasonWalletFull    = work.WalletFull
	ReasonWalletExpired = work.WalletExpired
	ReasonRetryBudget   = work.RetryBudget
	ReasonExpired       = work.Expired
	ReasonInfeasible    = work.Infeasible
	ReasonDelay         = work.Delay
	ReasonQueueFull     = work.QueueFull
	ReasonShare         = work.Share
	ReasonDraining      = work.Draining
	ReasonCanceled      = work.Canceled
	ReasonDownstream    = work.Downstream
	ReasonRate          = work.Rate
	ReasonCulprit       = work.Culprit
)

// The outcomes that a handler may report. OutcomeDone: the work was executed, also if its answer is an error.
// OutcomeIgnored: the request ended in a way that says nothing about this service's speed, such as a failure
// to reach another one. OutcomeDropped: a service further down refused.
const (
	OutcomeDone    = work.Done
	OutcomeIgnored = work.Ignored
	OutcomeDropped = work.Dropped
)

// ErrCancelled is the cause (errors.Is) of the context of a request that was cancelled
// because it blocked others.
var ErrCancelled = live.ErrCancelled

// The classes. Requests of class Interactive go on to other services while a
// person waits.
const (
	Default     = work.Default
	Interactive = work.Interactive
)

// LeastObjective is the shortest objective that a Gate may have: no answer comes through a socket
// in less, and a time.Duration without a unit is far below.
const LeastObjective = live.LeastObjective

// New returns an open gate for a service that should answer within objective, counted
// from the arrival of a request. The gate measures everything else while the service
// runs. An objective below LeastObjective is an error.
func New(objective time.Duration) (*Gate, error) {
	return NewWith(Config{Config: Admission{Objective: objective}})
}

// MustNew is New for an objective that the program's text says, and panics with New's error.
func MustNew(objective time.Duration) *Gate {
	gate, err := New(objective)
	if err != nil {
		panic(err)
	}
	return gate
}

// NewWith returns an open gate as cfg describes it, or every mistake in cfg.
func NewWith(cfg Config) (*Gate, error) {
	gate, err := live.NewGate(cfg)
	if wrong := live.CheckObjective(cfg.Objective); wrong != nil {
		if err == nil {
			_ = gate.Close()
		}
		return nil, errors.Join(wrong, err)
	}
	return gate, err
}

// WithTags returns a context whose requests carry the workflow, class and priority of tags: those that
// grpcgate and httpgate clients send with it, and work that Gate.Do runs. Servers believe them only of the clients
// that they trust. In a handler the context of the request has its tags already.
func WithTags(ctx context.Context, tags Tags) context.Context { return live.WithTags(ctx, tags) }

// TagsFrom returns the tags of the request that ctx belongs to, as its server believes them; zero Tags if it has none.
func TagsFrom(ctx context.Context) Tags { return live.TagsFrom(ctx) }
