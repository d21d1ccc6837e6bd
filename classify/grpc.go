package classify

import (
	"context"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/wire"
)

// GRPC returns what grpcgate.WithClassifier takes. trust, which may be nil for
// nobody, names calls whose tags are believed.
func (r *Rules) GRPC(names *Names, trust func(ctx context.Context, method string) bool) func(ctx context.Context, method string, claimed wire.Tags) wire.Tags {
	return func(ctx context.Context, method string, claimed wire.Tags) wire.Tags {
		md, _ := metadata.FromIncomingContext(ctx)
		f := Facts{Method: "POST", Path: method, Header: md, Lower: true, Trusted: trust != nil && trust(ctx, method)}
		if host := md[":authority"]; len(host) == 1 {
			f.Host = host[0]
		}
		if p, ok := peer.FromContext(ctx); ok && len(r.rules) > 0 {
			f.Peer = addrOf(p)
		}
		f.Claims = Rank{claimed.Workflow, claimed.Class, claimed.Priority}
		out := r.Classify(live.Now(), &f, names)
		t := believed(claimed, out.Rank, f.Trusted)
		if _, has := ctx.Deadline(); !has && t.Budget == 0 {
			t.Budget = out.Deadline
		}
		return t
	}
}

// addrOf returns the address of a connection; the zero Addr if it has none.
func addrOf(p *peer.Peer) netip.Addr {
	if a, ok := p.Addr.(interface{ AddrPort() netip.AddrPort }); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	if p.Addr == nil {
		return netip.Addr{}
	}
	return parseAddr(p.Addr.String())
}
