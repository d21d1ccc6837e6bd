package worldfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

func (d *decoder) group(n node) world.Group {
	var g world.Group
	d.Object(n, keys{
		"name":           func(n node) { d.Text(n, &g.Name) },
		"clients":        func(n node) { d.Integer(n, &g.Clients) },
		"connections":    func(n node) { d.Integer(n, &g.Connections) },
		"shared_address": func(n node) { d.Boolean(n, &g.SharedAddress) },
		"kind":           func(n node) { d.kind(n, &g.Kind) },
		"by_reply":       func(n node) { d.Boolean(n, &g.ByReply) },
		"ask":            func(n node) { g.Ask = d.ask(n) },
		"load":           func(n node) { d.load(n, &g.Load) },
		"arrive":         func(n node) { d.Duration(n, &g.Arrive) },
		"deadline":       func(n node) { d.orWord(n, &g.Deadline, "never") },
		"give_up":        func(n node) { d.Duration(n, &g.GiveUp) },
		"cycle":          func(n node) { d.Integer(n, &g.Cycle) },
		"patient":        func(n node) { d.Boolean(n, &g.Patient) },
		"churn": func(n node) {
			d.Object(n, keys{
				"stay": func(n node) { d.Duration(n, &g.Churn.Stay) },
				"away": func(n node) { d.Duration(n, &g.Churn.Away) },
			})
		},
		"retry": func(n node) {
			r := &g.Retry
			d.Object(n, keys{
				"attempts": func(n node) { d.Integer(n, &r.Attempts) },
				"backoff":  func(n node) { d.Duration(n, &r.Backoff) },
				"stubborn": func(n node) { d.Boolean(n, &r.Stubborn) },
				"budget":   func(n node) { d.Number(n, &r.Budget) },
			})
		},
		"workflow": func(n node) { d.Text(n, &g.Workflow) },
		"class":    func(n node) { d.class(n, &g.Class) },
		"priority": func(n node) { d.priority(n, &g.Priority) },
		"share":    func(n node) { d.Number(n, &g.Share) },
	})
	return g
}

func (d *decoder) kind(n node, to *world.Kind) {
	s := ""
	if !d.Text(n, &s) {
		return
	}
	switch s {
	case "credits":
		*to = world.Credits
	case "plain":
		*to = world.Plain
	case "greedy":
		*to = world.Greedy
	case "minting":
		*to = world.Minting
	default:
		d.Wrong(n, plainyaml.Quoted(s), "credits, plain, greedy or minting")
	}
}

func (d *decoder) class(n node, to *work.Class) {
	s := ""
	if !d.Text(n, &s) {
		return
	}
	for c := range work.NumClasses {
		if c.String() == s {
			*to = c
			return
		}
	}
	d.Wrong(n, plainyaml.Quoted(s), "default or interactive")
}

func (d *decoder) priority(n node, to *work.Priority) {
	i := 0
	if d.Integer(n, &i); i > int(work.MaxPriority) {
		d.Wrong(n, strconv.Itoa(i), fmt.Sprintf("0 (the best) to %d", work.MaxPriority))
		return
	}
	*to = work.Priority(i)
}

// ask decodes a method, a list of methods, or methods each with how often it is
// asked for: {api.get: 9, api.put: 1}.
func (d *decoder) ask(n node) (asks []world.Ask) {
	path := n.Path()
	if !n.Mapping() {
		d.List(n, func(n node) { asks = append(asks, world.Ask{Target: d.target(n)}) })
		return asks
	}
	d.Table(n, func(key string, n node) {
		n = d.Alias(n, fmt.Sprintf("%s[%d]", path, len(asks)))
		a := world.Ask{Target: toTarget(key)}
		if d.Number(n, &a.Weight) && a.Weight == 0 {
			d.Wrong(n, "0", "a number above 0: how often it is asked for, relative to the others")
		}
		asks = append(asks, a)
	})
	return asks
}

// load decodes what a group sends: a rate, a list of steps, or one of the keys.
func (d *decoder) load(n node, l *world.Load) {
	path := n.Path()
	switch {
	case n.Scalar():
		l.Steps = []world.Rate{{}}
		d.rate(d.Alias(n, path+".steps[0].rate"), &l.Steps[0])
		return
	case n.Sequence():
		d.loadSteps(d.Alias(n, path+".steps"), l)
		return
	}
	before := d.Len()
	d.loadKeys(n, l)
	if d.Len() > before && len(l.Steps)+l.Users+len(l.Arrivals) == 0 {
		l.Users = 1 // so that the mistake does not make a second one, a load that is missing
	}
}

// loadKeys decodes a load that has keys.
func (d *decoder) loadKeys(n node, l *world.Load) {
	path := n.Path()
	speed := 1.0
	var trace func()
	var fast node
	d.Object(n, keys{
		"rate": func(n node) {
			if len(l.Steps) > 0 {
				d.Wrong(n, "a rate beside steps", "one of them")
				return
			}
			l.Steps = []world.Rate{{}}
			d.rate(d.Alias(n, path+".steps[0].rate"), &l.Steps[0])
		},
		"steps": func(n node) {
			if len(l.Steps) > 0 {
				d.Wrong(n, "steps beside a rate", "one of them")
				return
			}
			d.loadSteps(n, l)
		},
		"users": func(n node) { d.Integer(n, &l.Users) },
		"think": func(n node) { d.Duration(n, &l.Think) },
		"arrivals": func(n node) {
			if s := ""; d.Text(n, &s) {
				trace = func() { d.trace(n, d.path(s), speed, l) }
			}
		},
		"speed": func(n node) {
			fast = n
			if d.Number(n, &speed) && (speed < 0.01 || speed > 1e6) {
				d.Wrong(n, fmt.Sprintf("%g", speed), "0.01 to 1000000: how many times as fast as it was the trace is played")
				speed = 1
			}
		},
	})
	switch {
	case trace != nil:
		trace()
	case fast.Path() != "":
		d.Wrong(fast, "a speed", "arrivals, which it is the speed of")
	}
}

func (d *decoder) loadSteps(n node, l *world.Load) {
	d.List(n, func(n node) {
		var r world.Rate
		path := n.Path()
		d.Object(n, keys{
			"at":    func(n node) { d.Duration(n, &r.At) },
			"rate":  func(n node) { d.rate(d.Alias(n, path+".rate"), &r) },
			"for":   func(n node) { d.Duration(n, &r.For) },
			"every": func(n node) { d.Duration(n, &r.Every) },
		})
		l.Steps = append(l.Steps, r)
	})
}

// rate decodes requests in a time, such as 200/s, or a multiple of the capacity,
// such as 2x.
func (d *decoder) rate(n node, to *world.Rate) {
	s := ""
	if !d.Text(n, &s) {
		return
	}
	for _, unit := range [...]struct {
		suffix string
		per    float64
		to     *float64
	}{{"/s", 1, &to.PerSecond}, {"/min", 60, &to.PerSecond}, {"/h", 3600, &to.PerSecond}, {"x", 1, &to.Times}} {
		if digits, ok := strings.CutSuffix(s, unit.suffix); ok {
			if x, err := strconv.ParseFloat(strings.TrimSpace(digits), 64); err == nil && x >= 0 {
				*unit.to = x / unit.per
				return
			}
		}
	}
	d.Wrong(n, plainyaml.Quoted(s), "a rate such as 200/s or 90/min, or a multiple of the capacity such as 2x")
}
