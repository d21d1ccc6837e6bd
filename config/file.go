package config

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spillgate/spillgate/broker"
	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/live"
	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/proxy"
)

// MaxSize is the largest file, in bytes. The YAML parser takes time that grows
// faster than its input; at this size the worst known takes about a second.
const MaxSize = 64 << 10

// Mistake is one thing wrong with a file. Errors of this package join them, in
// the order of the file.
type Mistake = plainyaml.Mistake

// decoder fills a File from a tree.
type decoder struct{ *plainyaml.Decoder }

type (
	node = plainyaml.Node
	keys = plainyaml.Keys
)

// File is the configuration file.
type File struct {
	// Proxy is what `spillgate proxy` runs.
	Proxy proxy.Config
	// Guard is what `spillgate guard` runs, nil if the file does not say. A file that
	// says nothing else needs no proxy.
	Guard *guard.SetConfig
	// Broker is what `spillgate broker` runs, nil if the file does not say. Such a file
	// needs no proxy either.
	Broker *broker.Config
	// Log is how the program logs.
	Log Log

	sum [sha256.Size]byte // of the file's contents
}

// Log says how the program logs.
type Log struct {
	// Level is the least severe level that is logged. Default info.
	Level slog.Level
	// JSON writes one JSON object a line instead of key=value text.
	JSON bool
}

// Load reads and checks the file at path and the files it names; their paths are
// relative to its directory. The error joins every *Mistake.
func Load(path string) (*File, error) {
	data, err := read(path)
	if err != nil {
		return nil, &Mistake{File: path, Value: err.Error(), Want: "a readable file"}
	}
	return parse(path, data, true)
}

// Decode reads a configuration from data, which is called name in mistakes. It
// looks at no other file. The error joins every *Mistake.
func Decode(name string, data []byte) (*File, error) { return parse(name, data, false) }

// read returns the contents of a file, up to one byte more than is allowed.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

func parse(name string, data []byte, files bool) (*File, error) {
	d := &decoder{plainyaml.New(name)}
	if len(data) > MaxSize {
		d.Whole(fmt.Sprintf("more than %d bytes", MaxSize), fmt.Sprintf("at most %d bytes", MaxSize))
		return nil, d.Err()
	}
	root, ok := d.Parse(data)
	if !ok {
		return nil, d.Err()
	}
	f := d.decode(root)
	f.sum = sha256.Sum256(data)
	if files {
		relativeTo(filepath.Dir(name), &f.Proxy)
	}
	if f.Guard == nil && f.Broker == nil || f.HasProxy() {
		found := f.Proxy.Check()
		if files {
			found = append(found, f.Proxy.CheckFiles()...)
		}
		for _, m := range found {
			d.Found(m.Field, m.Value, m.Want)
		}
	}
	if f.Guard != nil {
		if files {
			guardPaths(filepath.Dir(name), f.Guard)
		}
		for _, m := range f.Guard.Check() {
			d.Found("guard."+m.Field, m.Value, m.Want)
		}
	}
	if f.Broker != nil {
		found := f.Broker.Check()
		if files {
			brokerPaths(filepath.Dir(name), f.Broker)
			found = append(found, f.Broker.CheckFiles()...)
		}
		for _, m := range found {
			d.Found("broker."+m.Field, m.Value, m.Want)
		}
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// HasProxy reports whether the file describes a proxy.
func (f *File) HasProxy() bool {
	return len(f.Proxy.Listen) > 0 || len(f.Proxy.Upstreams)+len(f.Proxy.Groups) > 0
}

// relative makes paths relative to dir, but for absolute ones and those that are not set.
func relative(dir string, paths ...*string) {
	for _, p := range paths {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
}

// relativeTo makes the paths of files in c relative to dir.
func relativeTo(dir string, c *proxy.Config) {
	fix := func(paths ...*string) { relative(dir, paths...) }
	fix(&c.Culprit.Audit)
	if p := &c.Access.Path; *p != "stderr" && *p != "stdout" {
		fix(p)
	}
	for i := range c.Listen {
		l := &c.Listen[i]
		fix(&l.Cert, &l.Key, &l.ClientCA)
		for j := range l.More {
			fix(&l.More[j].Cert, &l.More[j].Key)
		}
	}
	upstreams := func(all []proxy.Upstream) {
		for i := range all {
			fix(&all[i].CA, &all[i].Cert, &all[i].Key)
		}
	}
	upstreams(c.Upstreams)
	for i := range c.Groups {
		upstreams(c.Groups[i].Upstreams)
	}
	for i := range c.Egress {
		e := &c.Egress[i]
		fix(&e.CA, &e.Cert, &e.Key)
	}
}

// decode fills a File from the tree. This function is the list of keys.
func (d *decoder) decode(root node) *File {
	f := &File{}
	p := &f.Proxy
	d.Object(root, keys{
		"mode":   func(n node) { d.mode(n, &p.Mode) },
		"slo":    func(n node) { d.Duration(n, &p.Objective) },
		"listen": func(n node) { d.listeners(n, &p.Listen) },
		"admin":  func(n node) { d.Text(n, &p.Admin) },
		"upstreams": func(n node) {
			d.upstreams(n, &p.Upstreams)
		},
		"groups": func(n node) { d.groups(n, &p.Groups) },
		"trust": func(n node) {
			d.List(n, func(n node) { p.Trust = append(p.Trust, d.network(n)) })
		},
		"exempt": func(n node) {
			p.Exempt = []string{} // an empty list is none, not the default
			d.texts(n, &p.Exempt)
		},
		"overload_status": func(n node) { d.Integer(n, &p.OverloadStatus) },

		"health":    func(n node) { d.health(n, &p.Health) },
		"workflows": func(n node) { d.workflows(n, &p.Workflows) },
		"rules":     func(n node) { d.rules(n, &p.Rules) },
		"names":     func(n node) { d.Integer(n, &p.Names) },
		"schedule":  func(n node) { d.schedule(n, &p.Schedule) },
		"rates":     func(n node) { d.rates(n, &p.Rates) },
		"slots":     func(n node) { d.slots(n, &p.Slots) },
		"share":     func(n node) { d.share(n, &p.Share) },
		"culprit":   func(n node) { d.culprit(n, &p.Culprit) },
		"egress":    func(n node) { d.egress(n, &p.Egress) },
		"guard": func(n node) {
			f.Guard = &guard.SetConfig{}
			d.guards(n, f.Guard)
		},
		"broker": func(n node) {
			f.Broker = &broker.Config{}
			d.broker(n, f.Broker)
		},
		"access_log": func(n node) { d.accessLog(n, &p.Access) },
		"drain": func(n node) {
			d.Object(n, keys{
				"notice":  func(n node) { d.Duration(n, &p.Drain.Notice) },
				"timeout": func(n node) { d.Duration(n, &p.Drain.Timeout) },
			})
		},
		"limits": func(n node) { d.limits(n, &p.Limits) },
		"log": func(n node) {
			d.Object(n, keys{
				"level":  func(n node) { d.level(n, &f.Log.Level) },
				"format": func(n node) { d.format(n, &f.Log.JSON) },
			})
		},
	})
	return f
}

func (d *decoder) culprit(n node, to *proxy.Culprit) {
	d.Object(n, keys{
		"mode": func(n node) {
			if s := ""; d.Text(n, &s) {
				m, ok := culprit.ParseMode(s)
				if !ok {
					d.Wrong(n, plainyaml.Quoted(s), "off, monitor or enforce")
				}
				to.Mode = m
			}
		},
		"audit": func(n node) { d.Text(n, &to.Audit) },
		"guard": func(n node) { d.Text(n, &to.Guard) },
	})
}

func (d *decoder) limits(n node, l *proxy.Limits) {
	d.Object(n, keys{
		"connections":        func(n node) { d.Integer(n, &l.Connections) },
		"client_connections": func(n node) { d.Integer(n, &l.ClientConnections) },
		"client_requests":    func(n node) { d.Integer(n, &l.ClientRequests) },
		"requests":           func(n node) { d.Integer(n, &l.Requests) },
		"header":             func(n node) { d.Integer(n, &l.Header) },
		"header_timeout":     func(n node) { d.Duration(n, &l.HeaderTimeout) },
		"body_timeout":       func(n node) { d.Duration(n, &l.BodyTimeout) },
		"body_buffer":        func(n node) { d.orNever(n, &l.BodyBuffer) },
		"body_rate":          func(n node) { d.orNever(n, &l.BodyRate) },
		"send_timeout":       func(n node) { d.Duration(n, &l.SendTimeout) },
		"idle_timeout":       func(n node) { d.Duration(n, &l.IdleTimeout) },
		"streams":            func(n node) { d.Integer(n, &l.Streams) },
		"connect":            func(n node) { d.Duration(n, &l.Connect) },
		"response":           func(n node) { d.Duration(n, &l.Response) },
		"away":               func(n node) { d.Integer(n, &l.Away) },
		"retries":            func(n node) { d.orNever(n, &l.Retries) },
		"answer_header":      func(n node) { d.Integer(n, &l.AnswerHeader) },
	})
}

func (d *decoder) listeners(n node, to *[]proxy.Listener) {
	d.List(n, func(n node) {
		var l proxy.Listener
		if n.Scalar() {
			d.Text(n, &l.Address)
		} else {
			d.Object(n, keys{
				"address":   func(n node) { d.Text(n, &l.Address) },
				"cert":      func(n node) { d.Text(n, &l.Cert) },
				"key":       func(n node) { d.Text(n, &l.Key) },
				"client_ca": func(n node) { d.Text(n, &l.ClientCA) },
				"certs": func(n node) {
					d.List(n, func(n node) {
						var k proxy.KeyPair
						d.Object(n, keys{
							"cert": func(n node) { d.Text(n, &k.Cert) },
							"key":  func(n node) { d.Text(n, &k.Key) },
						})
						l.More = append(l.More, k)
					})
				},
				"open":    func(n node) { d.Boolean(n, &l.Open) },
				"trusted": func(n node) { d.Boolean(n, &l.Trusted) },
				"proxy_protocol": func(n node) {
					d.List(n, func(n node) { l.Balancers = append(l.Balancers, d.network(n)) })
				},
			})
		}
		*to = append(*to, l)
	})
}

func (d *decoder) upstreams(n node, to *[]proxy.Upstream) {
	d.List(n, func(n node) {
		var u proxy.Upstream
		if n.Scalar() {
			d.Text(n, &u.URL)
		} else {
			d.Object(n, keys{
				"name":     func(n node) { d.Text(n, &u.Name) },
				"url":      func(n node) { d.Text(n, &u.URL) },
				"resolve":  func(n node) { d.Duration(n, &u.Resolve) },
				"ca":       func(n node) { d.Text(n, &u.CA) },
				"cert":     func(n node) { d.Text(n, &u.Cert) },
				"key":      func(n node) { d.Text(n, &u.Key) },
				"insecure": func(n node) { d.Boolean(n, &u.Insecure) },
			})
		}
		*to = append(*to, u)
	})
}

func (d *decoder) mode(n node, to *live.Mode) {
	s := ""
	if !d.Text(n, &s) {
		return
	}
	m, err := live.ParseMode(s)
	if err != nil {
		d.Wrong(n, plainyaml.Quoted(s), "off, monitor or enforce")
		return
	}
	*to = m
}

func (d *decoder) network(n node) netip.Prefix {
	s := ""
	if !d.Text(n, &s) {
		return netip.Prefix{}
	}
	p, err := ParseNetwork(s)
	if err != nil {
		d.Wrong(n, plainyaml.Quoted(s), "a network such as 10.0.0.0/8 or an address such as 192.0.2.1")
	}
	return p
}

// ParseNetwork reads a network such as 10.0.0.0/8; an address alone is the
// network of that one address.
func ParseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a.WithZone(""), a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a network, expected for example 10.0.0.0/8 or 192.0.2.1", s)
	}
	return p.Masked(), nil
}

func (d *decoder) level(n node, to *slog.Level) {
	s := ""
	if !d.Text(n, &s) {
		return
	}
	l, err := ParseLevel(s)
	if err != nil {
		d.Wrong(n, plainyaml.Quoted(s), "debug, info, warn or error")
		return
	}
	*to = l
}

// ParseLevel returns the log level called s: debug, info, warn or error.
func ParseLevel(s string) (slog.Level, error) {
	for _, l := range [...]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if name := l.String(); strings.EqualFold(s, name) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("log level is %q, expected debug, info, warn or error", s)
}

func (d *decoder) format(n node, to *bool) {
	s := ""
	if !d.Text(n, &s) {
		return
	}
	switch s {
	case "text":
		*to = false
	case "json":
		*to = true
	default:
		d.Wrong(n, plainyaml.Quoted(s), "text or json")
	}
}
