package tuning

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

const (
	// perTry is how many seeds each copy plays, and forNoise how many the original plays
	// beside: from their spread follows what chance alone makes of a mean of perTry.
	perTry, forNoise = 3, 12
	// errorsOfMean is how many standard errors of a mean a loss must be above: the worst
	// of some twenty worlds and two copies is 3.1 by chance, if no two plays of a seed had
	// anything in common.
	errorsOfMean = 4
	// manyMiddles is how many times the median a mean over all worlds must lose to be no
	// chance: four standard deviations are 5.9 medians.
	manyMiddles = 6
	// leastLoss is the loss that counts as none, as a share.
	leastLoss = 0.005
	// longest bounds how long one copy plays, against those that do not come to an end.
	longest = 5 * time.Minute
)

// core is the packages whose constants are moved.
var core = []string{"internal/signal", "internal/slots", "internal/credit", "internal/rates", "internal/schedule", "internal/share", "internal/admission", "internal/node"}

// Experiments returns the experiments of this package.
func Experiments() []experiment.Experiment {
	return []experiment.Experiment{{
		Name:  "tuning/core",
		Title: "what each constant of the control core is worth: half of it and twice as much, in worlds of wild/*",
		About: `Each constant is halved and doubled in a copy of the source, one at a time, and the copy plays worlds of wild/single,
wild/greedy and wild/hosts, one with rates and one with class shares, beside the original on the same seeds. What is near 1 has
its distance to 1 halved and doubled. A loss is of answers in time, in the mean of the seeds, in the world that loses most
beside what chance makes of it, a negative one the least gain; with class shares it is of the inverse of the mean latencies.
"Any value between": no world loses more than chance makes of it. "Not seen": every world was played exactly as before, so that
they say nothing. It needs the source tree and the go command. The quick form moves only what has a name in slots, on one seed,
in a third of the worlds.`,
		Run: run,
	}}
}

// move is a number and a try: one row has up to two.
type move struct {
	n *number
	t *try
	loss
}

// loss is what a move costs.
type loss struct {
	world   string
	most    float64 // of the original's, in that world
	mean    float64 // over all worlds
	real    bool    // more than chance makes of it
	differs bool    // from the original, in any world
	broken  string  // why it did not play
}

// form is how much is played.
type form struct {
	seed  uint64
	seeds int
	every int // how many worlds there are for one that is played
}

func run(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	f := form{o.Seed, perTry, 1}
	if o.Quick {
		f.seeds, f.every = 1, 3
	}
	p, err := prepare(ctx, core)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "spillgate-tuning")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	player, err := p.build(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("the copy of the source: %w", err)
	}
	original, err := Play(ctx, f.seed, forNoise, f.every)
	if err != nil {
		return nil, err
	}
	unmoved, err := f.play(ctx, player, "", 0, f.seeds)
	if err != nil {
		return nil, fmt.Errorf("the copy of the source: %w", err)
	}
	var moves []move
	for _, n := range p.numbers {
		if o.Quick && (n.spec == nil || n.bounds || !strings.HasPrefix(n.name, "slots.")) {
			continue
		}
		for i := range n.tries {
			moves = append(moves, move{n: n, t: &n.tries[i]})
		}
	}
	losses, err := experiment.Each(ctx, o, moves, func(m *move) (string, float64) { return m.n.name, 0 },
		func(ctx context.Context, m *move) (*loss, error) { return p.judge(ctx, f, m, player, dir, original) })
	if err != nil {
		return nil, err
	}
	for i := range moves {
		moves[i].loss = *losses[i]
	}
	onAverage := max(manyMiddles*middle(moves), leastLoss)
	for i := range moves {
		moves[i].real = moves[i].real || moves[i].mean > onAverage
	}
	r := &experiment.Result{Quick: o.Quick, Table: []*table.Table{show(moves)}}
	r.Notes = []string{fmt.Sprintf("A mean over all worlds counts as a loss above %.2f %%.", 100*onAverage)}
	r.Ceiling("worlds that the copy plays differently with nothing moved", "", 0, 0, float64(differ(unmoved, original)))
	return r, nil
}

// judge plays a move and compares it with the original. What differs nowhere on the first
// seed is played no further.
func (p *plan) judge(ctx context.Context, f form, m *move, player, dir string, original [][]Outcome) (*loss, error) {
	id := m.n.id(m.t)
	if why := p.invalid[id]; why != "" {
		return &loss{broken: why}, nil
	}
	if m.n.bounds {
		own, err := os.MkdirTemp(dir, "one")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(own)
		if player, err = p.buildOne(ctx, own, m.n, m.t); err != nil {
			return &loss{broken: err.Error()}, ctx.Err()
		}
	}
	played, err := f.play(ctx, player, id, 0, 1)
	if err == nil && f.seeds > 1 && differ(played, original) > 0 {
		var more [][]Outcome
		more, err = f.play(ctx, player, id, 1, f.seeds-1)
		for w := range more {
			played[w] = append(played[w], more[w]...)
		}
	}
	if err != nil {
		return &loss{broken: err.Error()}, ctx.Err()
	}
	return compare(original, played, f.every), nil
}

// play runs a player with a move on so many of the form's seeds, without the first few.
func (f form) play(ctx context.Context, player, id string, without, seeds int) ([][]Outcome, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("it plays for more than %v", longest))
	defer cancel()
	c := exec.CommandContext(ctx, player, strconv.FormatUint(f.seed+uint64(without), 10), strconv.Itoa(seeds), strconv.Itoa(f.every))
	c.Env = append(os.Environ(), Moved+"="+id, "GOMAXPROCS=1")
	out, err := c.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		first, _, _ := bytes.Cut(exit.Stderr, []byte("\n"))
		return nil, errors.New(string(first))
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(player), err)
	}
	var all [][]Outcome
	return all, json.Unmarshal(out, &all)
}

// differ counts the worlds that were played in another way.
func differ(moved, original [][]Outcome) (n int) {
	for w := range moved {
		if !same(moved[w], original[w]) {
			n++
		}
	}
	return n
}

// same reports whether as many plays as there are of moved were as those of the original.
func same(moved, original []Outcome) bool {
	for k := range moved {
		if moved[k].All != original[k].All {
			return false
		}
	}
	return true
}

// compare finds the world that loses most beside what chance makes of a mean there.
func compare(original, moved [][]Outcome, every int) *loss {
	l, worst := &loss{}, math.Inf(-1)
	names := named(every)
	for w := range moved {
		was, is := mean(original[w][:len(moved[w])]), mean(moved[w])
		lost := (was - is) / max(was, 1)
		l.mean += lost / float64(len(moved))
		if same(moved[w], original[w]) {
			continue
		}
		l.differs = true
		chance := errorsOfMean * deviation(original[w]) / math.Sqrt(float64(len(moved[w]))) / max(was, 1)
		if beside := lost / max(chance, leastLoss); beside > worst {
			worst = beside
			l.world, l.most, l.real = names[w], lost, beside > 1
		}
	}
	return l
}

func mean(all []Outcome) float64 {
	sum := 0.0
	for _, o := range all {
		sum += o.Worth
	}
	return sum / float64(len(all))
}

// deviation is the standard deviation of what a seed comes to.
func deviation(all []Outcome) float64 {
	m, sum := mean(all), 0.0
	for _, o := range all {
		sum += (o.Worth - m) * (o.Worth - m)
	}
	return math.Sqrt(sum / float64(len(all)-1))
}

// middle is the median of what the moves that change anything lose or gain over all worlds:
// most of them move what hardly matters, so that it says what chance makes of such a mean.
func middle(moves []move) float64 {
	all := []float64{0}
	for i := range moves {
		if moves[i].differs {
			all = append(all, math.Abs(moves[i].mean))
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// show puts both tries of a number into one row.
func show(moves []move) *table.Table {
	t := &table.Table{Title: "What a constant is worth", Columns: []table.Column{{Name: "constant"}, {Name: "file"}, {Name: "value"},
		{Name: "smaller"}, {Name: "loss", Unit: "%"}, {Name: "mean", Unit: "%"}, {Name: "where"},
		{Name: "larger"}, {Name: "loss there", Unit: "%"}, {Name: "its mean", Unit: "%"}, {Name: "where larger"}, {Name: "verdict"}}}
	for i := 0; i < len(moves); {
		n := moves[i].n
		cells := []any{n.name, n.file, n.value}
		var both [2]*move
		for ; i < len(moves) && moves[i].n == n; i++ {
			if moves[i].t.larger {
				both[1] = &moves[i]
			} else {
				both[0] = &moves[i]
			}
		}
		for _, m := range both {
			cells = append(cells, m.cells()...)
		}
		t.Add(append(cells, verdict(both))...)
	}
	return t
}

func (m *move) cells() []any {
	switch {
	case m == nil:
		return []any{"–", "–", "–", "–"}
	case m.broken != "":
		return []any{m.t.shown, "–", "–", m.broken}
	case !m.differs:
		return []any{m.t.shown, "0", "0", "–"}
	}
	percent := func(x float64) string { return fmt.Sprintf("%.1f", 100*x) }
	return []any{m.t.shown, percent(m.most), percent(m.mean), m.world}
}

// verdict says what both tries of a number mean.
func verdict(both [2]*move) string {
	var differs, smaller, larger, broken bool
	for i, m := range both {
		if m == nil {
			continue
		}
		differs = differs || m.differs
		broken = broken || m.broken != ""
		smaller, larger = smaller || i == 0 && m.real, larger || i == 1 && m.real
	}
	switch {
	case smaller && larger:
		return "both ways cost"
	case smaller:
		return "not smaller"
	case larger:
		return "not larger"
	case broken:
		return "no other value works"
	case differs:
		return "any value between"
	}
	return "not seen"
}
