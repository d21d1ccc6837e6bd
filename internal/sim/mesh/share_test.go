package mesh_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/sim/mesh"
	"github.com/spillgate/spillgate/internal/work"
)

// chains is four servers of 100/s without a network: interactive requests enter at
// the first and go through all, others visit one.
func chains(interactive, other float64, control mesh.Control) mesh.Config {
	cfg := mesh.Config{Seed: 1, Network: mesh.Network{Delay: -1}, Control: control, Timeout: -1,
		Warmup: 50 * time.Second, Length: 1050 * time.Second}
	step := mesh.Work(mesh.Exp(10 * ms))
	var below []mesh.Step
	for i := 3; i >= 0; i-- {
		name := fmt.Sprint("s", i)
		cfg.Services = append(cfg.Services, mesh.Service{Name: name})
		cfg.Workflows = append(cfg.Workflows, mesh.Workflow{Name: "one" + name, Class: mesh.NonInteractive, Root: mesh.Stage{Service: name, Steps: []mesh.Step{step}}})
		cfg.Groups = append(cfg.Groups, mesh.Group{Mix: []mesh.Part{{Workflow: "one" + name, Weight: 1}}, Load: mesh.Constant(other)})
		below = append([]mesh.Step{step}, below...)
		if i > 0 {
			below = []mesh.Step{mesh.Each(mesh.One(name, below...))}
		}
	}
	cfg.Workflows = append(cfg.Workflows, mesh.Workflow{Name: "chain", Class: mesh.Interactive, Root: mesh.Stage{Service: "s0", Steps: below}})
	cfg.Groups = append(cfg.Groups, mesh.Group{Mix: []mesh.Part{{Workflow: "chain", Weight: 1}}, Load: mesh.Constant(interactive)})
	return cfg
}

// means returns the mean latencies of chains and of the others, in ms.
func means(r *mesh.Report) (chain, other float64) {
	sum, n := 0.0, 0.0
	for i := range 4 {
		c := &r.Workflows[i]
		sum, n = sum+c.Latency.Mean().Seconds()*1e3*float64(c.Good), n+float64(c.Good)
	}
	return r.Workflows[4].Latency.Mean().Seconds() * 1e3, sum / n
}

// TestLottery: a weight moves the two classes along the conservation law, to where
// the exact figures have it; 1 is priority.
func TestLottery(t *testing.T) {
	for _, tt := range []struct{ weight, chain, other float64 }{{0, 100, 25}, {0.65, 90.1, 27.3}, {0.9, 78.5, 30.5}, {1, 74.3, 31.4}} {
		chain, other := means(run(t, chains(30, 30, mesh.Control{Lottery: tt.weight})))
		near(t, fmt.Sprintf("chains at %v", tt.weight), chain, tt.chain, 0.03)
		near(t, fmt.Sprintf("others at %v", tt.weight), other, tt.other, 0.03)
	}
}

// TestShareLearnsAndFavours: processes that are told nothing find out which calls
// belong to chains, by their hops and at the last one by the whole; then the chains
// gain and the others lose a quarter at most. Told the classes, the same.
func TestShareLearnsAndFavours(t *testing.T) {
	fifo, others := means(run(t, chains(40, 40, mesh.Control{})))
	for _, learned := range []bool{false, true} {
		cfg := chains(40, 40, mesh.Control{Share: &share.Config{}})
		if learned {
			for i := range cfg.Workflows {
				cfg.Workflows[i].Class = mesh.Learned
			}
		}
		r := run(t, cfg)
		chain, other := means(r)
		if gain := 1 - chain/fifo; gain < 0.2 {
			t.Errorf("learned %v: chains take %.1f ms, FIFO %.1f", learned, chain, fifo)
		}
		if harm := other/others - 1; harm > 0.25+0.03 {
			t.Errorf("learned %v: others take %.1f ms, FIFO %.1f", learned, other, others)
		}
		if len(r.Shares) != 4 || len(r.Shares[0].Decisions) < 1000 {
			t.Fatalf("%d processes report, expected 4 with a decision a second", len(r.Shares))
		}
		for _, s := range r.Shares {
			wrong := s.Calls[4][work.Default]
			for f := range 4 {
				wrong += s.Calls[f][work.Interactive]
			}
			// Eight of a kind are seen before it has a class; some more are on their way.
			if most := 60; wrong > most || !learned && wrong > 0 {
				t.Errorf("learned %v: %s took %d calls for what they are not, expected at most %d", learned, s.Service, wrong, most)
			}
		}
	}
}

// TestPatience: clients give up after an exponential time that nobody knows. One
// server is M/M/1+M then, but that service is not interrupted.
func TestPatience(t *testing.T) {
	r := run(t, mesh.Config{Seed: 1, Network: mesh.Network{Delay: -1}, Control: mesh.Control{GiveUp: true, Cancel: true}, Timeout: -1,
		Services:  []mesh.Service{{Name: "a"}},
		Workflows: []mesh.Workflow{{Name: "w", Patience: 100 * ms, Root: mesh.Stage{Service: "a", Steps: []mesh.Step{mesh.Work(mesh.Exp(10 * ms))}}}},
		Groups:    []mesh.Group{{Load: mesh.Constant(120)}}, Warmup: 10 * time.Second, Length: 1010 * time.Second})
	q, ok := share.MarkovQueue(120, 100, 10)
	c := &r.Workflows[0]
	// Who gives up while being served is lost to the client too: a part
	// θ/(µ+θ) of those who are.
	want := q.Lost + (1-q.Lost)*10/110
	if near(t, "share that gave up", float64(c.GaveUp)/float64(c.Offered), want, 0.03); !ok || c.Refused != [work.NumReasons]int{} {
		t.Errorf("refused: %v", c.Refused)
	}
}

// TestShareMistakes: what is out of range is refused.
func TestShareMistakes(t *testing.T) {
	for name, change := range map[string]func(*mesh.Config){
		"lottery":             func(c *mesh.Config) { c.Control.Lottery = 1.1 },
		"lottery and share":   func(c *mesh.Config) { c.Control.Lottery, c.Control.Share = 0.5, &share.Config{} },
		"patience":            func(c *mesh.Config) { c.Workflows[0].Patience = -1 },
		"class":               func(c *mesh.Config) { c.Workflows[0].Class = 9 },
		"share's own mistake": func(c *mesh.Config) { c.Control.Share = &share.Config{Ratio: -1} },
	} {
		cfg := chains(1, 1, mesh.Control{})
		change(&cfg)
		if _, err := mesh.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
