package config

import "github.com/spillgate/spillgate/proxy"

// accessLog decodes where the access log goes, and which share of the requests.
func (d *decoder) accessLog(n node, to *proxy.Access) {
	if n.Scalar() {
		d.Text(n, &to.Path)
		return
	}
	d.Object(n, keys{
		"path":    func(n node) { d.Text(n, &to.Path) },
		"served":  func(n node) { d.orNone(n, &to.Served) },
		"refused": func(n node) { d.orNone(n, &to.Refused) },
		"failed":  func(n node) { d.orNone(n, &to.Failed) },
	})
}
