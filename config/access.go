package config

import (
	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/nats"
	"github.com/spillgate/spillgate/broker/nsq"
)

// access returns the keys of who may do what on a broker.
func (d *decoder) access(to *access.Config) keys {
	rights := func(publish, subscribe *[]string) keys {
		return keys{"publish": func(n node) { d.filters(n, publish) }, "subscribe": func(n node) { d.filters(n, subscribe) }}
	}
	return keys{
		"users": func(n node) {
			d.List(n, func(n node) {
				var u access.User
				all := rights(&u.Publish, &u.Subscribe)
				all["name"] = func(n node) { d.Text(n, &u.Name) }
				all["password"] = func(n node) { d.Text(n, &u.Password) }
				all["certificate"] = func(n node) { d.Boolean(n, &u.Certificate) }
				d.Object(n, all)
				to.Users = append(to.Users, u)
			})
		},
		"passwords": func(n node) { d.Text(n, &to.Passwords) },
		"anonymous": func(n node) {
			all := rights(&to.Anonymous.Publish, &to.Anonymous.Subscribe)
			all["from"] = func(n node) { d.Text(n, &to.Anonymous.From) }
			d.Object(n, all)
		},
	}
}

// filters decodes a list of topics or filters; an empty one is not nil.
func (d *decoder) filters(n node, to *[]string) {
	*to = []string{}
	d.texts(n, to)
}

func (d *decoder) tls(n node, to *broker.TLS) {
	d.Object(n, keys{
		"cert":      func(n node) { d.Text(n, &to.Cert) },
		"key":       func(n node) { d.Text(n, &to.Key) },
		"client_ca": func(n node) { d.Text(n, &to.ClientCA) },
	})
}

func (d *decoder) nats(n node, l *nats.Limits) {
	d.Object(n, keys{
		"connections":   func(n node) { d.Integer(n, &l.Connections) },
		"payload":       func(n node) { d.Integer(n, &l.Payload) },
		"outbound":      func(n node) { d.Integer(n, &l.Outbound) },
		"subscriptions": func(n node) { d.Integer(n, &l.Subscriptions) },
		"topics":        func(n node) { d.Integer(n, &l.Topics) },
		"stream_bytes":  func(n node) { d.Integer(n, &l.StreamBytes) },
		"connect":       func(n node) { d.Duration(n, &l.Connect) },
		"stall":         func(n node) { d.Duration(n, &l.Stall) },
		"ping":          func(n node) { d.Duration(n, &l.Ping) },
	})
}

func (d *decoder) nsq(n node, l *nsq.Limits) {
	d.Object(n, keys{
		"connections":     func(n node) { d.Integer(n, &l.Connections) },
		"message":         func(n node) { d.Integer(n, &l.Message) },
		"body":            func(n node) { d.Integer(n, &l.Body) },
		"unanswered":      func(n node) { d.Integer(n, &l.Unanswered) },
		"ready":           func(n node) { d.Integer(n, &l.Ready) },
		"topics":          func(n node) { d.Integer(n, &l.Topics) },
		"channels":        func(n node) { d.Integer(n, &l.Channels) },
		"stored_channels": func(n node) { d.Integer(n, &l.Stored) },
		"channel_expiry":  func(n node) { d.Duration(n, &l.ChannelExpiry) },
		"queue":           func(n node) { d.Integer(n, &l.Queue) },
		"queue_bytes":     func(n node) { d.Integer(n, &l.QueueBytes) },
		"deferred":        func(n node) { d.Integer(n, &l.Deferred) },
		"deferred_bytes":  func(n node) { d.Integer(n, &l.DeferredBytes) },
		"outbound":        func(n node) { d.Integer(n, &l.Outbound) },
		"message_timeout": func(n node) { d.Duration(n, &l.MessageTimeout) },
		"max_timeout":     func(n node) { d.Duration(n, &l.MaxTimeout) },
		"connect":         func(n node) { d.Duration(n, &l.Connect) },
		"heartbeat":       func(n node) { d.Duration(n, &l.Heartbeat) },
		"stall":           func(n node) { d.Duration(n, &l.Stall) },
	})
}

// brokerPaths makes the paths of files and of the directory in c relative to dir.
func brokerPaths(dir string, c *broker.Config) {
	relative(dir, &c.TLS.Cert, &c.TLS.Key, &c.TLS.ClientCA, &c.Access.Passwords, &c.Cluster.Data, &c.Cluster.CA, &c.Cluster.Cert, &c.Cluster.Key)
}
