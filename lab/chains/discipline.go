package chains

import "fmt"

// Discipline says in which order the requests at a Go service get its workers.
type Discipline struct {
	// Name is that of tables.
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Weight is that of the interactive class, 0 to 1; the default class has the
	// rest. FIFO and Share ignore it.
	Weight float64 `json:"weight,omitempty"`
}

// Kind is how a Discipline uses its weight.
type Kind string

// The kinds of disciplines.
const (
	// FIFO is one queue in order of arrival.
	FIFO Kind = "fifo"
	// Weighted is live.Resource: while both classes wait, what they get has the
	// ratio of their weights. A weight of 1 is priority, up to the largest ratio
	// that package schedule has.
	Weighted Kind = "weighted"
	// Lottery takes from the interactive queue with the probability of its weight
	// while both wait.
	Lottery Kind = "lottery"
	// Static gives each class a part of every worker, which the other cannot use: the
	// paper's adjustment taken literally.
	Static Kind = "static"
	// Share is Weighted with the weight that share.Controller finds.
	Share Kind = "share"
)

func (d Discipline) validate() error {
	low, high := 0.0, 1.0
	switch d.Kind {
	case FIFO, Share:
		return nil
	case Weighted, Lottery:
	case Static:
		low, high = 0.01, 0.99
	default:
		return fmt.Errorf("chains: Kind is %q, expected fifo, weighted, lottery, static or share", d.Kind)
	}
	if !(d.Weight >= low && d.Weight <= high) {
		return fmt.Errorf("chains: Weight is %v, expected %v to %v for %s", d.Weight, low, high, d.Kind)
	}
	return nil
}
