// Package spillgate decides, in front of a Go service, which requests run, which
// wait and which are refused, so that those that are served stay within the
// service's latency objective.
//
//	gate, err := spillgate.New(100 * time.Millisecond)
//	server := grpc.NewServer(grpcgate.ServerOptions(gate)...)     // gRPC
//	handler := httpgate.Handler(gate, mux)                        // net/http
//	err = gate.Do(ctx, "resize", func(ctx context.Context) error { … }) // a job, a message of a queue
//
// One Gate stands in front of everything a process serves with one capacity.
// Packages grpcgate and httpgate put requests through it, telemetry shows what
// it does, and command spillgate has a proxy for services in other languages.
//
// Invariants: a Gate needs to be told nothing but the objective; all methods may
// be called from any goroutine.
//
// What this package does not do: it knows no protocol, and it has no settings of
// its own. Its names are those of the packages under internal that a service
// needs to spell out.
package spillgate

import (
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/credit"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// The types that a service's own code may have to name.
type (
	// Gate admits requests to a service.
	Gate = live.Gate
	// Config is every setting of a Gate. Only Objective is required; each field
	// says its default.
	Config = live.GateConfig
	// Admission is the part of Config that policies read.
	Admission = admission.Config
	// Rates is what Config takes for rates along a call graph.
	Rates = rates.Config
	// Schedule is what Config takes for the order of waiting requests.
	Schedule = schedule.Config
	// ClassShares is what Config takes for interactive requests, which a Gate then tells
	// from others by itself.
	ClassShares = live.SharesConfig
	// Wallet is what a client's side of a connection takes.
	Wallet = credit.WalletConfig
	// Mode is how far a Gate's decisions go.
	Mode = live.Mode
	// Refusal is the error of a request that a Gate, or the client's side of
	// one, refused.
	Refusal = live.Refusal
	// Reason says why.
	Reason = work.Reason
	// Tags is what a caller claims about a request, and what a Classifier makes
	// of it.
	Tags = wire.Tags
	// Class is a kind of work with its own share of a service.
	Class = work.Class
	// Calls counts what becomes of the requests that a program sends.
	Calls = live.Calls
	// Stats is what a Gate counted.
	Stats = live.Stats
	// Culprit is what Config takes for requests that keep others waiting.
	Culprit = live.CulpritConfig
	// CulpritNotice is what a Gate tells of them.
	CulpritNotice = live.CulpritNotice
)

// The modes. Monitor decides, counts and refuses nothing; Off does not decide.
const (
	Enforce = live.Enforce
	Monitor = live.Monitor
	Off     = live.Off
)

// The modes of Culprit. The default, MonitorCulprits, names the request that keeps others
// waiting; EnforceCulprits cancels it, through its context.
const (
	MonitorCulprits = culprit.Monitor
	EnforceCulprits = culprit.Enforce
	IgnoreCulprits  = culprit.Off
)

// ErrCancelled is the cause, to errors.Is, of the context of a request that was cancelled
// because others waited for what it held.
var ErrCancelled = live.ErrCancelled

// The classes. Requests of class Interactive go on to other services while a
// person waits.
const (
	Default     = work.Default
	Interactive = work.Interactive
)

// New returns an open gate for a service whose callers are to see an answer
// within objective, counted from the arrival of a request. It measures all else
// while the service runs. An objective that is not above 0 is an error.
func New(objective time.Duration) (*Gate, error) {
	return NewWith(Config{Config: Admission{Objective: objective}})
}

// NewWith returns an open gate as cfg describes it, or every mistake in cfg.
func NewWith(cfg Config) (*Gate, error) { return live.NewGate(cfg) }
