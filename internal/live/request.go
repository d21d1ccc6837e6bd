package live

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// Request is one request at a Gate.
type Request struct {
	work.Request
	// Client is the account of a client that knows credits, nil of others.
	Client *Client
	// Sender is the connection that the request came by.
	Sender Sender
	// Arrived is when the request reached this process, if the edge knows it better than
	// Enter. Default: the instant of Enter, less what requests lie in sockets (see
	// WatchNetwork).
	Arrived mono.Time
	// Waited is that of the request's wire.Tags.
	Waited time.Duration
	// Objective is that of the request's method or route, 0 if that has none of its
	// own: see admission.Ticket.
	Objective time.Duration
	// Total, Elapsed, Process and Claim are those of the request's wire.Tags, as
	// far as the edge believes them. A request without any of them enters the
	// system here.
	Total, Elapsed wire.Progress
	Process        uint64
	Claim          float64
	// Key is the kind of the request, for GateConfig.ClassShares. Its Callee is by
	// default GateConfig.Service.
	Key share.Key
	// Kind is what the request does, for GateConfig.Culprit; nil if unknown. Token is
	// that of its wire.Tags.
	Kind  Kind
	Token wire.Token
	// Untrusted says that the edge does not believe the sender. Where the order of waiting
	// requests is by deadline, a budget shorter than the objective puts such a request before
	// no other.
	Untrusted bool
}
