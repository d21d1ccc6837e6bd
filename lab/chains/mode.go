package chains

import (
	"fmt"
	"strconv"
	"strings"
)

// Mode is how the proxies in front of the servers are run. It is data: a mode that
// the proxy learns is another value.
type Mode struct {
	// Name is that of tables.
	Name string
	// Args are given to `spillgate proxy` after --config.
	Args []string
	// Config is what the configuration file has beside listen, admin, upstreams and
	// egress. In it WORKERS is the number of a server's workers, SERVICE its name.
	Config string
	// Egress has the servers' calls go out through their own proxies, which see by
	// that which requests go on, and which of them a server is working on.
	Egress bool
	// Log has the proxies log every request, for Bed.Replay.
	Log bool
}

// Modes are those in which the order is the servers' own, which is that of arrival:
// what waits beyond a proxy's slots waits in the server.
func Modes() []Mode {
	return []Mode{
		{Name: "plain", Config: "mode: off\nslo: 1s\n"},
		{Name: "admission", Config: "mode: enforce\nslo: 1s\n"},
	}
}

// Ordered are the modes in which the order is the proxies': as many slots as a server
// has workers, given back while it calls others. They learn classes from what they
// see and believe what other proxies found; here callers, who come from the same
// machine, are to be silent (Load.Silent).
func Ordered() []Mode {
	all := []Mode{{Name: "fifo"}, {Name: "priority"}, {Name: "share"}}
	for i := range all {
		all[i].Egress, all[i].Log = true, true
		all[i].Config = "slo: 10s\nslots: WORKERS\ntrust: 127.0.0.0/8\nshare: {service: SERVICE, order: " + all[i].Name + "}\n"
	}
	return all
}

// file is the whole configuration of one proxy. Its server calls exit, from where the
// proxy calls next.
func (m Mode) file(s Setting, service, listen, admin, upstream, exit, next string) string {
	text := strings.NewReplacer("WORKERS", strconv.Itoa(s.Workers), "SERVICE", service).Replace(m.Config)
	text += fmt.Sprintf("listen: %q\nadmin: %q\nupstreams: %q\ndrain: {timeout: 1s}\n", listen, admin, "http://"+upstream)
	if m.Log {
		text += "log: {level: debug, format: json}\n"
	} else {
		text += "log: {level: warn}\n"
	}
	if m.Egress {
		text += fmt.Sprintf("egress: [{address: %q, url: %q}]\n", exit, "http://"+next)
	}
	return text
}
