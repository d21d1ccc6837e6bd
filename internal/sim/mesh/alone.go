package mesh

import (
	"math"
	"time"
)

// isolated returns the time that a request takes alone in an idle world, with
// the same work; its own parallel calls contend with each other there too.
func (w *World) isolated(workflow int32, chance draws, tenant uint32) time.Duration {
	if w.alone == nil {
		cfg := w.cfg
		cfg.Control, cfg.Faults, cfg.Log, cfg.Event, cfg.RatesOf = Control{}, nil, nil, nil, nil
		cfg.Groups = []Group{{Load: Constant(0)}}
		cfg.Workflows = append([]Workflow(nil), cfg.Workflows...)
		for i := range cfg.Workflows {
			cfg.Workflows[i].Deadline = Deadline{}
		}
		if cfg.Network.Delay == 0 {
			cfg.Network.Delay = -1
		}
		cfg.Timeout, cfg.Bin, cfg.Warmup, cfg.Length = -1, 0, 0, math.MaxInt64
		alone, err := New(cfg)
		if err != nil {
			w.err = err
			return 0
		}
		w.alone = alone
		w.manners, w.walker = alone.mannersOf(), alone.newWalker()
	}
	a := w.alone
	switch entry := &a.mixes[0].entry[workflow]; w.manners[workflow] {
	case addedUp:
		return w.walker.alone(entry, tenant, chance.of(drawChild, 0))
	case inSolo:
		return w.walker.play(entry, tenant, chance.of(drawChild, 0))
	}
	began := a.Now()
	r := a.begin(0, workflow, chance, tenant, 0)
	for r.open && a.Step() {
	}
	return a.Now().Sub(began)
}

// typicalSamples is over how many requests typical takes the mean.
const typicalSamples = 500

// typical returns the mean of isolated over requests of a workflow, in
// nanoseconds.
func (w *World) typical(workflow int32) float64 {
	if w.typicals == nil {
		w.typicals = make([]float64, len(w.cfg.Workflows))
	}
	if w.typicals[workflow] == 0 {
		sum := 0.0
		for i := range uint64(typicalSamples) {
			chance := draws(w.cfg.Seed).of(drawTypical, i)
			sum += float64(w.isolated(workflow, chance, uint32(i)))
		}
		w.typicals[workflow] = sum / typicalSamples
	}
	return w.typicals[workflow]
}
