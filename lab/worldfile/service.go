package worldfile

import (
	"strconv"
	"strings"
	"time"

	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/world"
)

// onlyMethod is the name of the method of a service whose steps stand in the service
// itself.
const onlyMethod = "do"

func (d *decoder) service(n node) world.Service {
	var s world.Service
	gate := true
	methods := false
	path := n.Path()
	d.Object(n, keys{
		"name":      func(n node) { d.Text(n, &s.Name) },
		"host":      func(n node) { d.Text(n, &s.Host) },
		"replicas":  func(n node) { d.Integer(n, &s.Replicas) },
		"threads":   func(n node) { d.Integer(n, &s.Threads) },
		"workers":   func(n node) { d.Integer(n, &s.Workers) },
		"objective": func(n node) { d.Duration(n, &s.Objective) },
		"gate":      func(n node) { d.Boolean(n, &gate) },
		"deaf":      func(n node) { d.Boolean(n, &s.Deaf) },
		"async":     func(n node) { d.Boolean(n, &s.Async) },
		"locks": func(n node) {
			d.List(n, func(n node) {
				var l world.Lock
				d.Object(n, keys{
					"name":    func(n node) { d.Text(n, &l.Name) },
					"permits": func(n node) { d.Integer(n, &l.Permits) },
					"batch":   func(n node) { d.Boolean(n, &l.Batch) },
				})
				s.Locks = append(s.Locks, l)
			})
		},
		"contention": func(n node) {
			d.Object(n, keys{
				"each": func(n node) { d.Number(n, &s.Contention.Each) },
				"pair": func(n node) { d.Number(n, &s.Contention.Pair) },
			})
		},
		"proxied": func(n node) { d.Boolean(n, &s.Proxied) },
		"message": func(n node) { d.Duration(n, &s.Message) },
		"methods": func(n node) {
			if methods {
				d.Wrong(n, "methods beside steps", "one of them")
				return
			}
			methods = true
			d.List(n, func(n node) { s.Methods = append(s.Methods, d.method(n)) })
		},
		"steps": func(n node) {
			if methods {
				d.Wrong(n, "steps beside methods", "one of them")
				return
			}
			methods = true
			s.Methods = []world.Method{{Name: onlyMethod, Steps: d.steps(d.Alias(n, path+".methods[0].steps"))}}
		},
	})
	s.Ungated = !gate
	return s
}

func (d *decoder) method(n node) world.Method {
	var m world.Method
	d.Object(n, keys{
		"name": func(n node) { d.Text(n, &m.Name) },
		"answer": func(n node) {
			if n.Scalar() {
				d.Integer(n, &m.Answer.Most)
				m.Answer.Least = m.Answer.Most
				return
			}
			d.Object(n, keys{
				"least": func(n node) { d.Integer(n, &m.Answer.Least) },
				"most":  func(n node) { d.Integer(n, &m.Answer.Most) },
			})
		},
		"idle":  func(n node) { d.Boolean(n, &m.Idle) },
		"steps": func(n node) { m.Steps = d.steps(n) },
	})
	return m
}

func (d *decoder) steps(n node) (steps []world.Step) {
	d.List(n, func(n node) {
		var s world.Step
		d.Object(n, keys{
			"wait":    func(n node) { s.Wait = d.draw(n) },
			"compute": func(n node) { s.Compute = d.draw(n) },
			"lock":    func(n node) { d.Text(n, &s.Lock) },
			"call": func(n node) {
				d.List(n, func(n node) { s.Call = append(s.Call, d.target(n)) })
			},
		})
		steps = append(steps, s)
	})
	return steps
}

// target decodes the name of a method.
func (d *decoder) target(n node) world.Target {
	s := ""
	d.Text(n, &s)
	return toTarget(s)
}

func toTarget(s string) world.Target {
	service, method, _ := strings.Cut(s, ".")
	return world.Target{Service: service, Method: method}
}

// draw decodes a distribution of times.
func (d *decoder) draw(n node) *world.Draw {
	if n.Mapping() {
		return d.weighted(n)
	}
	out := &world.Draw{}
	if s := ""; d.Text(n, &s) {
		read, ok := parseDraw(s)
		if !ok {
			d.Wrong(n, plainyaml.Quoted(s), "a time such as 10ms or constant 10ms, exponential 10ms, pareto 1.5 10ms, lognormal 1 10ms, or keys: histogram or points, spread")
		}
		*out = read
	}
	return out
}

// parseDraw reads a distribution that has a name: the shape, its parameter if it has
// one, the mean. A time alone is constant.
func parseDraw(s string) (world.Draw, bool) {
	var d world.Draw
	words := strings.Fields(s)
	if len(words) > 1 {
		shape, param := shapeOf(words[0])
		if shape == world.Weighted || len(words) != 2 && !param || len(words) != 3 && param {
			return d, false
		}
		d.Shape = shape
		if param {
			x, err := strconv.ParseFloat(words[1], 64)
			if err != nil {
				return d, false
			}
			d.Param = x
		}
		words = words[len(words)-1:]
	}
	if len(words) != 1 {
		return d, false
	}
	mean, err := time.ParseDuration(words[0])
	d.Mean = mean
	return d, err == nil
}

// shapeOf returns the shape called s, and whether it has a parameter; Weighted if
// none is called so.
func shapeOf(s string) (shape world.Shape, param bool) {
	switch s {
	case "constant":
		return world.Constant, false
	case "exponential":
		return world.Exponential, false
	case "pareto":
		return world.Pareto, true
	case "lognormal":
		return world.Lognormal, true
	}
	return world.Weighted, false
}

// weighted decodes points, in the file or in a file of their own.
func (d *decoder) weighted(n node) *world.Draw {
	out := &world.Draw{Shape: world.Weighted}
	seen := false
	path := n.Path()
	once := func(n node) bool {
		if seen {
			d.Wrong(n, "histogram beside points", "one of them")
		}
		fresh := !seen
		seen = true
		return fresh
	}
	d.Object(n, keys{
		"spread": func(n node) { d.Boolean(n, &out.Spread) },
		"histogram": func(n node) {
			if s := ""; once(n) && d.Text(n, &s) {
				d.histogram(d.Alias(n, path+".points"), d.path(s), out)
			}
		},
		"points": func(n node) {
			if once(n) {
				d.points(n, out)
			}
		},
	})
	return out
}

// points decodes times, each with how often it comes: {5ms: 99, 500ms: 1}.
func (d *decoder) points(n node, out *world.Draw) {
	path := n.Path()
	d.Table(n, func(key string, n node) {
		n = d.Alias(n, path+"["+strconv.Itoa(len(out.Points))+"]")
		p := world.Point{}
		value, err := time.ParseDuration(key)
		if err != nil {
			d.Wrong(n, "a time of "+plainyaml.Quoted(key), "a duration such as 100ms, 2s or 1m30s")
		}
		p.Value = value
		d.Number(n, &p.Weight)
		out.Points = append(out.Points, p)
	})
}
