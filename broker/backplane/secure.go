package backplane

import (
	"crypto/tls"
	"fmt"

	"github.com/spillgate/spillgate/internal/reread"
)

// tlsTime is how long, in seconds, a handshake between nodes may take: on a busy machine
// longer than the 2 s of NATS.
const tlsTime = 10

// secure returns how nodes and clients of NATS prove to each other who they are, nil
// where they need not.
func (c Config) secure() (*tls.Config, error) {
	if c.CA == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("backplane: the node's certificate: %w", err)
	}
	all, err := reread.Authorities(c.CA)
	if err != nil {
		return nil, fmt.Errorf("backplane: the authority of nodes: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: all, ClientCAs: all, ClientAuth: tls.RequireAndVerifyClientCert}, nil
}
