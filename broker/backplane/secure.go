package backplane

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/spillgate/spillgate/internal/reread"
)

// tlsTime is how long, in seconds, a handshake between nodes may take: on a busy machine
// longer than the 2 s of NATS.
const tlsTime = 10

// lock prepares how nodes and clients of NATS prove to each other who they are, by the newest of their files; only the authority of those
// that this node connects to stays as it is read here.
func (p *Plane) lock() error {
	c := p.cfg
	if c.CA == "" {
		return nil
	}
	all, err := reread.Authorities(c.CA)
	if err != nil {
		return fmt.Errorf("backplane: the authority of nodes: %w", err)
	}
	secure, files, err := reread.Server{Cert: c.Cert, Key: c.Key, ClientCA: c.CA}.Newest("of", "cluster")
	if err != nil {
		return fmt.Errorf("backplane: the node's certificate: %w", err)
	}
	newest := secure.GetConfigForClient
	secure.RootCAs = all
	secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		now, err := newest(nil)
		if err != nil {
			return nil, err
		}
		return &now.Certificates[0], nil
	}
	p.secure = secure
	p.files.Store(files)
	return nil
}

// Look reads the node's certificate again if its files have changed, for connections from then on.
func (p *Plane) Look(log *slog.Logger) {
	if files := p.files.Load(); files != nil {
		files.Look(log)
	}
}
