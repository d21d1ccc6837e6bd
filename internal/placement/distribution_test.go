package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Proportional steps find the most that a broker can hold.
func TestFit(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 9))
		n := 1 + rng.IntN(2000)
		capacity := rng.Float64() * 3000
		power := 1 + 2*rng.Float64()
		f := NewFit(n, n)
		rounds := 0
		for {
			try, over := f.Try()
			if over {
				break
			}
			if try < 1 || try > n {
				t.Fatalf("seed %d: %d of %d", seed, try, n)
			}
			p99 := math.Pow(float64(try)/capacity, power)
			if try > int(2*capacity) {
				p99 = math.Inf(1)
			}
			f.Observe(p99, 1)
			if rounds++; rounds > 20 {
				t.Fatalf("seed %d: no end", seed)
			}
		}
		held, _ := f.Try()
		if p99 := math.Pow(float64(held)/capacity, power); held > 0 && p99 > 1 {
			t.Errorf("seed %d: %d have a p99 of %v", seed, held, p99)
		} else if held < n && math.Pow(float64(held+1+n/50)/capacity, power) < 1-Tolerance {
			t.Errorf("seed %d: %d of %d, although %v are met by %v", seed, held, n, p99, capacity)
		}
	}
}

// answers answers rounds as the model of another cost would.
type answers struct{ Model }

func (w answers) play(t *testing.T, d *Distribution, topic Topic, brokers []Broker) {
	t.Helper()
	for !d.Done() {
		if d.Round() > 60 {
			t.Fatal("no end")
		}
		rates := make([]float64, len(brokers))
		groups := make([]map[uint32]int, len(brokers))
		for i, b := range d.Plan() {
			if b == Nowhere {
				continue
			}
			rates[b] += topic.Publishers[i].Rate
			if groups[b] == nil {
				groups[b] = map[uint32]int{}
			}
			groups[b][topic.Publishers[i].Group]++
		}
		for b, shares := range d.Shares() {
			together := 1
			for g, n := range groups[b] {
				if g != 0 {
					together = max(together, n)
				}
			}
			if d.Measuring(b) {
				s := Share{Bucket: shares, Arriving: rates[b], Together: float64(together) * max(topic.Batch, 1), Steady: 1, Beside: brokers[b].busy()}
				d.Observe(b, Seen{w.P99(s), w.processing(s)})
			}
		}
		d.Next()
	}
}

func groups(publishers, size int, rate float64) []Publisher {
	all := make([]Publisher, publishers)
	for i := range all {
		all[i] = Publisher{rate, uint32(1 + i/size)}
	}
	return all
}

// With and without a model every publisher is placed where the objective is met, if there
// is room; a model that is right takes one round, a wrong one a few more.
func TestDistribution(t *testing.T) {
	brokers := make([]Broker, 8)
	for i := range brokers {
		brokers[i].Capacity = 80_000
	}
	world := answers{Model{Cost: 1. / 90_000}}
	for _, size := range []int{1, 5, 15, 30} {
		publishers := groups(1000, size, 10)
		topic := Topic{Bucket{11_000, 12_000}, 1e-3, publishers, 10}
		counts := map[string]int{}
		for name, model := range map[string]*Model{"measured": nil, "right": {Cost: 1. / 90_000}, "too hopeful": {Cost: 1. / 130_000}, "too careful": {Cost: 1. / 60_000}} {
			d, err := NewDistribution(topic, brokers, model)
			if err != nil {
				t.Fatal(err)
			}
			world.play(t, d, topic, brokers)
			if n := d.Unplaced(); n > 0 {
				t.Errorf("groups of %d, %s: %d without a place", size, name, n)
			}
			used := map[int]bool{}
			for _, b := range d.Plan() {
				used[b] = true
			}
			counts[name] = len(used)
			t.Logf("groups of %d, %s: %d brokers, %d rounds", size, name, len(used), d.Round())
			if name == "right" && d.Round() > 2 { // a second one where groups do not divide evenly
				t.Errorf("groups of %d: %d rounds with a model that is right", size, d.Round())
			}
		}
		if counts["right"] > counts["measured"] || counts["too hopeful"] > counts["measured"] {
			t.Errorf("groups of %d: more brokers with a model than without: %v", size, counts)
		}
	}
}

// Where there is no room, that is said.
func TestDistributionWithoutRoom(t *testing.T) {
	topic := Topic{Bucket{11_000, 1000}, 1e-3, groups(1000, 1, 10), 1}
	brokers := []Broker{{Capacity: 4_000}, {Capacity: 3_000, Load: 1_000}}
	d, err := NewDistribution(topic, brokers, nil)
	if err != nil {
		t.Fatal(err)
	}
	answers{Model{Cost: 1. / 90_000}}.play(t, d, topic, brokers)
	if n := d.Unplaced(); n != 400 {
		t.Errorf("%d without a place, expected 400", n)
	}
	if _, err := NewDistribution(Topic{}, brokers, nil); err == nil {
		t.Error("an empty topic is accepted")
	}
}

// A bucket that delays is no reason for more brokers, unless groups can be divided evenly (TestEvenly); and where the objective is out of reach, everybody
// has a place all the same.
func TestDistributionOutOfReach(t *testing.T) {
	brokers := []Broker{{Capacity: 80_000}, {Capacity: 80_000}, {Capacity: 80_000}}
	topic := Topic{Bucket{11_000, 100}, 1e-3, groups(1000, 1, 10), 10}
	for name, model := range map[string]*Model{"measured": nil, "model": {Cost: 1. / 90_000}} {
		d, err := NewDistribution(topic, brokers, model)
		if err != nil {
			t.Fatal(err)
		}
		answers{Model{Cost: 1. / 90_000}}.play(t, d, topic, brokers)
		if d.Unplaced() > 0 || d.Reached() {
			t.Errorf("%s: %d without a place, reached: %v", name, d.Unplaced(), d.Reached())
		}
		if used := slices.Compact(slices.Sorted(slices.Values(d.Plan()))); model != nil && len(used) != 1 {
			t.Errorf("%s: on %d brokers", name, len(used))
		}
	}
}

// Where equal shares would fill a broker that others use up to its last message, it gets less, and no
// further broker is needed; brokers that are alike get equal shares.
func TestTimeToSpare(t *testing.T) {
	const wake, message = 5.4e-6, 10e-6 // seconds; others send batches of ten
	topic := Topic{Bucket: Bucket{Rate: 99_000, Burst: 30}, Objective: 1e-3, Publishers: make([]Publisher, 9000)}
	for i := range topic.Publishers {
		topic.Publishers[i].Rate = 10
	}
	var used, alike []Broker
	for _, load := range []float64{10e3, 40e3, 50e3, 60e3, 70e3, 80e3} {
		used = append(used, Broker{Capacity: 1 / (message + wake), Load: load, Busy: load * (message + wake/10)})
		alike = append(alike, Broker{Capacity: 1 / (message + wake), Load: 50e3, Busy: 50e3 * (message + wake/10)})
	}
	for _, tt := range []struct {
		brokers []Broker
		nodes   int
		equal   bool
	}{{used, 3, false}, {alike, 4, true}} {
		d, err := NewDistribution(topic, tt.brokers, &Model{Cost: message + wake})
		if err != nil {
			t.Fatal(err)
		}
		held := map[int]int{}
		for _, b := range d.Plan() {
			held[b]++
		}
		most, least := 0, len(topic.Publishers)
		for b, n := range held {
			most, least = max(most, n), min(least, n)
			if p99 := d.model.P99(d.share(b, 10*float64(n))); p99 > topic.Objective {
				t.Errorf("broker %d with %d publishers: a p99 of %v is predicted", b, n, p99)
			}
		}
		if len(held) != tt.nodes || held[Nowhere] > 0 || (most-least <= 1) != tt.equal {
			t.Errorf("%v have %v publishers, want %d brokers, equal shares: %v", tt.brokers, held, tt.nodes, tt.equal)
		}
	}
}

// Where brokers are fast enough and messages wait for tokens, the bucket is divided less, if that helps.
func TestUndivided(t *testing.T) {
	for _, c := range []struct {
		about       string
		burst       float64
		one         Seen // where all are at one broker
		brokers     int
		leastRounds int
	}{
		{"one broker is fast enough", 800, Seen{P99: 0.8e-3, Processing: 0.8e-3}, 1, 2},
		{"one broker is too slow", 800, Seen{P99: 5e-3, Processing: 5e-3}, 2, 2},
		{"waits may come by chance", 6000, Seen{P99: 0.8e-3, Processing: 0.8e-3}, 2, 1},
	} {
		topic := Topic{Bucket: Bucket{Rate: 1100, Burst: c.burst}, Objective: 1e-3, Batch: 10}
		for i := range 100 {
			topic.Publishers = append(topic.Publishers, Publisher{Rate: 10, Group: uint32(1 + i/20)})
		}
		brokers := []Broker{{Capacity: 1e5}, {Capacity: 1e5}, {Capacity: 1e5}}
		d, err := NewDistribution(topic, brokers, &Model{Cost: 8e-6}) // 200 messages at once take it 1.6 ms
		if err != nil {
			t.Fatal(err)
		}
		count := func() int {
			used := map[int]bool{}
			for _, b := range d.Plan() {
				used[b] = true
			}
			return len(used)
		}
		if n := count(); n != 2 {
			t.Fatalf("the model begins with %d brokers", n)
		}
		for !d.Done() {
			seen := c.one
			if count() > 1 {
				seen = Seen{P99: 3e-3, Processing: 0.9e-3}
			}
			for b := range brokers {
				if d.Measuring(b) {
					d.Observe(b, seen)
				}
			}
			if d.Next(); d.Round() > 20 {
				t.Fatalf("%s: no end", c.about)
			}
		}
		if n := count(); n != c.brokers || d.Round() < c.leastRounds {
			t.Errorf("%s: %d brokers after %d rounds, expected %d", c.about, n, d.Round(), c.brokers)
		}
	}
}

// rest returns the share of messages whose group is not divided as the topic is.
func rest(d *Distribution, topic Topic) float64 {
	at, size, all := map[uint32]map[int]float64{}, map[uint32]float64{}, float64(len(topic.Publishers))
	for i, b := range d.Plan() {
		g := topic.Publishers[i].Group
		if at[g] == nil {
			at[g] = map[int]float64{}
		}
		at[g][b]++
		size[g]++
	}
	uneven := 0.0
	for g, n := range size {
		for b, s := range d.Shares() {
			if math.Abs(at[g][b]-n*s.Rate/topic.Rate) > 0.1 {
				uneven += n
				break
			}
		}
	}
	return uneven / all
}

// Groups that fire at even distances are divided as the topic is, whatever the number of brokers: or they wait for tokens at the broker with
// one publisher more. Where brokers are fast enough and messages are late all the same, more of them are next.
//
// A last group of less than a hundredth of all messages may have a rest, and a larger one may not.
func TestEvenly(t *testing.T) {
	for _, tt := range []struct {
		last, nodes int
		waits       float64 // ms, also where groups are divided exactly
		want        int
		reached     bool
	}{{0, 8, 0, 3, true}, {0, 2, 0, 2, false}, {0, 8, 0.35, 4, true}, {9, 8, 0, 3, true}, {11, 8, 0, 3, false}} {
		topic := Topic{Bucket: Bucket{Rate: 11_000, Burst: 500}, Objective: 1e-3, Batch: 10}
		for i := range 1000 + tt.last {
			topic.Publishers = append(topic.Publishers, Publisher{Rate: 10, Group: uint32(1 + i/20)})
		}
		brokers := make([]Broker, tt.nodes)
		for i := range brokers {
			brokers[i] = Broker{Capacity: 90_000}
		}
		d, err := NewDistribution(topic, brokers, &Model{Cost: 10.5e-6})
		if err != nil {
			t.Fatal(err)
		}
		var used []int
		for !d.Done() {
			shares, k := d.Shares(), 0
			for _, s := range shares {
				if s.Rate > 0 {
					k++
				}
			}
			used = append(used, k)
			processing := 2.1e-3 / float64(k) // two brokers are a little too slow
			p99 := processing + tt.waits*1e-3
			if rest(d, topic) > P99 {
				p99 += 2e-3
			}
			for b, s := range shares {
				if s.Rate > 0 && d.Measuring(b) {
					d.Observe(b, Seen{P99: p99, Processing: processing})
				}
			}
			d.Next()
		}
		last := map[int]bool{}
		for _, b := range d.Plan() {
			last[b] = true
		}
		if len(last) != tt.want || d.Reached() != tt.reached {
			t.Errorf("a last group of %d, waits of %v ms: of %d brokers %d stand, reached %v, after %v; want %d", tt.last, tt.waits, tt.nodes, len(last), d.Reached(), used, tt.want)
		}
	}
}

// However often the model was wrong before, a number that divides groups evenly is tried: here it says 4, 3, 2 and 1 in turn, where one
// broker is too slow and all the others let messages wait.
func TestEvenlyAtLast(t *testing.T) {
	topic := Topic{Bucket: Bucket{Rate: 6600, Burst: 1700}, Objective: 1e-3, Batch: 10}
	for i := range 600 {
		topic.Publishers = append(topic.Publishers, Publisher{Rate: 10, Group: uint32(1 + i/25)})
	}
	brokers := make([]Broker, 7)
	for i := range brokers {
		brokers[i] = Broker{Capacity: 90_000, Load: 10_000}
	}
	d, err := NewDistribution(topic, brokers, &Model{Cost: 10.5e-6})
	if err != nil {
		t.Fatal(err)
	}
	var used []int
	for !d.Done() && d.Round() < 20 {
		shares := d.Shares()
		k := 0
		for _, s := range shares {
			if s.Rate > 0 {
				k++
			}
		}
		used = append(used, k)
		seen := Seen{Processing: 1.3e-3 / float64(k)}
		seen.P99 = seen.Processing
		if 25%k != 0 {
			seen.P99 += 1e-3
		}
		for b, s := range shares {
			if s.Rate > 0 && d.Measuring(b) {
				d.Observe(b, seen)
			}
		}
		d.Next()
	}
	if !d.Reached() || used[len(used)-1] != 5 {
		t.Errorf("reached %v after %v brokers, want five at last", d.Reached(), used)
	}
}

// Groups that fire less together than their owner says have less delay than the model predicts. One broker less is tried where the
// measurement, taken as it is, says that it does with room to spare, and stands only if it meets the objective itself.
func TestClearlyFewer(t *testing.T) {
	topic := Topic{Bucket: Bucket{Rate: 11_000, Burst: 9000}, Objective: 1e-3, Batch: 10, Publishers: groups(1000, 25, 10)}
	brokers := make([]Broker, 8)
	for i := range brokers {
		brokers[i].Capacity = 90_000
	}
	for _, tt := range []struct {
		about  string
		ms     map[int]float64 // by the number of brokers
		rounds string          // brokers in each
		want   int
	}{
		{"each measurement says that one less does", map[int]float64{4: 0.4, 3: 0.35, 2: 0.25, 1: 0.7}, "[4 3 2 1]", 1},
		{"one is too slow", map[int]float64{4: 0.4, 3: 0.35, 2: 0.25, 1: 1.4}, "[4 3 2 1]", 2},
		{"one less is far too slow", map[int]float64{4: 0.4, 3: 4, 5: 0.3}, "[4 3]", 4},
		{"without room to spare", map[int]float64{4: 0.4, 3: 0.35, 2: 0.6, 1: 0.7}, "[4 3 2]", 2},
	} {
		d, err := NewDistribution(topic, brokers, &Model{Cost: 10.5e-6})
		if err != nil {
			t.Fatal(err)
		}
		count := func() (k int) {
			for _, s := range d.Shares() {
				if s.Rate > 0 {
					k++
				}
			}
			return k
		}
		var rounds []int
		for !d.Done() {
			k := count()
			rounds = append(rounds, k)
			for b := range brokers {
				if d.Measuring(b) {
					d.Observe(b, Seen{P99: tt.ms[k] * 1e-3, Processing: tt.ms[k] * 1e-3})
				}
			}
			d.Next()
		}
		if got := fmt.Sprint(rounds); got != tt.rounds || count() != tt.want {
			t.Errorf("%s: %d brokers after %s, want %d after %s", tt.about, count(), got, tt.want, tt.rounds)
		}
	}
}
