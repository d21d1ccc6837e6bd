package config

import (
	"strconv"
	"strings"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/rates"
	"github.com/spillgate/spillgate/internal/schedule"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/proxy"
)

// orNever decodes a number, or never, which is negative in the configuration.
func (d *decoder) orNever(n node, to *int) {
	value := n.Kind()
	s, word := n.Word()
	switch {
	case s == "never":
		*to = -1
	case word, strings.HasPrefix(value, "-"):
		d.Wrong(n, value, "a whole number of at least 0, or never")
	default:
		d.Integer(n, to)
	}
}

func (d *decoder) workflows(n node, to *map[string]proxy.Workflow) {
	all := map[string]proxy.Workflow{}
	d.Table(n, func(name string, n node) {
		var w proxy.Workflow
		d.Object(n, keys{
			"weight":    func(n node) { d.Number(n, &w.Weight) },
			"guarantee": func(n node) { d.Number(n, &w.Guarantee) },
			"deadline":  func(n node) { d.Duration(n, &w.Deadline) },
			"priority":  func(n node) { d.priority(n, &w.Priority) },
			"class":     func(n node) { d.class(n, &w.Class) },
		})
		all[name] = w
	})
	if len(all) > 0 {
		*to = all
	}
}

func (d *decoder) rules(n node, to *[]classify.Rule) {
	d.List(n, func(n node) {
		var r classify.Rule
		d.Object(n, keys{
			"match": func(n node) { d.match(n, &r.Match) },
			"set":   func(n node) { d.set(n, &r.Set) },
		})
		*to = append(*to, r)
	})
}

func (d *decoder) match(n node, to *classify.Match) {
	before := d.Len()
	defer func() {
		if d.Len() > before {
			// Without the condition that could not be read it may match everything,
			// which would make mistakes of the rules behind it.
			to.Method = append(to.Method, "GET")
		}
	}()
	d.Object(n, keys{
		"header": func(n node) {
			d.List(n, func(n node) {
				var h classify.Header
				if s := ""; d.Text(n, &s) {
					value := false
					if h.Name, h.Value, value = strings.Cut(s, "="); value && h.Value == "" {
						d.Wrong(n, plainyaml.Quoted(s), "a header such as X-Tenant, or with its value, X-Tenant=acme")
					}
				}
				to.Header = append(to.Header, h)
			})
		},
		"path":   func(n node) { d.texts(n, &to.Path) },
		"method": func(n node) { d.texts(n, &to.Method) },
		"host":   func(n node) { d.texts(n, &to.Host) },
		"peer": func(n node) {
			d.List(n, func(n node) {
				to.Peer = append(to.Peer, d.network(n))
			})
		},
		"etcd_range": func(n node) {
			d.List(n, func(n node) {
				s := ""
				d.AnyText(n, &s)
				to.EtcdRange = append(to.EtcdRange, s)
			})
		},
		"baggage": func(n node) {
			if s := ""; d.Text(n, &s) {
				b, err := classify.ParseBaggage(s)
				if err != nil {
					d.Wrong(n, plainyaml.Quoted(s), "trusted or any")
				}
				to.Baggage = b
			}
		},
	})
}

func (d *decoder) set(n node, to *classify.Set) {
	d.Object(n, keys{
		"workflow":        func(n node) { d.Text(n, &to.Workflow) },
		"workflow_header": func(n node) { d.Text(n, &to.WorkflowHeader) },
		"kind":            func(n node) { d.Text(n, &to.Use.Kind) },
		"holds":           func(n node) { d.Text(n, &to.Use.Holds) },
		"needs":           func(n node) { d.Text(n, &to.Use.Needs) },
		"at_once":         func(n node) { d.Integer(n, &to.Use.AtOnce) },
		"cancel": func(n node) {
			cancel := true
			d.Boolean(n, &cancel)
			to.Use.NoCancel = !cancel
		},
		"class": func(n node) {
			to.Class = new(work.Class)
			d.class(n, to.Class)
		},
		"priority": func(n node) {
			to.Priority = new(work.Priority)
			d.priority(n, to.Priority)
		},
		"deadline":  func(n node) { d.Duration(n, &to.Deadline) },
		"objective": func(n node) { d.Duration(n, &to.Objective) },
	})
}

func (d *decoder) schedule(n node, to *proxy.Schedule) {
	d.Object(n, keys{
		"order": func(n node) {
			if s := ""; d.Text(n, &s) {
				o, err := schedule.ParseOrder(s)
				if err != nil {
					d.Wrong(n, plainyaml.Quoted(s), "fifo, edf, lstf, sjf, srtf or lasf")
				}
				to.Order = o
			}
		},
		"fair": func(n node) {
			to.Fair = true // if it cannot be read: weights are no mistakes then
			d.Boolean(n, &to.Fair)
		},
		"turns": func(n node) {
			turns := true
			d.Boolean(n, &turns)
			to.NoTurns = !turns
		},
		"aging": func(n node) { d.Duration(n, &to.Aging) },
	})
}

func (d *decoder) rates(n node, to *proxy.Rates) {
	d.Object(n, keys{
		"enabled": func(n node) {
			to.Enabled = true // as fair
			d.Boolean(n, &to.Enabled)
		},
		"policy": func(n node) {
			if s := ""; d.Text(n, &s) {
				p, ok := policy(s)
				if !ok {
					d.Wrong(n, plainyaml.Quoted(s), "bottleneck-fair, max-min-fair or dominant-fair")
				}
				to.Policy = p
			}
		},
		"period": func(n node) { d.Duration(n, &to.Period) },
		"quantile": func(n node) {
			if d.Number(n, &to.Quantile) && to.Quantile == 0 {
				to.Quantile = -1 // to a proxy.Config 0 is the default, and this is the smallest
			}
		},
		"idle_cost": func(n node) { d.Number(n, &to.IdleCost) },
	})
}

func policy(s string) (rates.Policy, bool) {
	for _, p := range [...]rates.Policy{rates.BottleneckFair, rates.MaxMinFair, rates.DominantFair} {
		if s == p.String() {
			return p, true
		}
	}
	return 0, false
}

func (d *decoder) texts(n node, to *[]string) {
	d.List(n, func(n node) {
		s := ""
		d.Text(n, &s)
		*to = append(*to, s)
	})
}

func (d *decoder) class(n node, to *work.Class) {
	s := ""
	if !d.Text(n, &s) {
		return
	}
	c, err := classify.ParseClass(s)
	if err != nil {
		d.Wrong(n, plainyaml.Quoted(s), "default or interactive")
		return
	}
	*to = c
}

func (d *decoder) priority(n node, to *work.Priority) {
	i := 0
	if d.Integer(n, &i); i > int(work.MaxPriority) {
		d.Wrong(n, strconv.Itoa(i), "0 (the best) to 127")
		return
	}
	*to = work.Priority(i)
}
