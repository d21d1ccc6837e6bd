package placement

import (
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Migration decides at run time which publishers of a topic move, when traffic has shifted so
// that a broker misses the objective although the parts of the bucket have followed.
// The paper leaves it open.
//
// Hysteresis keeps it calm: a broker must miss the objective in several windows one after the
// other; no more moves than bring it back under the objective by half of the tolerance; a
// broker that was given publishers is left alone until it has been measured as often; and
// what moves stays for a while. It is not safe for concurrent use.
type Migration struct {
	objective float64
	brokers   []moving
}

type moving struct {
	missed int // windows one after the other
	until  mono.Time
}

// Bounds of a migration.
const (
	// patience is how many windows a broker must miss the objective: one may be chance, and in the
	// second the bucket has just followed.
	patience = 3
	// Settle is how long a broker that gave or got publishers is left alone.
	Settle = 30 * time.Second
	// most is the largest part of a broker's share that moves at once.
	most = 0.5
)

// NewMigration watches a topic with an objective, in seconds, on a number of brokers.
func NewMigration(objective float64, brokers int) *Migration {
	return &Migration{objective: objective, brokers: make([]moving, brokers)}
}

// SetObjective changes the objective, in seconds. Windows that were missed count still.
func (m *Migration) SetObjective(objective float64) { m.objective = objective }

// Move is a part of a broker's publishers that must go elsewhere.
type Move struct {
	From, To int
	// Rate is how much of the topic moves, in messages a second.
	Rate float64
}

// Window ends a window: p99s, in seconds, and rates, in messages a second, of the topic at
// each broker, and the brokers with their loads, this topic included. A p99 is that of processing, from the token on: what
// waits for tokens is the Adaptor's matter, and no other broker makes it less. It returns at most
// one move; MovesOf says which publishers make it up, Slice how many of them at a time.
func (m *Migration) Window(now mono.Time, p99s, rates []float64, brokers []Broker) (Move, bool) {
	worst := -1
	for b := range m.brokers {
		if rates[b] > 0 && p99s[b] > m.objective {
			m.brokers[b].missed++
		} else {
			m.brokers[b].missed = 0
		}
		if m.brokers[b].missed >= patience && now >= m.brokers[b].until && (worst < 0 || p99s[b] > p99s[worst]) {
			worst = b
		}
	}
	if worst < 0 {
		return Move{}, false
	}
	rate := rates[worst] * min(most, 1-(1-Tolerance/2)*m.objective/p99s[worst])
	to := m.target(now, p99s, rates, brokers, worst)
	if to < 0 {
		return Move{}, false
	}
	move := Move{worst, to, min(rate, brokers[to].Residual())}
	for _, b := range []int{move.From, move.To} {
		m.brokers[b] = moving{until: now.Add(Settle)}
	}
	return move, true
}

// Slice returns how much of a move one step of the Adaptor makes, in messages a second, by a topic's
// bucket and what all of its publishers send: half of what there is to spare. Then nobody waits for tokens that are
// on their way from one broker to the other; Adaptor.Moved tells of each slice.
func Slice(b Bucket, sending float64) float64 { return max(0.02*b.Rate, (b.Rate-sending)/2) }

// target returns the broker for what leaves another one: of those that have the topic and
// meet the objective with room to spare the one with the most room, else one that does not
// have it yet; -1 for none.
func (m *Migration) target(now mono.Time, p99s, rates []float64, brokers []Broker, from int) int {
	best := -1
	for b, broker := range brokers {
		held := rates[b] > 0
		if b == from || broker.Residual() <= 0 || now < m.brokers[b].until || held && p99s[b] > m.objective*(1-Tolerance) {
			continue
		}
		if best < 0 || held && rates[best] == 0 || held == (rates[best] > 0) && broker.Residual() > brokers[best].Residual() {
			best = b
		}
	}
	return best
}

// MovesOf returns the publishers, as indices, that make up a move: as many of each group at the
// broker as of the others. at is the broker of each publisher.
func (t Topic) MovesOf(move Move, at []int) []int {
	var here []int
	var publishers []Publisher
	total := 0.0
	for i, b := range at {
		if b == move.From {
			here, publishers = append(here, i), append(publishers, t.Publishers[i])
			total += t.Publishers[i].Rate
		}
	}
	var moved []int
	for k, place := range Assign(publishers, []float64{max(0, total-move.Rate), min(move.Rate, total)}) {
		if place == 1 {
			moved = append(moved, here[k])
		}
	}
	return moved
}
