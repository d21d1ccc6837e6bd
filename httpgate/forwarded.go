package httpgate

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/spillgate/spillgate/internal/live"
)

// Proxies names the proxies and balancers in front of the server that say truly whose requests they send: f reports
// whether a is the address of one, and is asked with the invalid address for a connection that has none, as one of
// a Unix socket. While requests wait for a slot their senders take turns (spillgate.Config.NoTurns), and a request
// of such a proxy takes the turn of the client that X-Forwarded-For names, or Forwarded (RFC 7239) where there is none:
// the last address there that is no proxy's. If there is none, each connection of the proxy takes turns of its own.
// Default: none, and a proxy takes turns as any other address does. Of several, the last counts.
func Proxies(f func(r *http.Request, a netip.Addr) bool) Option {
	return func(o *options) { o.proxies = f }
}

// whose is the sender of r, which came by c: of a proxy's request, the client that the proxy names.
func (h *handler) whose(r *http.Request, c *conn, sender live.Sender) live.Sender {
	if h.proxies == nil || !h.proxies(r, c.addr) {
		return sender
	}
	a := named(r.Header, func(a netip.Addr) bool { return h.proxies(r, a) })
	if !a.IsValid() {
		return sender.For("")
	}
	return sender.For(live.PeerKey(a, nil))
}

// named returns the last address in X-Forwarded-For, or without that in Forwarded, that is no proxy's; if all are, the
// first; the invalid one if what stands before is no address.
func named(header http.Header, proxy func(netip.Addr) bool) (last netip.Addr) {
	values, element := header["X-Forwarded-For"], strings.TrimSpace
	if len(values) == 0 {
		values, element = header["Forwarded"], forwardedFor
	}
	for i := len(values) - 1; i >= 0; i-- {
		for rest := values[i]; rest != ""; {
			at := strings.LastIndexByte(rest, ',')
			a := addressOf(element(rest[at+1:]))
			if last = a; !a.IsValid() || !proxy(a) {
				return last
			}
			rest = rest[:max(at, 0)]
		}
	}
	return last
}

// forwardedFor returns the node that an element of Forwarded names.
func forwardedFor(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		if name, node, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.EqualFold(name, "for") {
			return strings.Trim(node, `"`)
		}
	}
	return ""
}

// addressOf reads an address as the fields have it, with or without a port; the invalid one if it is none.
func addressOf(node string) netip.Addr {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(node, "["), "]"))
	if err != nil {
		return peer(node)
	}
	return a.Unmap().WithZone("")
}
