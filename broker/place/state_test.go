package place

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// cluster returns a state of nodes n1, n2 … of capacities.
func cluster(t testing.TB, capacities ...float64) *State {
	t.Helper()
	s := &State{}
	s.fillIn()
	for i, c := range capacities {
		must(t, s.SetNode(fmt.Sprintf("n%d", i+1), Node{Address: fmt.Sprintf("h%d:1883", i+1), Capacity: c}))
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// limits are those of a topic of a rate, with a tenth to spare.
func limits(rate float64) Limits {
	return Limits{Rate: 1.1 * rate, Burst: 26, Objective: 1e-3, Each: 10}
}

func joins(from, to, group int) (all []Join) {
	for i := from; i < to; i++ {
		j := Join{Publisher: fmt.Sprintf("p%05d", i)}
		if group > 0 {
			j.Group = fmt.Sprintf("g%d", i/group)
		}
		all = append(all, j)
	}
	return all
}

// sound checks what always holds.
func sound(t testing.TB, s *State) {
	t.Helper()
	for name, n := range s.Nodes {
		load := s.loads("")[name]
		if load > n.usable()*(1+1e-6) || (n.Draining || n.Down) && load > 0 {
			t.Fatalf("%s has %v: %+v", name, load, n)
		}
	}
	for topic, l := range s.Topics {
		parts, nowhere, err := s.Parts(topic)
		must(t, err)
		sum, publishers := 0.0, nowhere
		for _, p := range parts {
			sum, publishers = sum+p.Rate, publishers+p.Publishers
			if _, ok := s.Nodes[p.Node]; !ok {
				t.Fatalf("%s is at %q, which does not exist", topic, p.Node)
			}
		}
		if publishers != len(l.Publishers) || len(parts) > 0 && math.Abs(sum-l.Rate) > 1e-6*l.Rate {
			t.Fatalf("%s: %d publishers of %d, parts of the rate add up to %v of %v", topic, publishers, len(l.Publishers), sum, l.Rate)
		}
	}
}

func TestFewNodesAndEvenGroups(t *testing.T) {
	s := cluster(t, 60_000, 60_000, 60_000)
	must(t, s.SetTopic("t", limits(10_000)))
	must(t, s.Join("t", joins(0, 1000, 0)...))
	sound(t, s)
	if parts, nowhere, _ := s.Parts("t"); len(parts) != 1 || nowhere != 0 || parts[0].Sending != 10_000 {
		t.Errorf("%+v, %d nowhere: one node is enough for 10,000/s of single messages", parts, nowhere)
	}
	l := limits(80_000)
	l.Objective, l.Each = 1, 10
	must(t, s.SetTopic("large", l))
	must(t, s.Join("large", joins(0, 8000, 40)...))
	sound(t, s)
	parts, nowhere, _ := s.Parts("large")
	if len(parts) != 2 || nowhere != 0 {
		t.Fatalf("%+v, %d nowhere", parts, nowhere)
	}
	groups := map[string]int{}
	for _, p := range s.Topics["large"].Publishers {
		if p.Node == parts[0].Node {
			groups[p.Group]++
		}
	}
	for g, n := range groups {
		if n < 19 || n > 21 {
			t.Errorf("%d of 40 of %s are at %s", n, g, parts[0].Node)
		}
	}
}

// What publishers ask for counts as far as the owner says, and is a reason for more nodes.
func TestAskedObjective(t *testing.T) {
	s := cluster(t, 60_000, 60_000, 60_000)
	l := limits(45_000)
	l.Burst, l.Objective, l.Batch = 20_000, 1, 10
	must(t, s.SetTopic("t", l))
	all := joins(0, 4500, 30)
	all[0].Objective = 1e-6
	must(t, s.Join("t", all...))
	expect := func(when string, wanted float64, nodes int) {
		t.Helper()
		sound(t, s)
		parts, _, _ := s.Parts("t")
		e, err := s.Explain("t")
		must(t, err)
		if got := s.Topics["t"].Wanted(); got != wanted || e.Objective != wanted || len(parts) != nodes {
			t.Errorf("%s: the objective is %v s, explained as %v, on %d nodes; want %v on %d", when, got, e.Objective, len(parts), wanted, nodes)
		}
	}
	expect("publishers may not ask", 1, 1)
	l.Strictest = 0.012
	must(t, s.SetTopic("t", l))
	expect("they may", 0.012, 2)
	must(t, s.Leave("t", all[0].Publisher))
	expect("it has left, and nothing moves without need", 1, 2)
	must(t, s.SetTopic("t", l))
	expect("the topic is placed anew", 1, 1)
	must(t, s.Join("t", Join{Publisher: "q", Objective: 0.015}))
	expect("another one asks for less", 0.015, 2)
	known := Join{Publisher: "q", Objective: 0.015, Group: "g", Rate: 20}
	must(t, s.Join("t", known))
	must(t, s.Join("t", Join{Publisher: "q", Client: true}))
	if q := s.Topics["t"].Publishers["q"]; q.Objective != 0.015 || q.Group != "g" || q.Rate != 20 || !known.Agrees(q) || !(Join{}).Agrees(q) {
		t.Errorf("one that says nothing of itself is known as %+v", q)
	}
	for _, other := range []Join{{Group: "h"}, {Objective: 0.015}, {Group: "g", Objective: 0.02}, {Rate: 21}} {
		if q := s.Topics["t"].Publishers["q"]; other.Agrees(q) {
			t.Errorf("%+v agrees with %+v", other, q)
		}
	}
	must(t, s.Join("t", Join{Publisher: "q", Group: "h"}))
	if q := s.Topics["t"].Publishers["q"]; q.Objective != 0 || q.Group != "h" || q.Rate != 20 {
		t.Errorf("one that says another group is known as %+v", q)
	}
	var wrong *Mistake
	if err := s.Join("t", Join{Publisher: "q", Objective: math.NaN()}); !errors.As(err, &wrong) || wrong.Field != "objective" {
		t.Errorf("NaN is refused with %v", err)
	}
	l.Strictest = 2
	if err := s.SetTopic("t", l); !errors.As(err, &wrong) || wrong.Field != "strictest objective" {
		t.Errorf("a strictest objective above the objective is refused with %v", err)
	}
}

// Draining moves what is there and nothing else, each group evenly; and back again nothing moves.
func TestDrain(t *testing.T) {
	s := cluster(t, 60_000, 60_000, 60_000)
	l := limits(80_000)
	l.Objective = 1
	must(t, s.SetTopic("t", l))
	must(t, s.Join("t", joins(0, 8000, 40)...))
	parts, _, _ := s.Parts("t")
	before := map[string]string{}
	for id, p := range s.Topics["t"].Publishers {
		before[id] = p.Node
	}
	must(t, s.Drain(parts[0].Node, true))
	sound(t, s)
	for id, p := range s.Topics["t"].Publishers {
		if moved := before[id] != p.Node; moved != (before[id] == parts[0].Node) {
			t.Fatalf("%s was at %s, is at %s", id, before[id], p.Node)
		}
	}
	if len(s.Moves) != maxMoves || s.Moves[0].From != parts[0].Node || s.Moves[0].Why != "node "+parts[0].Node+" is drained" {
		t.Errorf("%d moves are kept, the first %+v", len(s.Moves), s.Moves[0])
	}
	must(t, s.RemoveNode(parts[0].Node))
	if err := s.RemoveNode(parts[1].Node); err == nil {
		t.Error("a node that holds publishers was removed")
	}
	must(t, s.Drain(parts[1].Node, true))
	sound(t, s)
	if _, nowhere, _ := s.Parts("t"); nowhere != 2000 {
		t.Errorf("%d publishers have no place; one node of 60,000/s is left for 80,000/s", nowhere)
	}
	must(t, s.Drain(parts[1].Node, false))
	sound(t, s)
	if _, nowhere, _ := s.Parts("t"); nowhere != 0 {
		t.Errorf("%d publishers have no place though the node is back", nowhere)
	}
}

// A node that a version entered which took any text for an address goes down and is drained like any other.
func TestNodeOfAnOlderVersion(t *testing.T) {
	s := &State{}
	s.fillIn()
	s.Nodes["n 1"] = Node{Address: "mqtt://h", Capacity: 1000}
	must(t, s.SetNode("n2", Node{Address: "h:1", Capacity: 1000}))
	must(t, s.SetTopic("t", limits(100)))
	must(t, s.Join("t", joins(0, 5, 1)...))
	for name, change := range map[string]func(on bool) error{"down": func(on bool) error { return s.SetDown("n 1", on) }, "drained": func(on bool) error { return s.Drain("n 1", on) }} {
		must(t, change(true))
		if at := s.at("n 1"); len(at) > 0 || len(s.nodes()) != 1 {
			t.Errorf("%s: it has %v", name, at)
		}
		must(t, change(false))
		if len(s.nodes()) != 2 {
			t.Errorf("%s: it does not come back", name)
		}
	}
}

func TestWrongIsRefused(t *testing.T) {
	s := cluster(t, 1000)
	good := Limits{Rate: 100, Burst: 10, Objective: .001, Each: 1}
	for _, c := range []struct {
		change func(*Limits)
		want   string
	}{
		{func(l *Limits) { l.Rate = 0 }, "rate is 0, expected above 0"},
		{func(l *Limits) { l.Rate = math.NaN() }, "rate is NaN, expected above 0"},
		{func(l *Limits) { l.Rate = -1 }, "rate is -1, expected above 0"},
		{func(l *Limits) { l.Rate = 1001 }, "rate is 1001, expected at most 1000 messages a second, the capacity of all nodes: add a node"},
		{func(l *Limits) { l.Burst = .5 }, "burst is 0.5, expected 1 to"},
		{func(l *Limits) { l.Burst = math.NaN() }, "burst is NaN"},
		{func(l *Limits) { l.Objective = 0 }, "objective is 0, expected above 0"},
		{func(l *Limits) { l.Each = math.Inf(1) }, "publisher rate is +Inf"},
		{func(l *Limits) { l.Batch = .1 }, "batch is 0.1"},
	} {
		l := good
		c.change(&l)
		if err := s.SetTopic("t", l); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if err := s.SetTopic("", Limits{}); err == nil || strings.Count(err.Error(), "\n") < 4 {
		t.Errorf("not every mistake is named: %v", err)
	}
	if len(s.Topics) != 0 {
		t.Error("a refused topic is there")
	}
	must(t, s.SetTopic("t", good))
	for want, err := range map[string]error{
		"publisher is":           s.Join("t", Join{}),
		"publisher rate is 101":  s.Join("t", Join{Publisher: "p", Rate: 101}),
		"group is":               s.Join("t", Join{Publisher: "p", Group: strings.Repeat("g", 201)}),
		"capacity is NaN":        s.SetNode("n", Node{Address: "a:1", Capacity: math.NaN()}),
		"address is":             s.SetNode("n", Node{Capacity: 1}),
		`node "n9" is not known`: s.Drain("n9", true),
		`topic "u" is not known`: s.Join("u", Join{Publisher: "p"}),
		"node is n1, expected a node that is drained": s.RemoveNode("n1"),
		`topic "v" is not` + " known":                 s.RemoveTopic("v"),
		`topic "w" is ` + "not known":                 s.Leave("w"),
		`node "` + "x" + `" is not known`:             s.RemoveNode("x"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if strings.Contains(want, "not known") && !errors.Is(err, ErrUnknown) {
			t.Errorf("%v is not ErrUnknown", err)
		}
	}
	sound(t, s)
}

func TestExplain(t *testing.T) {
	s := cluster(t, 94_900, 94_900, 94_900, 94_900, 94_900)
	l := Limits{Rate: 11_000, Burst: 7076, Objective: 1e-3, Batch: 10, Each: 10}
	must(t, s.SetTopic("t", l))
	e, err := s.Explain("t")
	must(t, err)
	if !strings.HasPrefix(e.Reason, "it has no publishers yet: node ") {
		t.Errorf("%s", e)
	}
	must(t, s.Join("t", joins(0, 1000, 25)...))
	e, err = s.Explain("t")
	must(t, err)
	text := e.String()
	for _, want := range []string{"limit 11000/s, burst 7076, p99 within 1ms", "in 40 groups of up to 25", "the fewest whose predicted p99 meets the objective", "with 1: predicted p99", "misses the objective", "meets the objective"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if k := len(e.Parts); k < 2 || k == 5 || e.Options[k-1].Meets != true || e.Options[k-2].Meets {
		t.Errorf("%s", text)
	}
	if _, err := s.Explain("u"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// Whatever operators and publishers do, what always holds holds.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := cluster(t, 5000, 3000)
		for range 60 {
			topic := fmt.Sprint("t", rng.IntN(4))
			node := fmt.Sprint("n", 1+rng.IntN(5))
			switch rng.IntN(11) {
			case 0:
				_ = s.SetNode(node, Node{Address: "a:1", Capacity: 500 + 8000*rng.Float64()})
			case 1:
				_ = s.Drain(node, rng.IntN(3) > 0)
			case 2:
				_ = s.RemoveNode(node)
			case 3:
				_ = s.SetTopic(topic, Limits{Rate: 3000 * rng.Float64(), Burst: 1 + 100*rng.Float64(), Objective: .01, Each: 5})
			case 4:
				if rng.IntN(4) == 0 {
					_ = s.RemoveTopic(topic)
				}
			case 5:
				_ = s.Leave(topic, fmt.Sprintf("p%05d", rng.IntN(300)), fmt.Sprintf("p%05d", rng.IntN(300)))
			case 6:
				s.Shift(topic, node, fmt.Sprint("n", 1+rng.IntN(5)), 500*rng.Float64(), "it is slow")
			case 7:
				_ = s.SetDown(node, rng.IntN(2) > 0)
			case 8:
				_ = s.Recovered(node)
			default:
				from := rng.IntN(300)
				_ = s.Join(topic, joins(from, from+rng.IntN(100), rng.IntN(10))...)
			}
			sound(t, s)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	s := &State{}
	s.fillIn()
	s.Nodes["n"] = Node{Address: "a:1", Capacity: 1}
	data, _ := pack(s)
	f.Add(data)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &State{}
		if unpack(data, s) == nil {
			s.List()
			s.ListTopics()
			for topic := range s.Topics {
				_, _ = s.Explain(topic)
			}
		}
	})
}

// The keeper of a topic is the same for all who know the state, and a node that may hold something while there is one.
func TestKeeper(t *testing.T) {
	s := cluster(t, 100, 100, 100)
	held := map[string]int{}
	for i := range 300 {
		held[s.Keeper(fmt.Sprint("topic/", i))]++
	}
	for node, n := range held {
		if n < 50 {
			t.Errorf("%s keeps %d of 300 topics", node, n)
		}
	}
	first := s.Keeper("t")
	must(t, s.SetDown(first, true))
	second := s.Keeper("t")
	must(t, s.Drain(second, true))
	third := s.Keeper("t")
	if len(held) != 3 || first == second || second == third || first == third {
		t.Errorf("%d nodes keep topics, and %s, %s and %s one after the other", len(held), first, second, third)
	}
	must(t, s.Drain(third, true))
	if k := s.Keeper("t"); k == first || k == "" {
		t.Errorf("with all others drained %q keeps it", k)
	}
	if k := (&State{}).Keeper("t"); k != "" {
		t.Errorf("without nodes %q keeps it", k)
	}
}
