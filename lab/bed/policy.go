package bed

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/lab/worlds"
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

// Peer is somebody else's control of gRPC servers, under a name of its own among the
// policies.
type Peer struct {
	Name string
	// Options makes the control of one process and returns what puts it in front.
	Options func() []grpc.ServerOption
}

// policy is what stands in front of services and behind those who call them.
type policy struct {
	kind         string
	over         string
	limit, queue int   // of a semaphore
	compared     bool  // kind is one of worlds.Peers
	peer         *Peer // nil: none
}

// parsePolicy reads NAME or NAME/TRANSPORT. NAME is spillgate, none or
// semaphore:LIMIT[:QUEUE]; TRANSPORT is grpc, the default, http, or, with spillgate, proxy.
// A semaphore without QUEUE has no queue. The name of a peer is a policy as well, and so
// are those of worlds.Peers, over gRPC.
func parsePolicy(text string, peers []Peer) (policy, error) {
	for i := range peers {
		if peers[i].Name == text {
			return policy{kind: text, over: overGRPC, peer: &peers[i]}, nil
		}
	}
	if slices.Contains(worlds.Peers(), text) {
		return policy{kind: text, over: overGRPC, compared: true}, nil
	}
	name, over, found := strings.Cut(text, "/")
	if !found {
		over = overGRPC
	}
	kind, args, _ := strings.Cut(name, ":")
	p := policy{kind: kind, over: over}
	wrong := func(why string) error {
		return fmt.Errorf("bed: the policy is %q, %s; expected spillgate, none or semaphore:LIMIT[:QUEUE], with /grpc, /http or, after spillgate, /proxy, or one of %s", text, why, strings.Join(worlds.Peers(), ", "))
	}
	switch {
	case over != overGRPC && over != overHTTP && over != overProxy:
		return p, wrong("with the unknown transport " + strconv.Quote(over))
	case over == overProxy && kind != credited:
		return p, wrong("and the proxy knows spillgate alone")
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
