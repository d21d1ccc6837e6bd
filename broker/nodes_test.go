package broker

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spillgate/spillgate/broker/backplane"
	"github.com/spillgate/spillgate/broker/place"
	"github.com/spillgate/spillgate/internal/harness/freeport"
)

// Nodes that have certificates of one authority form a cluster; whoever has none is no
// node, and no client of their NATS either.
func TestNodesWithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("two nodes take seconds to find their leaders")
	}
	free := freeAddresses(t, 4)
	ca, dir := newAuthority(t), t.TempDir()
	authority := write(t, dir+"/ca.pem", ca.pem())
	file := func(name string) (cert, key string) {
		c, k := ca.sign(t, name)
		return write(t, dir+"/"+name+".pem", c), write(t, dir+"/"+name+".key", k)
	}
	var brokers []*Broker
	for i := range 2 {
		name := fmt.Sprint("n", i+1)
		c := Config{Cluster: backplane.Config{Node: name, Data: t.TempDir(), Cluster: free[i], Routes: free[:2], Listen: free[2+i], CA: authority}}
		c.Cluster.Cert, c.Cluster.Key = file(name)
		b, _, _, _ := run(t, c)
		brokers = append(brokers, b)
	}
	for _, b := range brokers {
		for end := time.Now().Add(time.Minute); b.Status().Phase != "serving"; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the nodes have not found each other within a minute")
			}
		}
	}
	cert, key := file("operator")
	_, end, err := place.Dial(t.Context(), "nats://"+free[2], nats.RootCAs(authority), nats.ClientCert(cert, key))
	if err != nil {
		t.Fatal("with a certificate: ", err)
	}
	end()
	if _, end, err := place.Dial(t.Context(), "nats://"+free[2], nats.RootCAs(authority)); err == nil {
		end()
		t.Error("a client of NATS needs no certificate")
	}
	nc, err := net.Dial("tcp", free[0])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	_, _ = nc.Write([]byte("INFO {\"server_id\":\"X\",\"cluster\":\"spillgate\"}\r\nCONNECT {\"name\":\"X\",\"cluster\":\"spillgate\"}\r\nPING\r\n"))
	answer := make([]byte, 1<<16)
	for n := 0; ; {
		got, err := nc.Read(answer[n:])
		if n += got; err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("a node without TLS is not turned away: %q", answer[:n])
			}
			break
		}
	}
}

// Placers at several nodes change the state at once, and each change is made: servers that keep copies of the state say otherwise than
// a single one that a change was overtaken.
func TestPlacersOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("nodes take seconds to find their leaders")
	}
	const nodes, changes = 3, 10
	free := freeAddresses(t, 2*nodes)
	for i := range nodes {
		run(t, Config{Cluster: backplane.Config{Node: fmt.Sprint("n", i+1), Data: t.TempDir(), Cluster: free[i], Routes: free[:nodes], Listen: free[nodes+i]}})
	}
	var changing sync.WaitGroup
	for i := range nodes {
		changing.Go(func() {
			var p *place.Placer
			for end := time.Now().Add(time.Minute); p == nil; time.Sleep(10 * time.Millisecond) {
				placer, hangUp, err := place.Dial(t.Context(), "nats://"+free[nodes+i])
				if err == nil {
					defer hangUp()
					p = placer
				} else if time.Now().After(end) {
					t.Error(err)
					return
				}
			}
			for k := range changes {
				if _, err := p.Update(t.Context(), func(s *place.State) error {
					return s.SetNode(fmt.Sprintf("of-%d-%d", i, k), place.Node{Address: "10.0.0.1:1883", Capacity: 1000})
				}); err != nil {
					t.Errorf("placer %d, change %d: %v", i, k, err)
				}
			}
		})
	}
	changing.Wait()
	p, hangUp, err := place.Dial(t.Context(), "nats://"+free[nodes])
	if err != nil {
		t.Fatal(err)
	}
	defer hangUp()
	await(t, "all changes to be read", func() bool { s, _, err := p.Load(t.Context()); return err == nil && len(s.Nodes) == nodes*changes })
	// A bucket that was made by somebody who knew of one server gets a copy at each.
	nc, err := nats.Connect("nats://" + free[nodes])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ wants, has int }{{1, 1}, {nodes, nodes}, {1, nodes}} {
		await(t, "the bucket's copies", func() bool {
			if _, err := place.Bucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "few", Replicas: step.wants}); err != nil {
				return false
			}
			s, err := js.Stream(t.Context(), "KV_few")
			if err != nil || s.CachedInfo().Config.Replicas != step.has || s.CachedInfo().Cluster == nil {
				return false
			}
			copies := s.CachedInfo().Cluster.Replicas // beside the leader's; NATS leaves files open where it ends before it has made them
			return len(copies) == step.has-1 && !slices.ContainsFunc(copies, func(p *jetstream.PeerInfo) bool { return !p.Current })
		})
	}
}

// freeAddresses returns addresses that nobody listens on, of ports that no system gives to
// a connection by itself, so that none is taken before the nodes listen.
func freeAddresses(t *testing.T, n int) (free []string) {
	t.Helper()
	for range n {
		l, err := freeport.Listen()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // and not before the last is chosen
		free = append(free, l.Addr().String())
	}
	return free
}

// Files that belong together are asked for together.
func TestCheckNodesTLS(t *testing.T) {
	c := Config{Cluster: backplane.Config{Node: "n", Data: "d", CA: "ca.pem", Cert: "cert.pem"}}
	if all := c.Check(); len(all) != 1 || all[0].Field != "cluster.ca" {
		t.Errorf("mistakes are %v", all)
	}
}
