// Package topics decides what placing the publishers of rate-limited topics is worth, in
// simulation: the figures and tables of SRTM (2025), sections 6.1 to 6.5, and what its
// authors left open.
//
//	publishers ──bursts──▶ placement ──▶ node 1: bucket r_1, b_1 ─▶ server ─▶ latency
//	(rate, batch, group)       ▲         node 2: …
//	                           └─ contenders: even over all, concentration, max-min, SRTM, ours
//
// A node is a bucket and one server that takes its time for each message and each wake-up, played
// message by message without an event queue, as both serve in the order of arrival. The
// bucket of a topic has 1.1 times its rate and the smallest burst behind which no more than one message in two
// hundred waits; the objective is a p99 of 1 ms. Placements are found with one chance and judged with another.
//
// Beyond the paper's figures, traffic moves between brokers while reports and grants are late and lost (srtm/adaptor), a
// broker is overloaded at run time (srtm/migration), and topics, groups and brokers come by chance (srtm/random).
//
// Bars are named by their point and briefly: "p99" is Spillgate's worst broker; "more brokers" is how many more
// it uses than the paper's algorithm; "blind p99" is that of max-min with as many brokers; "conc." is
// concentration.
//
// What this package does not do: the real broker's schedulers, sockets and collectors are not
// simulated, so the shapes of the paper's figures are to be seen here, and their orders, not their
// milliseconds.
package topics

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/spillgate/spillgate/lab/experiment"
)

// Experiments returns those of this package.
func Experiments() []experiment.Experiment {
	return experiment.Simulated(penalty(), concentration(), maxmin(), correlation(), noise(), convergence(), adaptation(), migration(), worlds())
}

// chance returns the source of one purpose of a seed.
func chance(seed uint64, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }

// idle returns n nodes without load.
func idle(n int) []node {
	nodes := make([]node, n)
	for i := range nodes {
		nodes[i] = plain()
	}
	return nodes
}

// set returns the setting of a topic that arrives at nodes.
func set(seed uint64, t traffic, nodes []node) setting {
	t.phases = seed
	return setting{traffic: t, bucket: t.bucket(chance(seed, 0x62)), nodes: nodes}
}

// lengths returns how many seconds a placement is judged for.
func lengths(o experiment.Options) float64 {
	if o.Quick {
		return 30
	}
	return 120
}

// compare judges contenders in one setting.
func compare(ctx context.Context, o experiment.Options, s setting, contenders []contender) ([]outcome, error) {
	out := make([]outcome, len(contenders))
	for i, c := range contenders {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at, took := c.place(s, o.Seed)
		out[i] = s.judge(o.Seed, at, lengths(o))
		out[i].rounds, out[i].seconds = took.rounds, took.seconds
		if out[i].lost > 0 {
			out[i].p99 = math.Inf(1) // of those without a place
		}
	}
	return out, nil
}

const ms = 1e3 // milliseconds in a second
