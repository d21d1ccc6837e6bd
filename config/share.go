package config

import (
	"time"

	"github.com/spillgate/spillgate/internal/share"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/proxy"
)

// slots decodes a number, or its bounds.
func (d *decoder) slots(n node, to *proxy.Slots) {
	if n.scalar() {
		d.integer(n, &to.Min)
		to.Max = to.Min
		return
	}
	d.object(n, keys{
		"min": func(n node) { d.integer(n, &to.Min) },
		"max": func(n node) { d.integer(n, &to.Max) },
	})
}

func (d *decoder) share(n node, to *proxy.Share) {
	d.object(n, keys{
		"order": func(n node) {
			if s := ""; d.text(n, &s) {
				o, err := proxy.ParseClassOrder(s)
				if err != nil {
					d.wrong(n, quoted(s), proxy.ClassOrders)
				}
				to.Order = o
			}
		},
		"weight":           func(n node) { d.number(n, &to.Weight) },
		"service":          func(n node) { d.text(n, &to.Service) },
		"caller":           func(n node) { d.text(n, &to.Caller) },
		"ratio":            func(n node) { d.number(n, &to.Ratio) },
		"harm":             func(n node) { d.orNone(n, &to.MaxHarm) },
		"loss":             func(n node) { d.orNone(n, &to.MaxLoss) },
		"max_weight":       func(n node) { d.number(n, &to.MaxWeight) },
		"period":           func(n node) { d.duration(n, &to.Period) },
		"patience":         func(n node) { d.patience(n, &to.Patience) },
		"default_patience": func(n node) { d.patience(n, &to.DefaultPatience) },
		"classes": func(n node) {
			d.list(n, func(n node) {
				o := share.Override{Class: work.NumClasses}
				d.object(n, keys{
					"caller": func(n node) { d.text(n, &o.Caller) },
					"callee": func(n node) { d.text(n, &o.Callee) },
					"method": func(n node) { d.text(n, &o.Method) },
					"class":  func(n node) { o.Class = 0; d.class(n, &o.Class) },
				})
				if o.Class == work.NumClasses {
					o.Class = 0
					d.wrong(n, "no class", "class: default or interactive")
				}
				to.Classes = append(to.Classes, o)
			})
		},
	})
}

// orNone decodes a number of which 0 means none, where the configuration has 0 for
// the default.
func (d *decoder) orNone(n node, to *float64) {
	if d.number(n, to) && *to == 0 {
		*to = -1
	}
}

// patience decodes kinds of callers: what share of all they are, and the mean time
// after which they give up.
func (d *decoder) patience(n node, to *share.Patience) {
	d.list(n, func(n node) {
		b := share.Branch{Weight: 1}
		d.object(n, keys{
			"share": func(n node) { d.number(n, &b.Weight) },
			"mean": func(n node) {
				mean := time.Duration(-1)
				d.duration(n, &mean)
				switch {
				case mean > 0:
					b.Rate = 1 / mean.Seconds()
				case mean == 0:
					d.wrong(n, "0", "a time above 0; without the key they never give up")
				}
			},
		})
		*to = append(*to, b)
	})
}

func (d *decoder) egress(n node, to *[]proxy.Egress) {
	d.list(n, func(n node) {
		var e proxy.Egress
		d.object(n, keys{
			"address":  func(n node) { d.text(n, &e.Address) },
			"name":     func(n node) { d.text(n, &e.Name) },
			"url":      func(n node) { d.text(n, &e.URL) },
			"ca":       func(n node) { d.text(n, &e.CA) },
			"cert":     func(n node) { d.text(n, &e.Cert) },
			"key":      func(n node) { d.text(n, &e.Key) },
			"insecure": func(n node) { d.boolean(n, &e.Insecure) },
		})
		*to = append(*to, e)
	})
}
