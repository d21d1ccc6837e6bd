package config

import (
	"time"

	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/proxy"
)

// slots decodes a number, or its bounds.
func (d *decoder) slots(n node, to *proxy.Slots) {
	if n.Scalar() {
		d.Integer(n, &to.Min)
		to.Max = to.Min
		return
	}
	d.Object(n, keys{
		"min": func(n node) { d.Integer(n, &to.Min) },
		"max": func(n node) { d.Integer(n, &to.Max) },
	})
}

func (d *decoder) share(n node, to *proxy.Share) {
	d.Object(n, keys{
		"order": func(n node) {
			if s := ""; d.Text(n, &s) {
				o, err := proxy.ParseClassOrder(s)
				if err != nil {
					d.Wrong(n, plainyaml.Quoted(s), proxy.ClassOrders)
				}
				to.Order = o
			}
		},
		"weight":           func(n node) { d.Number(n, &to.Weight) },
		"service":          func(n node) { d.Text(n, &to.Service) },
		"caller":           func(n node) { d.Text(n, &to.Caller) },
		"ratio":            func(n node) { d.Number(n, &to.Ratio) },
		"harm":             func(n node) { d.orNone(n, &to.MaxHarm) },
		"loss":             func(n node) { d.orNone(n, &to.MaxLoss) },
		"max_weight":       func(n node) { d.Number(n, &to.MaxWeight) },
		"period":           func(n node) { d.Duration(n, &to.Period) },
		"patience":         func(n node) { d.patience(n, &to.Patience) },
		"default_patience": func(n node) { d.patience(n, &to.DefaultPatience) },
		"classes": func(n node) {
			d.List(n, func(n node) {
				o := share.Override{Class: work.NumClasses}
				d.Object(n, keys{
					"caller": func(n node) { d.Text(n, &o.Caller) },
					"callee": func(n node) { d.Text(n, &o.Callee) },
					"method": func(n node) { d.Text(n, &o.Method) },
					"class":  func(n node) { o.Class = 0; d.class(n, &o.Class) },
				})
				if o.Class == work.NumClasses {
					o.Class = 0
					d.Wrong(n, "no class", "class: default or interactive")
				}
				to.Classes = append(to.Classes, o)
			})
		},
	})
}

// orNone decodes a number of which 0 means none, where the configuration has 0 for
// the default.
func (d *decoder) orNone(n node, to *float64) {
	if d.Number(n, to) && *to == 0 {
		*to = -1
	}
}

// patience decodes kinds of callers: what share of all they are, and the mean time
// after which they give up.
func (d *decoder) patience(n node, to *share.Patience) {
	d.List(n, func(n node) {
		b := share.Branch{Weight: 1}
		d.Object(n, keys{
			"share": func(n node) { d.Number(n, &b.Weight) },
			"mean": func(n node) {
				mean := time.Duration(-1)
				d.Duration(n, &mean)
				switch {
				case mean > 0:
					b.Rate = 1 / mean.Seconds()
				case mean == 0:
					d.Wrong(n, "0", "a time above 0; without the key they never give up")
				}
			},
		})
		*to = append(*to, b)
	})
}

func (d *decoder) egress(n node, to *[]proxy.Egress) {
	d.List(n, func(n node) {
		var e proxy.Egress
		d.Object(n, keys{
			"address":  func(n node) { d.Text(n, &e.Address) },
			"name":     func(n node) { d.Text(n, &e.Name) },
			"url":      func(n node) { d.Text(n, &e.URL) },
			"ca":       func(n node) { d.Text(n, &e.CA) },
			"cert":     func(n node) { d.Text(n, &e.Cert) },
			"key":      func(n node) { d.Text(n, &e.Key) },
			"insecure": func(n node) { d.Boolean(n, &e.Insecure) },
		})
		*to = append(*to, e)
	})
}
