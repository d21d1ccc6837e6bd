package backplane

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// door is the way of this process's clients of NATS into its embedded server, which can be shut: while JetStream begins again the server
// replaces what a request to JetStream's API reads, without a lock. Clients connect anew when the door is open.
type door struct {
	server *server.Server
	mu     sync.Mutex
	isShut bool
	inside map[*entered]bool
}

// entered is a connection through a door.
type entered struct {
	net.Conn
	through *door
}

// errShut is of a door that is shut.
var errShut = errors.New("backplane: JetStream begins again")

// emptyTime bounds how long the server may take to notice that its clients have gone; it may have others, which do not.
const emptyTime = time.Second

// InProcessConn is called by clients of NATS to connect.
func (d *door) InProcessConn() (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isShut {
		return nil, errShut
	}
	nc, err := d.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	c := &entered{nc, d}
	d.inside[c] = true
	return c, nil
}

// Close ends the connection.
func (c *entered) Close() error {
	c.through.mu.Lock()
	delete(c.through.inside, c)
	c.through.mu.Unlock()
	return c.Conn.Close()
}

// shut ends all connections and lets nobody in, until open.
func (d *door) shut() {
	d.mu.Lock()
	d.isShut = true
	for c := range d.inside {
		_ = c.Conn.Close()
	}
	d.mu.Unlock()
	for end := time.Now().Add(emptyTime); d.server.NumClients() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isShut = false
}
