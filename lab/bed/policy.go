package bed

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/worlds"
	"github.com/spillgate/spillgate/proxy"
)

// What stands in front of a service.
const (
	credited = "spillgate"
	nothing  = "none"
	bounded  = "semaphore"
)

// How processes talk.
const (
	overGRPC  = "grpc"
	overHTTP  = "http"
	overProxy = "proxy" // HTTP, with the control in a process of its own
)

// Peer is a control of the experiment's own, under a name of its own among the policies:
// somebody else's, or Spillgate with settings. One of Options, Gate, Proxy and Front is
// set, or none of them.
type Peer struct {
	Name string
	// Options makes third-party control of one gRPC server and returns what puts it
	// in front.
	Options func() []grpc.ServerOption
	// Gate describes the gate of a process of a service. All requests then name their
	// workflow, and services call by wallets.
	Gate func(w *world.World, s *world.Service) live.GateConfig
	// Proxy describes the proxy in front of a replica of a service, by which its calls go
	// out as well, all but the addresses. It takes the transport proxy.
	Proxy func(w *world.World, s *world.Service) proxy.Config
	// Front starts a third-party proxy, which listens at Role.Listen and sends all to
	// Role.Upstream. It takes the transport proxy.
	Front Program
	// Order decides which request is next for workers and locks.
	Order Order
	// Program, if set, plays the services in place of this program. It takes the
	// transport proxy.
	Program Program
}

// policy is the control in front of services and in their callers.
type policy struct {
	kind         string
	over         string
	limit, queue int   // of a semaphore
	compared     bool  // kind is one of worlds.Peers
	peer         *Peer // nil: none
}

// inProxy reports whether the peer stands in a process in front of a replica.
func (p *Peer) inProxy() bool { return p.Proxy != nil || p.Front != nil }

// parsePolicy reads NAME or NAME/TRANSPORT. NAME is spillgate, none or
// semaphore:LIMIT[:QUEUE]; TRANSPORT is grpc, the default, http, or, with spillgate or none, proxy.
// A semaphore without QUEUE has no queue. The name of a peer is a policy as well, and so
// are those of worlds.Peers, over gRPC.
func parsePolicy(text string, peers []Peer) (policy, error) {
	name, over, found := strings.Cut(text, "/")
	if !found {
		over = overGRPC
	}
	for i := range peers {
		switch p := &peers[i]; {
		case p.Name != name && p.Name != text:
		case over == overGRPC && !p.inProxy() || over == overHTTP && !p.inProxy() && p.Options == nil || over == overProxy && p.inProxy():
			return policy{kind: name, over: over, peer: p}, nil
		default:
			return policy{}, fmt.Errorf("bed: the policy is %q, which does not come over %s", text, over)
		}
	}
	kind, args, _ := strings.Cut(name, ":")
	p := policy{kind: kind, over: over}
	wrong := func(why string) error {
		return fmt.Errorf("bed: the policy is %q, %s; expected spillgate, none or semaphore:LIMIT[:QUEUE], with /grpc, /http or, after spillgate or none, /proxy, or one of %s", text, why, strings.Join(worlds.Peers(), ", "))
	}
	switch {
	case over != overGRPC && over != overHTTP && over != overProxy:
		return p, wrong("with the unknown transport " + strconv.Quote(over))
	case over == overProxy && kind != credited && kind != nothing:
		return p, wrong("and the proxy knows spillgate and none alone")
	case slices.Contains(worlds.Peers(), name):
		if over != overGRPC {
			return p, wrong("which comes over grpc alone")
		}
		p.kind, p.compared = name, true
	case kind == bounded:
		limit, queue, two := strings.Cut(args, ":")
		var err error
		if p.limit, err = strconv.Atoi(limit); err != nil || p.limit < 1 {
			return p, wrong("whose limit is no number above 0")
		}
		if two {
			if p.queue, err = strconv.Atoi(queue); err != nil || p.queue < 0 {
				return p, wrong("whose queue is no number from 0 on")
			}
		}
	case kind != credited && kind != nothing || args != "":
		return p, wrong("which there is not")
	}
	return p, nil
}

// credits reports whether callers have wallets.
func (p *policy) credits() bool { return p.kind == credited || p.peer != nil && p.peer.Gate != nil }
