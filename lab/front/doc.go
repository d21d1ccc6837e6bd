// Package front decides how it is measured what the proxy bears: clients that are slow, silent
// or hostile, beside clients that are not, and clients that ask too much of an Apache or a Tomcat.
//
//	front/attacks   normal requests beside each attack, and just before it
//	front/proxies   what a request and an idle connection cost, beside other proxies
//	front/stock     servers of others, asked for twice what they can do
//
// The proxy and the attackers are processes of their own; the server behind the proxy has
// eight workers and the proxy eight slots, so that eight clients are enough to take all of
// them.
//
// Invariants: what is compared are two stretches of one run, on one proxy; the bars are those
// of the project and are not adapted to results; attackers have an address of their own where
// the system has more than one for itself.
//
// What this package does not do: it installs no server. Servers that are missing fail
// front/stock; scripts/deps.sh installs them on Debian.
package front

import "github.com/spillgate/spillgate/lab/experiment"

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{attacks(), Proxies(), Stock()}
}
