package config

import "github.com/spillgate/spillgate/proxy"

func (d *decoder) groups(n node, to *[]proxy.Group) {
	d.List(n, func(n node) {
		var g proxy.Group
		d.Object(n, keys{
			"name":      func(n node) { d.Text(n, &g.Name) },
			"host":      func(n node) { d.texts(n, &g.Hosts) },
			"path":      func(n node) { d.texts(n, &g.Paths) },
			"slo":       func(n node) { d.Duration(n, &g.Objective) },
			"upstreams": func(n node) { d.upstreams(n, &g.Upstreams) },
			"slots":     func(n node) { d.slots(n, &g.Slots) },
			"health":    func(n node) { d.health(n, &g.Health) },
		})
		*to = append(*to, g)
	})
}

func (d *decoder) health(n node, to *proxy.Health) {
	d.Object(n, keys{
		"failures": func(n node) { d.orNever(n, &to.Failures) },
		"pause":    func(n node) { d.Duration(n, &to.Pause) },
		"ready":    func(n node) { d.Integer(n, &to.Ready) },
		"check": func(n node) {
			c := &to.Check
			d.Object(n, keys{
				"path":     func(n node) { d.Text(n, &c.Path) },
				"grpc":     func(n node) { d.Boolean(n, &c.GRPC) },
				"service":  func(n node) { d.Text(n, &c.Service) },
				"interval": func(n node) { d.Duration(n, &c.Interval) },
				"timeout":  func(n node) { d.Duration(n, &c.Timeout) },
				"bad":      func(n node) { d.Integer(n, &c.Bad) },
				"good":     func(n node) { d.Integer(n, &c.Good) },
			})
		},
	})
}
