package config

import (
	"github.com/spillgate/spillgate/guard"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/plainyaml"
)

// guards decodes what `spillgate guard` runs. This function is the list of keys.
func (d *decoder) guards(n node, to *guard.SetConfig) {
	d.Object(n, keys{
		"admin": func(n node) { d.Text(n, &to.Admin) },
		"audit": func(n node) { d.Text(n, &to.Audit) },
		"servers": func(n node) {
			d.List(n, func(n node) {
				var c guard.Config
				if n.Scalar() {
					d.Text(n, &c.URL)
				} else {
					d.guarded(n, &c)
				}
				to.Servers = append(to.Servers, c)
			})
		},
	})
}

func (d *decoder) guarded(n node, c *guard.Config) {
	d.Object(n, keys{
		"name":            func(n node) { d.Text(n, &c.Name) },
		"url":             func(n node) { d.Text(n, &c.URL) },
		"password_file":   func(n node) { d.Text(n, &c.PasswordFile) },
		"slo":             func(n node) { d.Duration(n, &c.Objective) },
		"mode":            func(n node) { d.guardMode(n, &c.Mode) },
		"period":          func(n node) { d.Duration(n, &c.Period) },
		"min_age":         func(n node) { d.Duration(n, &c.MinAge) },
		"per_second":      func(n node) { d.some(n, func() float64 { d.Integer(n, &c.PerSecond); return float64(c.PerSecond) }) },
		"per_minute":      func(n node) { d.some(n, func() float64 { d.Integer(n, &c.PerMinute); return float64(c.PerMinute) }) },
		"per_completion":  func(n node) { d.some(n, func() float64 { d.Number(n, &c.PerCompletion); return c.PerCompletion }) },
		"kill_switch":     func(n node) { d.Text(n, &c.KillSwitch) },
		"show_statements": func(n node) { d.Boolean(n, &c.ShowStatements) },
		"only":            func(n node) { d.Boolean(n, &c.Rules.Only) },
		"allow":           func(n node) { d.guardRules(n, &c.Rules.Allow) },
		"deny":            func(n node) { d.guardRules(n, &c.Rules.Deny) },
		"background":      func(n node) { d.guardRules(n, &c.Rules.Background) },
	})
}

// some decodes a cap of cancels, of which read returns the value. To a guard.Config 0 is the default, and who writes it
// wants nothing cancelled.
func (d *decoder) some(n node, read func() float64) {
	before := d.Len()
	if read() == 0 && d.Len() == before {
		d.Wrong(n, "0", "more than 0; mode: monitor cancels nothing")
	}
}

func (d *decoder) guardRules(n node, to *[]guard.Rule) {
	d.List(n, func(n node) {
		var r guard.Rule
		d.Object(n, keys{
			"user":        func(n node) { d.Text(n, &r.User) },
			"application": func(n node) { d.Text(n, &r.Application) },
			"database":    func(n node) { d.Text(n, &r.Database) },
			"fingerprint": func(n node) { d.Text(n, &r.Fingerprint) },
			"kind":        func(n node) { d.Text(n, &r.Kind) },
		})
		*to = append(*to, r)
	})
}

func (d *decoder) guardMode(n node, to *culprit.Mode) {
	s := ""
	if !d.Text(n, &s) {
		return
	}
	m, ok := culprit.ParseMode(s)
	if !ok {
		d.Wrong(n, plainyaml.Quoted(s), "off, monitor or enforce")
		return
	}
	*to = m
}

// guardPaths makes the paths of a guard's files relative to dir.
func guardPaths(dir string, c *guard.SetConfig) {
	relative(dir, &c.Audit)
	for i := range c.Servers {
		relative(dir, &c.Servers[i].PasswordFile)
		relative(dir, &c.Servers[i].KillSwitch)
	}
}
