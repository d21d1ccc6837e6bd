// Package placement decides which brokers hold the publishers of a rate-limited topic, and
// how the topic's token bucket is divided among them.
//
//	topic (r, b), p99 objective
//	publishers, in groups that fire together
//	        │ Quotas: the fewest brokers, the largest least share
//	        │ Assign: every group spread over all of them
//	        ▼
//	┌─ broker 1 ─┐ ┌─ broker 2 ─┐ ┌─ broker 3 ─┐   each lets (r_l, b_l) through,
//	│ r/2, b/2   │ │ r/4, b/4   │ │ r/4, b/4   │   Σ r_l = r, Σ b_l = b
//	└─────┬──────┘ └─────┬──────┘ └─────┬──────┘
//	      └── p99, rate, backlog ───────┘
//	                 │ Distribution: a broker that is too full gives publishers back
//	                 ▼ Adaptor: the parts of the bucket follow the traffic
//
// Splitting a bucket never helps: the sum of delays behind k parts is at no instant below
// that behind the whole, whatever the split and the arrivals, and behind k equal parts
// of Poisson traffic it is more than k times as large. Three principles keep the price
// low. Concentration: as few brokers as can hold the topic. Max-min: the largest
// smallest share, since a small bucket delays most. Correlation: publishers that fire
// together go to different brokers, so that bursts are divided as the bucket is.
//
// Invariants: the parts of a bucket never add up to more than the bucket, also while they
// change. Every publisher is at one broker, or reported as unplaced. The same inputs give
// the same answer.
//
// What this package does not do: it has no clock and moves nothing; it does not measure
// brokers, and it does not limit a message. The algorithms are those of SRTM, sections
// 4.2, 4.3 and 5.4; what goes beyond them says so.
package placement
