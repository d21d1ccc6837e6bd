package topics

import (
	"math"

	"github.com/spillgate/spillgate/internal/placement"
)

// node is a broker of the simulation: one server that takes its time for every message, and
// for every wake-up: what arrives in one go costs one. That is what makes single messages of many publishers
// dear.
type node struct {
	message, wake float64 // seconds
	load          float64 // messages a second of other topics, in batches of ten
}

// plain is the broker of all experiments: 64,900 single messages a second, or 94,900 in
// batches of ten.
func plain() node { return node{message: 10e-6, wake: 5.4e-6} }

// busy is the share of its time that other topics take.
func (n node) busy() float64 { return n.load * n.cost(traffic{batch: 10}) }

// capacity returns the messages a second that it serves of a traffic, nothing beside.
func (n node) capacity(t traffic) float64 { return 1 / n.cost(t) }

// cost returns the seconds that a message takes.
func (n node) cost(t traffic) float64 { return n.message + n.wake/float64(t.batch) }

// served is what a share of a topic met at a node.
type served struct {
	latencies []float32 // seconds, of each message
	access    []float32 // the part that it waited for its token
	process   []float32 // the rest
	round     placement.Round
}

func (s *served) p99() float64 { return quantile(s.latencies, 0.99) }

// seen is what a broker tells of it.
func (s *served) seen() placement.Seen {
	return placement.Seen{P99: s.p99(), Processing: quantile(s.process, 0.99)}
}

// quantile returns an order statistic; it reorders all.
func quantile(all []float32, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	return float64(nth(all, min(int(math.Ceil(q*float64(len(all)))), len(all)-1)))
}

// nth returns what would be at k if all were in order. It puts in order only what it must: of ten million latencies that takes a tenth of
// the time.
func nth(all []float32, k int) float32 {
	for low, high := 0, len(all)-1; low < high; {
		pivot := all[low+(high-low)/2]
		i, j := low, high
		for i <= j {
			for all[i] < pivot {
				i++
			}
			for all[j] > pivot {
				j--
			}
			if i <= j {
				all[i], all[j] = all[j], all[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			high = j
		case k >= i:
			low = i
		default:
			return all[k]
		}
	}
	return all[k]
}

// shaper is a token bucket that delays: its backlog is the unfinished work of a queue that serves
// one message in 1/rate.
type shaper struct {
	placement.Bucket
	backlog, last float64
	most          float64 // the largest backlog since somebody set it to 0
}

// pass returns how long a message waits that arrives now.
func (s *shaper) pass(at float64) float64 {
	s.backlog = max(0, s.backlog-s.Rate*(at-s.last))
	s.last = at
	s.backlog++
	s.most = max(s.most, s.backlog)
	return max(0, s.backlog-s.Burst) / s.Rate
}

// station is a node that has a topic, over a time in which its load and the topic's part may change.
type station struct {
	node
	*shaper
	free float64 // when it has served what came so far
}

// correlated is for how many objectives after a message others are likely to be late if it is: what is late has found a backlog of at
// least one, and groups fire over some milliseconds. What comes within that time counts as one burst of the round. With 2 and with 5 the bars
// of srtm/random and srtm/noise are the same. With a tenth, as before, a round of a second was sure that one broker does for a topic of
// srtm/random whose p99 there is 1.5 times the objective.
const correlated = 5

// serve plays batches, in the order of their arrival, through a bucket and a node, and goes on where the last call ended. objective
// is what counts as late in the round, whose subject is the node's own part. With a nil bucket nothing waits for tokens.
func (n *station) serve(batches []burst, size int, objective float64) *served {
	out := &served{latencies: make([]float32, 0, len(batches)*size), access: make([]float32, 0, len(batches)*size), process: make([]float32, 0, len(batches)*size)}
	slower := 1 / max(1-n.busy(), 1e-9)
	together, late, came := 0, 0, math.Inf(-1)
	for _, b := range batches {
		if b.at > came+correlated*objective && together > 0 {
			out.round.Burst(together, late)
			together, late = 0, 0
		}
		if together == 0 {
			came = b.at
		}
		for k := range size {
			wait := 0.0
			if n.shaper != nil {
				wait = n.pass(b.at)
			}
			n.free = max(n.free, b.at+wait) + n.message*slower
			if k == 0 {
				n.free += n.wake * slower
			}
			out.latencies = append(out.latencies, float32(n.free-b.at))
			out.access = append(out.access, float32(wait))
			out.process = append(out.process, float32(n.free-b.at-wait))
			if together++; n.free-b.at-wait > objective {
				late++
			}
		}
	}
	if together > 0 {
		out.round.Burst(together, late)
	}
	return out
}
