package config

import (
	"maps"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/engine"
)

// broker decodes what `spillgate broker` runs. This function is the list of keys.
func (d *decoder) broker(n node, to *broker.Config) {
	all := keys{
		"listen": func(n node) {
			d.List(n, func(n node) {
				address := ""
				d.Text(n, &address)
				to.Listen = append(to.Listen, address)
			})
		},
		"tls":   func(n node) { d.tls(n, &to.TLS) },
		"nats":  func(n node) { d.nats(n, &to.NATS) },
		"nsq":   func(n node) { d.nsq(n, &to.NSQ) },
		"admin": func(n node) { d.Text(n, &to.Admin) },
		"limits": func(n node) {
			d.List(n, func(n node) {
				var l engine.Limit
				d.Object(n, keys{
					"filter":      func(n node) { d.Text(n, &l.Filter) },
					"rate":        func(n node) { d.Number(n, &l.Rate) },
					"burst":       func(n node) { d.Number(n, &l.Burst) },
					"police":      func(n node) { d.Boolean(n, &l.Police) },
					"shared":      func(n node) { d.Boolean(n, &l.Shared) },
					"queue":       func(n node) { d.Integer(n, &l.Queue) },
					"queue_bytes": func(n node) { d.Integer(n, &l.QueueBytes) },
				})
				to.Limits = append(to.Limits, l)
			})
		},
		"clients": func(n node) {
			l := &to.Clients
			d.Object(n, keys{
				"connections":    func(n node) { d.Integer(n, &l.Connections) },
				"sessions":       func(n node) { d.Integer(n, &l.Sessions) },
				"session_expiry": func(n node) { d.Duration(n, &l.SessionExpiry) },
				"packet":         func(n node) { d.Integer(n, &l.Packet) },
				"inflight":       func(n node) { d.Integer(n, &l.Inflight) },
				"queue":          func(n node) { d.Integer(n, &l.Queue) },
				"queue_bytes":    func(n node) { d.Integer(n, &l.QueueBytes) },
				"outbound":       func(n node) { d.Integer(n, &l.Outbound) },
				"subscriptions":  func(n node) { d.Integer(n, &l.Subscriptions) },
				"topics":         func(n node) { d.Integer(n, &l.Topics) },
				"connect":        func(n node) { d.Duration(n, &l.Connect) },
				"stall":          func(n node) { d.Duration(n, &l.Stall) },
			})
		},
		"cluster": func(n node) {
			c := &to.Cluster
			d.Object(n, keys{
				"node":    func(n node) { d.Text(n, &c.Node) },
				"data":    func(n node) { d.Text(n, &c.Data) },
				"url":     func(n node) { d.Text(n, &c.URL) },
				"listen":  func(n node) { d.Text(n, &c.Listen) },
				"cluster": func(n node) { d.Text(n, &c.Cluster) },
				"routes": func(n node) {
					d.List(n, func(n node) {
						address := ""
						d.Text(n, &address)
						c.Routes = append(c.Routes, address)
					})
				},
				"ca":            func(n node) { d.Text(n, &c.CA) },
				"cert":          func(n node) { d.Text(n, &c.Cert) },
				"key":           func(n node) { d.Text(n, &c.Key) },
				"replicas":      func(n node) { d.Integer(n, &c.Replicas) },
				"max_bytes":     func(n node) { d.Integer(n, &c.MaxBytes) },
				"max_age":       func(n node) { d.Duration(n, &c.MaxAge) },
				"pending":       func(n node) { d.Integer(n, &c.Pending) },
				"pending_bytes": func(n node) { d.Integer(n, &c.PendingBytes) },
				"max_message":   func(n node) { d.Integer(n, &c.MaxMessage) },
				"patience":      func(n node) { d.Duration(n, &c.Patience) },
			})
		},
		"place": func(n node) {
			d.Object(n, keys{
				"address":  func(n node) { d.Text(n, &to.Place.Address) },
				"capacity": func(n node) { d.Number(n, &to.Place.Capacity) },
				"listen":   func(n node) { d.Text(n, &to.Place.Listen) },
			})
		},
		"topics":         func(n node) { d.Integer(n, &to.Topics) },
		"subscriptions":  func(n node) { d.Integer(n, &to.Subscriptions) },
		"retained_bytes": func(n node) { d.Integer(n, &to.RetainedBytes) },
		"memory":         func(n node) { d.Integer(n, &to.Memory) },
		"drain": func(n node) {
			d.Object(n, keys{
				"notice":  func(n node) { d.Duration(n, &to.Drain.Notice) },
				"timeout": func(n node) { d.Duration(n, &to.Drain.Timeout) },
			})
		},
	}
	maps.Copy(all, d.access(&to.Access))
	d.Object(n, all)
}
