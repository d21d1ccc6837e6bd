package worldfile

import (
	"time"

	"github.com/spillgate/spillgate/internal/plainyaml"
	"github.com/spillgate/spillgate/internal/world"
)

// world decodes the whole file.
func (d *decoder) world(root node, w *world.World) {
	d.Object(root, keys{
		"name":      func(n node) { d.Text(n, &w.Name) },
		"objective": func(n node) { d.Duration(n, &w.Objective) },
		"warmup":    func(n node) { d.Duration(n, &w.Warmup) },
		"length":    func(n node) { d.Duration(n, &w.Length) },
		"hosts": func(n node) {
			d.List(n, func(n node) { w.Hosts = append(w.Hosts, d.host(n)) })
		},
		"services": func(n node) {
			d.List(n, func(n node) { w.Services = append(w.Services, d.service(n)) })
		},
		"clients": func(n node) {
			d.List(n, func(n node) { w.Clients = append(w.Clients, d.group(n)) })
		},
		"network": func(n node) {
			d.Object(n, keys{
				"delay":  func(n node) { d.Duration(n, &w.Network.Delay) },
				"jitter": func(n node) { d.Duration(n, &w.Network.Jitter) },

				"lose_grant":   func(n node) { d.Number(n, &w.Network.LoseGrant) },
				"repeat_grant": func(n node) { d.Number(n, &w.Network.RepeatGrant) },
				"delay_grant":  func(n node) { d.Number(n, &w.Network.DelayGrant) },
			})
		},
		"faults": func(n node) {
			d.List(n, func(n node) { w.Faults = append(w.Faults, d.fault(n)) })
		},
	})
}

func (d *decoder) host(n node) world.Host {
	h := world.Host{Processors: 1}
	d.Object(n, keys{
		"name":       func(n node) { d.Text(n, &h.Name) },
		"processors": func(n node) { d.Integer(n, &h.Processors) },
		"message":    func(n node) { d.orWord(n, &h.Message, "none") },
	})
	return h
}

func (d *decoder) fault(n node) world.Fault {
	var f world.Fault
	d.Object(n, keys{
		"at":      func(n node) { d.Duration(n, &f.At) },
		"for":     func(n node) { d.Duration(n, &f.For) },
		"every":   func(n node) { d.Duration(n, &f.Every) },
		"service": func(n node) { d.Text(n, &f.Service) },
		"replica": func(n node) { d.Integer(n, &f.Replica) },
		"slower": func(n node) {
			if !d.Number(n, &f.Slower) {
				f.Slower = 1 // so that one mistake does not make two
			}
		},
		"stop": func(n node) { d.Boolean(n, &f.Stop) },
		"kill": func(n node) { d.Boolean(n, &f.Kill) },
		"vanish": func(n node) {
			if !d.Number(n, &f.Vanish) {
				f.Vanish = 1 // so that one mistake does not make two
			}
		},
		"notice": func(n node) { d.Duration(n, &f.Notice) },
	})
	return f
}

// orWord decodes a duration above 0, or a word that stands for no bound: -1 to a
// world, where 0 is the default.
func (d *decoder) orWord(n node, to *time.Duration, word string) {
	want := "a duration above 0 such as 100ms, or " + word
	if s, ok := n.Word(); ok {
		if t, err := time.ParseDuration(s); s != word && (err != nil || t <= 0) {
			d.Wrong(n, plainyaml.Quoted(s), want)
			return
		}
		if s == word {
			*to = -1
			return
		}
	}
	t := time.Duration(-1)
	if d.Duration(n, &t); t == 0 {
		d.Wrong(n, "0", want)
		return
	}
	*to = t
}
