package share

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// witnessWorld is nodes that beat, over links which are late and cut, in virtual time; every node has a clock of its own.
type witnessWorld struct {
	rng   *rand.Rand
	fence time.Duration
	now   mono.Time
	names []string
	nodes map[string]*witnessNode
	mail  []letter
	term  uint64
	leads string // "" while nobody does
	since mono.Time
	was   string
}

type witnessNode struct {
	*witness
	clock           mono.Time // what it says at the origin
	next            mono.Time // beat
	stopped, killed bool
	cut             map[string]bool
	last            map[string]mono.Time // to whom a beat goes latest: a link keeps the order
}

type letter struct {
	at   mono.Time
	to   string
	beat beat
}

const (
	testFence = 3 * time.Second
	testLead  = 4 * time.Second
)

func newWitnessWorld(seed uint64, nodes int, fence time.Duration) *witnessWorld {
	w := &witnessWorld{fence: fence, rng: rand.New(rand.NewPCG(seed, 1)), now: mono.Time(time.Hour), nodes: map[string]*witnessNode{}}
	for i := range nodes {
		w.names = append(w.names, fmt.Sprintf("n%d", i))
	}
	for _, name := range w.names {
		w.begin(name)
	}
	return w
}

// begin starts a process of a node.
func (w *witnessWorld) begin(name string) {
	n := &witnessNode{clock: mono.Time(w.rng.Int64N(int64(1000 * time.Hour))), next: w.now.Add(time.Duration(w.rng.Int64N(int64(250 * time.Millisecond)))), cut: map[string]bool{}, last: map[string]mono.Time{}}
	n.witness = newWitness(w.now+n.clock, name, 1+w.rng.Uint64N(1<<60), w.fence, testLead)
	n.follow(w.names)
	w.nodes[name] = n
}

// lead has a node lead, or nobody.
func (w *witnessWorld) lead(name string) {
	if w.leads != "" {
		w.was = w.leads
	}
	w.leads, w.since = name, w.now
	w.term++
}

// step goes on by a hundredth of a second.
func (w *witnessWorld) step(delay func() time.Duration) {
	w.now += mono.Time(10 * time.Millisecond)
	left := w.mail[:0]
	for _, l := range w.mail {
		switch n := w.nodes[l.to]; {
		case n.killed:
		case l.at > w.now || n.stopped:
			left = append(left, l)
		default:
			n.hear(w.now+n.clock, l.beat)
		}
	}
	w.mail = left
	for _, name := range w.names {
		n := w.nodes[name]
		if n.killed || n.stopped || w.now < n.next {
			continue
		}
		n.next = w.now.Add(250 * time.Millisecond)
		leads, good := uint64(0), mono.Time(0)
		if w.leads == name {
			leads, good = w.term, w.now+n.clock+1
		}
		b := n.say(w.now+n.clock, leads, good)
		b.Heard = slices.Clone(b.Heard)
		for _, to := range w.names {
			if to != name && !n.cut[to] && !w.nodes[to].cut[name] {
				n.last[to] = max(n.last[to], w.now.Add(delay()))
				w.mail = append(w.mail, letter{n.last[to], to, b})
			}
		}
	}
}

// fallen returns the nodes that the leader takes for fallen.
func (w *witnessWorld) fallen() (all []string) {
	if w.leads == "" {
		return nil
	}
	l := w.nodes[w.leads]
	for _, name := range w.names {
		if !l.killed && !l.stopped && l.fallen(w.now+l.clock, w.since+l.clock, w.was, name, 0, 0) {
			all = append(all, name)
		}
	}
	return all
}

// Whatever is late, cut off, stopped, killed and started again, and whoever leads: a node that the leader takes for fallen is backed by nobody
// at that instant, and has what it had no more when it is backed again.
func TestFallenIsFallen(t *testing.T) {
	found := 0
	for seed := range uint64(60) {
		w := newWitnessWorld(seed, 2+int(seed%8), []time.Duration{testFence, 2 * testLead}[seed/8%2])
		delay := func() time.Duration {
			if w.rng.IntN(50) == 0 {
				return time.Duration(w.rng.Int64N(int64(4 * time.Second)))
			}
			return time.Duration(w.rng.Int64N(int64(20 * time.Millisecond)))
		}
		w.lead(w.names[0])
		for range 6000 { // a minute
			w.step(delay)
			n, other := w.nodes[w.names[w.rng.IntN(len(w.names))]], w.names[w.rng.IntN(len(w.names))]
			switch w.rng.IntN(1000) {
			case 0, 1:
				n.stopped = !n.stopped
			case 2:
				n.killed = true
			case 3, 4, 5:
				if n.killed {
					w.begin(n.node)
				}
			case 6, 7, 8, 9:
				n.cut[other] = true
			case 10, 11:
				clear(n.cut)
			case 12:
				if w.now.Sub(w.since) < testLead { // whoever leads did so until then
					break
				}
				w.lead([]string{"", n.node}[w.rng.IntN(2)])
			}
			for _, name := range w.fallen() {
				n, l := w.nodes[name], w.nodes[w.leads]
				if n.killed {
					continue
				}
				found++
				_, since, backed := n.backed(w.now + n.clock)
				if backed && (since < w.since+n.clock || l.peers[name].at >= since) { // the leader, or one before it, may have granted it something since then
					t.Fatalf("seed %d: %s is backed, and %s takes it for fallen", seed, name, w.leads)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no node that runs was ever taken for fallen")
	}
}

// One node that is dead is known to have fallen soon after its fence, whether it led or not; nodes that are there stay backed, also while nobody leads.
func TestDeadIsFallen(t *testing.T) {
	quick := func() time.Duration { return 5 * time.Millisecond }
	for nodes := 3; nodes <= 9; nodes++ {
		for _, led := range []bool{false, true} {
			w := newWitnessWorld(uint64(nodes), nodes, testFence)
			w.lead(w.names[0])
			dead := w.names[nodes-1]
			if led {
				dead = w.names[0]
			}
			for range 500 {
				w.step(quick)
			}
			if all := w.fallen(); len(all) > 0 {
				t.Fatalf("%d nodes: %v are taken for fallen though all are there", nodes, all)
			}
			w.nodes[dead].killed = true
			if led {
				w.lead("")
			}
			for range 600 {
				w.step(quick)
				for _, name := range w.names {
					if _, _, ok := w.nodes[name].backed(w.now + w.nodes[name].clock); !ok && name != dead {
						t.Fatalf("%d nodes, the leader is dead %v: %s is not backed", nodes, led, name)
					}
				}
			}
			if led {
				w.lead(w.names[1])
				for range 60 {
					w.step(quick)
				}
			}
			if all := w.fallen(); !slices.Equal(all, []string{dead}) {
				t.Errorf("%d nodes, the leader is dead %v: %v are taken for fallen, want %s", nodes, led, all, dead)
			}
		}
	}
}

// The other one of two nodes that does not lead is known to have fallen by the leader alone.
func TestFallenOfTwo(t *testing.T) {
	w := newWitnessWorld(1, 2, testFence)
	w.lead("n0")
	quick := func() time.Duration { return time.Millisecond }
	for range 400 {
		w.step(quick)
	}
	w.nodes["n1"].killed = true
	for range 270 {
		w.step(quick)
	}
	if all := w.fallen(); len(all) > 0 {
		t.Errorf("%v have fallen before the fence", all)
	}
	for range 60 {
		w.step(quick)
	}
	if all := w.fallen(); len(all) != 1 {
		t.Errorf("%v have fallen after it", all)
	}
}

// A node that has just reported has not fallen, though its beats are not read yet; nor has one of which only reports are heard.
func TestReportsAreHeard(t *testing.T) {
	w := newWitnessWorld(1, 2, testFence)
	w.lead("n0")
	for range 400 {
		w.step(func() time.Duration { return time.Millisecond })
	}
	l, process := w.nodes["n0"], w.nodes["n1"].process
	at := w.now + l.clock + mono.Time(10*time.Second)
	for name, c := range map[string]struct {
		told    mono.Time
		process uint64
		want    bool
	}{"long ago": {at.Add(-testFence), process, true}, "just now": {at.Add(1 - testFence), process, false}, "an earlier version": {at.Add(-testFence), process + 1, false},
		"never": {0, 0, true}} {
		if got := l.fallen(at, w.since+l.clock, "", "n1", c.told, c.process); got != c.want {
			t.Errorf("reported %s: fallen %v", name, got)
		}
	}
}

// A node that leads alone has what it was granted for the fence after it could say last that it leads, and the next leader waits for that.
func TestLeadsAlone(t *testing.T) {
	const fence = 20 * time.Second
	said := mono.Time(time.Hour)
	w := newWitness(said, "n1", 1, fence, testLead)
	w.follow([]string{"n1"})
	w.say(said, 1, said.Add(testLead))
	next := newWitness(said.Add(-time.Minute), "n2", 2, fence, testLead) // which has not heard it for long
	next.hear(said.Add(-fence), beat{Node: "n1", Process: 1, At: 1, Fence: fence})
	for _, after := range []time.Duration{fence - 1, fence} { // in order: what is over is over for good
		at := said.Add(after)
		if _, _, backed := w.backed(at); backed != (after < fence) {
			t.Errorf("%v after it said last that it leads: backed %v", after, backed)
		}
		if fallen := next.fallen(at, said.Add(testLead), "n1", "n1", 0, 0); fallen != (after >= fence) {
			t.Errorf("%v after it said last that it leads: fallen %v to the next that leads", after, fallen)
		}
	}
}

func FuzzBeat(f *testing.F) {
	f.Add([]byte(`{"node":"n","process":1,"at":5,"fence":9,"leads":3,"heard":[{"node":"m","process":2,"at":4,"ago":7}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBeat(data)
		if err != nil {
			return
		}
		w := newWitness(1, "m", 2, time.Second, time.Second)
		w.follow([]string{"m", "n"})
		w.hear(5, b)
		if _, _, backed := w.backed(5 + mono.Time(time.Second)); backed {
			t.Errorf("an answer to a beat of before backs for longer than the fence: %s", data)
		}
	})
}
