// Package spillgate decides, in front of a Go service, which requests run, which wait
// and which are refused, so that admitted requests are answered within the service's
// latency objective.
//
//	gate, err := spillgate.New(100 * time.Millisecond)
//	server := grpc.NewServer(grpcgate.ServerOptions(gate)...)     // gRPC
//	handler := httpgate.Handler(gate, mux)                        // net/http
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
// may have to name.
package spillgate

import (
	"errors"
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
	// Rates configures rates along a call graph; a field of Config.
	Rates = rates.Config
	// Schedule configures the order of waiting requests; a field of Config.
	Schedule = schedule.Config
	// ClassShares lets a Gate learn which requests are interactive and give them a larger
	// share of the slots; a field of Config.
	ClassShares = live.SharesConfig
	// Wallet configures the queue in which a client's requests wait for credits.
	Wallet = credit.WalletConfig
	// Mode says whether a Gate enforces its decisions.
	Mode = live.Mode
	// Refusal is the error of a request that was refused, by a Gate or by a client
	// before it was sent.
	Refusal = live.Refusal
	// Reason says why a request was refused.
	Reason = work.Reason
	// Tags is what a caller says about a request, and the result of a Classifier.
	Tags = wire.Tags
	// Class is a kind of requests with its own share of the slots.
	Class = work.Class
	// Calls counts the outcomes of the requests that a program sends.
	Calls = live.Calls
	// Stats is what a Gate counted.
	Stats = live.Stats
	// Culprit configures how a Gate treats a request that blocks others; a field of
	// Config.
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

// The modes of Culprit. The default, MonitorCulprits, names the request that blocks
// others; EnforceCulprits cancels its context.
const (
	MonitorCulprits = culprit.Monitor
	EnforceCulprits = culprit.Enforce
	IgnoreCulprits  = culprit.Off
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
