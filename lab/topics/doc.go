// Package topics measures in simulation what placing the publishers of rate-limited topics
// is worth. It repeats the figures and tables of SRTM (2025), sections 6.1 to 6.5, and adds
// cases that the paper leaves open.
//
//	publishers ──bursts──▶ placement ──▶ node 1: bucket r_1, b_1 ─▶ server ─▶ latency
//	(rate, batch, group)       ▲         node 2: …
//	                           └─ contenders: even over all, concentration, max-min, SRTM, ours
//
// A node is a bucket and one server. The server takes time for each message and each wake-up. Both serve in
// the order of arrival, so a node is played message by message without an event queue. The bucket of a topic
// has 1.1 times the topic's rate and the smallest burst with which at most one message in two hundred waits, also of those
// that placements of groups are judged on (not in srtm/random). The objective is a p99 of 1 ms. Placements are found with one seed and judged with another.
//
// Beyond the paper's figures, traffic moves between brokers while reports and grants are late and lost (srtm/adaptor), a
// broker is overloaded at run time (srtm/migration), and topics, groups and brokers are random (srtm/random).
//
// A bar has the name of its point and a short measure: "p99" is that of Spillgate's worst broker; "more brokers"
// is how many more it uses than the paper's algorithm, unless that misses the objective and Spillgate meets it; "blind p99" is that of max-min with as many brokers, and "blind/ours p99" that by Spillgate's;
// "conc." is concentration.
//
// What this package does not do: it does not simulate the schedulers, sockets and garbage collectors of a real
// broker. So the shapes and the rankings of the paper's figures are comparable, its milliseconds are not.
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
func set(o experiment.Options, t traffic, nodes []node) setting {
	t.phases = o.Seed
	var judged []burst
	if t.group > 1 { // of others there are so many bursts that no cluster of them counts
		judged = t.play(judging(o.Seed), lengths(o))
	}
	return setting{traffic: t, bucket: t.bucket(chance(o.Seed, 0x62), judged), nodes: nodes}
}

// judging returns the source of what placements are judged on.
func judging(seed uint64) *rand.Rand { return chance(seed, 0x6a75) }

// lengths returns how many seconds a placement is judged for.
func lengths(o experiment.Options) float64 {
	if o.Quick {
		return 30
	}
	return 120
}

// compare judges contenders in one setting.
func compare(ctx context.Context, o experiment.Options, s setting, contenders []contender) ([]outcome, error) {
	out, judged := make([]outcome, len(contenders)), s.traffic.play(judging(o.Seed), lengths(o))
	for i, c := range contenders {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at, took := c.place(s, o.Seed)
		out[i] = s.judge(judged, at)
		out[i].rounds, out[i].seconds = took.rounds, took.seconds
		if out[i].lost > 0 {
			out[i].p99 = math.Inf(1) // of those without a place
		}
	}
	return out, nil
}

const ms = 1e3 // milliseconds in a second
