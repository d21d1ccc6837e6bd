package config

import (
	"maps"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/mqtt"
)

// broker decodes what `spillgate broker` runs. This function, with those that it calls, is
// the list of keys.
func (d *decoder) broker(n node, to *broker.Config) {
	all := keys{
		"listen":  func(n node) { d.texts(n, &to.Listen) },
		"tls":     func(n node) { d.tls(n, &to.TLS) },
		"nats":    func(n node) { d.nats(n, &to.NATS) },
		"nsq":     func(n node) { d.nsq(n, &to.NSQ) },
		"admin":   func(n node) { d.Text(n, &to.Admin) },
		"limits":  func(n node) { d.topicLimits(n, &to.Limits) },
		"clients": func(n node) { d.brokerClients(n, &to.Clients) },
		"cluster": func(n node) { d.cluster(n, &to.Cluster) },
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

func (d *decoder) topicLimits(n node, to *[]engine.Limit) {
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
		*to = append(*to, l)
	})
}

func (d *decoder) brokerClients(n node, to *mqtt.Limits) {
	d.Object(n, keys{
		"connections":    func(n node) { d.Integer(n, &to.Connections) },
		"sessions":       func(n node) { d.Integer(n, &to.Sessions) },
		"session_expiry": func(n node) { d.Duration(n, &to.SessionExpiry) },
		"packet":         func(n node) { d.Integer(n, &to.Packet) },
		"inflight":       func(n node) { d.Integer(n, &to.Inflight) },
		"queue":          func(n node) { d.Integer(n, &to.Queue) },
		"queue_bytes":    func(n node) { d.Integer(n, &to.QueueBytes) },
		"outbound":       func(n node) { d.Integer(n, &to.Outbound) },
		"subscriptions":  func(n node) { d.Integer(n, &to.Subscriptions) },
		"shared":         func(n node) { d.Integer(n, &to.Shared) },
		"topics":         func(n node) { d.Integer(n, &to.Topics) },
		"connect":        func(n node) { d.Duration(n, &to.Connect) },
		"stall":          func(n node) { d.Duration(n, &to.Stall) },
	})
}

func (d *decoder) cluster(n node, to *backplane.Config) {
	d.Object(n, keys{
		"node":          func(n node) { d.Text(n, &to.Node) },
		"data":          func(n node) { d.Text(n, &to.Data) },
		"url":           func(n node) { d.Text(n, &to.URL) },
		"listen":        func(n node) { d.Text(n, &to.Listen) },
		"cluster":       func(n node) { d.Text(n, &to.Cluster) },
		"routes":        func(n node) { d.texts(n, &to.Routes) },
		"ca":            func(n node) { d.Text(n, &to.CA) },
		"cert":          func(n node) { d.Text(n, &to.Cert) },
		"key":           func(n node) { d.Text(n, &to.Key) },
		"replicas":      func(n node) { d.Integer(n, &to.Replicas) },
		"max_bytes":     func(n node) { d.Integer(n, &to.MaxBytes) },
		"max_age":       func(n node) { d.Duration(n, &to.MaxAge) },
		"pending":       func(n node) { d.Integer(n, &to.Pending) },
		"pending_bytes": func(n node) { d.Integer(n, &to.PendingBytes) },
		"max_message":   func(n node) { d.Integer(n, &to.MaxMessage) },
		"patience":      func(n node) { d.Duration(n, &to.Patience) },
	})
}
