// Package front measures how the proxy bears slow, silent and hostile clients beside
// ordinary ones, and clients that ask too much of an Apache or a Tomcat.
//
//	front/attacks   normal requests beside each attack, and just before it
//	front/hostile   the same beside what no ordinary client sends
//	front/proxies   what a request and an idle connection cost, beside other proxies
//	front/stock     servers of others, asked for twice what they can do
//
// The proxy and the attackers are processes of their own; the server behind the proxy has
// eight workers and the proxy eight slots, so eight clients are enough to take all of them.
//
// Invariants: each comparison is of two stretches of one run, on one proxy; the bars are those
// of the project and are not adapted to results; attackers have an address of their own where
// loopback has more than one.
//
// What this package does not do: it installs no server. Servers that are missing fail
// front/stock; scripts/deps.sh installs them on Debian.
package front

import "github.com/spillgate/spillgate/lab/experiment"

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{attacks(), hostile(), Proxies(), Stock()}
}
