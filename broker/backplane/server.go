package backplane

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTime bounds how long the embedded server takes to accept connections.
const startTime = 10 * time.Second

// embed starts the NATS server of this node. secure is nil without TLS.
func embed(c Config, secure *tls.Config) (*server.Server, error) {
	o := &server.Options{ServerName: c.Node, JetStream: true, StoreDir: c.Data, NoSigs: true, NoLog: true,
		MaxPayload: int32(c.MaxMessage), DontListen: c.Listen == "", NoSystemAccount: len(c.Routes) == 0}
	if secure != nil {
		o.TLSConfig, o.TLSTimeout, o.TLSVerify = secure, tlsTime, true
		o.Cluster.TLSConfig, o.Cluster.TLSTimeout = secure.Clone(), tlsTime
	}
	if err := os.MkdirAll(c.Data, 0o750); err != nil {
		return nil, fmt.Errorf("backplane: the directory for messages: %w", err)
	}
	if err := c.claimData(); err != nil {
		return nil, err
	}
	taken := []string{}
	if c.Cluster != "" && c.Listen == "" { // without a listener for clients it starts none for nodes
		o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT
	}
	if c.Listen != "" {
		o.Host, o.Port = split(c.Listen)
		taken = append(taken, c.Listen)
	}
	if c.Cluster != "" {
		o.Cluster.Name = "spillgate"
		o.Cluster.Host, o.Cluster.Port = split(c.Cluster)
		taken = append(taken, c.Cluster)
		for _, r := range c.Routes {
			if r != c.Cluster {
				o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: r})
			}
		}
	}
	// Start ends the process if a port is taken, so each is tried first.
	for _, address := range taken {
		probe, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("backplane: %w; another node may run here", err)
		}
		probe.Close()
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("backplane: embedded NATS: %w", err)
	}
	go s.Start()
	ready := s.ReadyForConnections(startTime)
	if !ready || !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("backplane: embedded NATS is not ready within %v; is %s writable?", startTime, c.Data)
	}
	if c.Cluster == "" {
		_ = os.WriteFile(filepath.Join(c.Data, aloneFile), nil, 0o600) // at the next start, if the disk is full now
	}
	return s, nil
}

// aloneFile is in the directory of a node that has stored without others.
const aloneFile = "alone"

// claimData refuses a directory to a node of several in which one without others has stored: NATS would take that for its copy of what the others have,
// which it is not, and each node would go on with another log.
func (c Config) claimData() error {
	if c.Cluster == "" {
		return nil
	}
	is := func(path ...string) bool {
		_, err := os.Stat(filepath.Join(path...))
		return err == nil
	}
	stored := filepath.Join(c.Data, "jetstream")
	if is(c.Data, aloneFile) || is(stored, "$G", "streams", logStream) && !is(stored, "$SYS", "_js_") { // as versions did that left no file
		return fmt.Errorf("backplane: %s has what this node has stored without others, which they could not agree on: give it another directory", c.Data)
	}
	return nil
}

// split takes host:port, which was checked, apart. Port 0 is any.
func split(address string) (host string, port int) {
	host, text, _ := net.SplitHostPort(address)
	port, _ = strconv.Atoi(text)
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port
}

// nodes returns how many nodes the configuration names, this one included.
func (c Config) nodes() int {
	n := len(c.Routes)
	if n > 0 && !slices.Contains(c.Routes, c.Cluster) {
		n++
	}
	return max(n, 1)
}
