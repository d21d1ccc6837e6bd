package chains

import "fmt"

// Mode is how the proxies in front of the servers are run. It is data: a mode that
// the proxy learns is another value.
type Mode struct {
	// Name is that of tables.
	Name string
	// Args are given to `spillgate proxy` after --config.
	Args []string
	// Config is what the configuration file has beside listen, admin and upstreams.
	Config string
}

// Modes are those that the proxy has.
//
// In both the order is that of arrival: proxies trust nobody, so that to their gates
// all requests are of one class, and what waits beyond a proxy's slots waits in the
// server, which is FIFO by itself.
func Modes() []Mode {
	return []Mode{
		{Name: "plain", Config: "mode: off\nslo: 1s\n"},
		{Name: "admission", Config: "mode: enforce\nslo: 1s\n"},
	}
}

// file is the whole configuration of one proxy.
func (m Mode) file(listen, admin, upstream string) string {
	return fmt.Sprintf("%slisten: %q\nadmin: %q\nupstreams: %q\ndrain: {timeout: 1s}\nlog: {level: warn}\n", m.Config, listen, admin, "http://"+upstream)
}
