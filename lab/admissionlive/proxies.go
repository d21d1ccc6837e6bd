package admissionlive

import (
	"context"

	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// Proxies returns the experiment that compares third-party proxies with the one of this
// project. It has no bars, because it has no contender that is tuned by hand.
func Proxies(third ...bed.Peer) experiment.Experiment {
	return experiment.Experiment{
		Name:  "admission/proxies",
		Title: "Reverse proxies in front of one HTTP/1.1 server, from 1x to 4x and through two spikes",
		About: `The sleep station of admission/peers over HTTP: alone (none/http), behind a reverse proxy of Go's library (none/proxy),
behind Spillgate's proxy, which is told the objective and nothing else, and behind those of others. Proxy and server share a
core. Every run has a fresh proxy, which knows nothing yet.`,
		Live: true,
		Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
			c := contest{settings: []setting{sleep}, loads: []float64{1, 2, 4, spike, steep}, repeats: 3, length: 5 * second,
				policies: []string{"none/http", "none/proxy", ours + "/proxy"}}
			for _, p := range third {
				c.policies = append(c.policies, p.Name+"/proxy")
			}
			if o.Quick {
				c.loads, c.repeats, c.length = []float64{2, spike}, 1, 2*second
			}
			return c.run(ctx, o, third)
		},
	}
}
