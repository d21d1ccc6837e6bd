package nats

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/link"
	"github.com/spillgate/spillgate/internal/mono"
)

const (
	// goodbye is how long a connection that the server closes may take to be sent its
	// last line.
	goodbye = 100 * time.Millisecond
	// speaks is the release of nats-server whose client protocol this is, as far as the
	// package comment says. Clients ask for it to know what they may send.
	speaks = "2.9.0"
	// complain is how often a client is told, at most, that messages are refused.
	complain = time.Second
	// latest is the newest protocol of clients: it is told when the server leaves.
	latest = 1
	// maxSilent is how many pings a client may leave without any answer.
	maxSilent = 2
)

// info is what a client is told of the server.
type info struct {
	ID      string `json:"server_id"`
	Name    string `json:"server_name"`
	Version string `json:"version"`
	Proto   int    `json:"proto"`
	Headers bool   `json:"headers"`
	Payload int    `json:"max_payload"`
	Client  uint64 `json:"client_id"`
	Auth    bool   `json:"auth_required"`
	TLS     bool   `json:"tls_required"`
	Verify  bool   `json:"tls_verify"`
	Streams bool   `json:"jetstream,omitempty"`
	Leaving bool   `json:"ldm,omitempty"`
}

// line returns the line that tells it.
func (i *info) line() []byte {
	text, _ := json.Marshal(i) // never fails
	return fmt.Appendf(nil, "INFO %s\r\n", text)
}

// options are what a client says in CONNECT.
type options struct {
	Verbose      bool   `json:"verbose"`
	Pedantic     bool   `json:"pedantic"`
	Protocol     int    `json:"protocol"`
	User         string `json:"user"`
	Pass         string `json:"pass"`
	Echo         *bool  `json:"echo"`
	Headers      bool   `json:"headers"`
	NoResponders bool   `json:"no_responders"`
}

// unsaid are the options of a client that does not say otherwise, as with nats-server.
var unsaid = options{Verbose: true, Pedantic: true}

// conn is one connection. Its goroutine reads; others append to out.
type conn struct {
	srv    *Server
	secure *tls.Config // nil: without TLS
	number uint64
	sender uint64 // the connection, as its messages name it where it wants no echo
	batch  *engine.Batch
	done   chan struct{} // closed when the goroutine has ended

	mu    sync.Mutex
	nc    net.Conn         // with TLS, if there is any
	out   *engine.Outbox   // nil until the client may send
	who   *access.Identity // nil until CONNECT
	spent []*sub           // whose last message went

	silent atomic.Int32 // pings without an answer
	// What a later CONNECT may change while messages come: no echo of its own, and headers.
	quiet, headers atomic.Bool
	hears          atomic.Bool // when the server leaves

	info  info        // that it was told
	pulse *time.Timer // set before out; runs from CONNECT on

	// Used by the connection's goroutine alone, or set before there are subscriptions.
	reader     *link.Reader
	subs       map[string]*sub
	options    options
	command    command
	maker      *engine.Maker // counts its topics
	topic      *engine.Topic // the last one published to, which it may
	message    engine.Message
	properties []byte
	complained time.Time
}

func (srv *Server) newConn(nc net.Conn, secure *tls.Config) *conn {
	return &conn{srv: srv, nc: nc, secure: secure, number: srv.number.Add(1), sender: rand.Uint64() | 1, batch: srv.hub.NewBatch(), maker: engine.NewMaker(srv.limits.Topics), done: make(chan struct{}), subs: map[string]*sub{}, options: unsaid}
}

// Serve reads until the connection ends.
func (c *conn) Serve() {
	defer close(c.done)
	err := link.Apart(c.greet)
	if err == nil {
		err = c.reader.Run(c.handle)
	}
	c.finish(err)
}

// greet tells the client about the server, and begins TLS.
func (c *conn) greet() error {
	until := time.Now().Add(c.srv.limits.Connect)
	_ = c.nc.SetDeadline(until)
	c.info = info{ID: c.srv.id, Name: "spillgate", Version: speaks, Proto: latest, Headers: true, Payload: c.srv.limits.Payload, Client: c.number,
		Auth: c.srv.users.Needed(c.nc), TLS: c.secure != nil, Verify: c.secure != nil && c.secure.ClientCAs != nil, Streams: c.srv.streams.Load() != nil}
	if _, err := c.nc.Write(c.info.line()); err != nil {
		return err
	}
	nc := c.nc
	if c.secure != nil {
		t := tls.Server(nc, c.secure)
		if err := t.Handshake(); err != nil {
			return err
		}
		nc = t
	}
	_ = nc.SetWriteDeadline(time.Time{})
	c.reader = link.NewReader(nc)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse = time.AfterFunc(time.Hour, c.ping)
	c.pulse.Stop()
	c.nc, c.out = nc, engine.NewOutbox(nc, c.srv.limits.Outbound, c.srv.limits.Stall)
	return nil
}

// handle handles all commands that have been read.
func (c *conn) handle(unread []byte) (used, need int, err error) {
	c.silent.Store(0)
	c.batch.Begin(c.reader.Stamp(time.Now()))
	defer c.batch.EndRead(c.reader)
	for used < len(unread) {
		n, need, err := parse(unread[used:], c.srv.limits.Payload, &c.command)
		if err != nil || need > 0 {
			return used, need, err
		}
		if err := c.do(&c.command); err != nil {
			return used, 0, err
		}
		used += n
	}
	c.reap()
	return used, 0, nil
}

// do handles one command.
func (c *conn) do(cmd *command) error {
	if c.who == nil && cmd.verb != connect && cmd.verb != ping && cmd.verb != ignored {
		if err := c.login(); err != nil { // a client that says nothing is anonymous
			return err
		}
	}
	switch cmd.verb {
	case connect:
		return link.Apart(func() error { return c.connect(cmd.options) })
	case publish:
		return c.publish(cmd)
	case subscribe:
		return c.subscribe(cmd)
	case unsubscribe:
		c.unsubscribe(cmd)
	case ping:
		c.reader.Idle()
		c.say("PONG\r\n")
	case ignored:
		c.reader.Idle()
	}
	return nil
}

// connect takes CONNECT. A later one changes the options, as clients may.
func (c *conn) connect(text []byte) error {
	o := c.options
	if err := json.Unmarshal(text, &o); err != nil {
		return errParse
	}
	switch {
	case o.Protocol < 0 || o.Protocol > latest:
		return errProtocol
	case o.NoResponders && !o.Headers:
		return errNoAnswer
	}
	if c.who != nil && (o.User != c.options.User || o.Pass != c.options.Pass) {
		return errAuth
	}
	c.options = o
	c.quiet.Store(o.Echo != nil && !*o.Echo)
	c.headers.Store(o.Headers)
	c.hears.Store(o.Protocol >= latest)
	if c.who == nil {
		if err := c.login(); err != nil {
			return err
		}
	}
	c.accepted()
	return nil
}

// login finds out who the client is.
func (c *conn) login() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.srv.limits.Connect)
	defer cancel()
	who, err := c.srv.users.Enter(ctx, c.nc, c.options.User, c.options.Pass)
	if err != nil {
		return errAuth
	}
	c.mu.Lock()
	c.who = who
	c.mu.Unlock()
	if c.srv.users.Stale(c.nc, who) { // the users changed while it was let in, and Review may have looked before
		return errAuth
	}
	c.pulse.Reset(c.srv.limits.Ping)
	return c.nc.SetReadDeadline(time.Time{})
}

// accepted answers a command of a client that wants every answer.
func (c *conn) accepted() {
	if c.options.Verbose {
		c.say("+OK\r\n")
	}
}

// say sends lines with the batch of the connection's own goroutine.
func (c *conn) say(lines string) {
	if buf, ok := c.out.Lock(len(lines), true); ok {
		c.out.Unlock(c.batch, append(buf, lines...))
	}
}

// warn tells the client of an error after which it may go on.
func (c *conn) warn(format string, args ...any) {
	c.say("-ERR '" + fmt.Sprintf(format, args...) + "'\r\n")
}

// ping asks the client whether it is there, on the timer's goroutine.
func (c *conn) ping() {
	switch {
	case c.out.Err() != nil: // it has ended
		return
	case c.silent.Add(1) > maxSilent:
		c.close(errStale)
		return
	}
	c.out.Send([]byte("PING\r\n"))
	c.pulse.Reset(c.srv.limits.Ping)
}

// close ends the connection with an error, from any goroutine.
func (c *conn) close(why protocolError) {
	c.mu.Lock()
	out := c.out
	if out == nil {
		_ = c.nc.Close()
	}
	c.mu.Unlock()
	if out != nil {
		c.tell(why)
		out.Close(goodbye)
	}
}

// tell tells the client why the connection is closed.
func (c *conn) tell(why protocolError) {
	c.srv.closed.Add(string(why))
	if why != errShutdown { // clients take an error for a reason not to come back
		c.out.Send([]byte("-ERR '" + string(why) + "'\r\n"))
	}
}

// leaving tells the client that the server ends soon, if it understands that.
func (c *conn) leaving() {
	c.mu.Lock()
	out := c.out
	c.mu.Unlock()
	if out != nil && c.hears.Load() {
		last := c.info
		last.Leaving = true
		out.Send(last.line())
	}
}

// Kick implements link.Guest.
func (c *conn) Kick(reason string) {
	c.close(protocolError(reason))
	<-c.done
}

// finish closes the connection, which ended with err.
func (c *conn) finish(err error) {
	for sid := range c.subs {
		c.remove(sid)
	}
	var why protocolError
	switch {
	case c.out == nil:
		if !errors.Is(err, io.EOF) {
			c.srv.closed.Add("handshake")
		}
		_ = c.nc.Close()
		return
	case errors.Is(c.out.Err(), engine.ErrStalled):
		c.srv.closed.Add(string(errSlow)) // it would not read why
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = errTimeout
	default:
		errors.As(err, &why) // if not, the client went, or the network
	}
	c.pulse.Stop()
	if why != "" {
		c.tell(why)
		if c.out.Drain(goodbye) && why != errTimeout { // or it sends nothing anyway
			c.reader.Leave()
		}
	}
	c.out.Close(goodbye)
}

// Released implements engine.Source. Messages have QoS 0, so none is told.
func (c *conn) Released(*engine.Batch, *engine.Message, uint16) {}

// never is when messages of NATS expire.
const never = mono.Never
