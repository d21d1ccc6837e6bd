package nsq

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/broker/access"
	"github.com/spillgate/spillgate/broker/engine"
	"github.com/spillgate/spillgate/broker/link"
)

const (
	// goodbye is how long a connection that the server closes may take to be sent its
	// last frame.
	goodbye = 100 * time.Millisecond
	// speaks is the release of nsqd whose protocol this is, as far as the package
	// comment says.
	speaks = "1.3.0"
	// fastest and slowest are the heartbeats that a client may ask for.
	fastest, slowest = time.Second, time.Minute
)

// conn is one connection. Its goroutine reads; others append to out.
type conn struct {
	srv    *Server
	secure *tls.Config // nil: without TLS
	batch  *engine.Batch
	done   chan struct{} // closed when the goroutine has ended
	answers

	mu  sync.Mutex
	nc  net.Conn         // with TLS, if there is any
	out *engine.Outbox   // nil until the client may send
	who *access.Identity // nil until that is known

	// Used by the connection's goroutine alone.
	reader     *link.Reader
	begun      bool // the magic has come
	identified bool
	heartbeat  time.Duration // 0: none
	watched    time.Time     // when the deadline was last moved
	pulse      *time.Timer   // set before out
	command    command
	name       []byte        // of a topic
	maker      *engine.Maker // counts its topics
	topic      *engine.Topic // the last one published to, which it may
	message    engine.Message
	channel    *channel
	closing    bool // CLS came: it gets no more, whatever it says

	// Guarded by the channel's lock, or set before there is one.
	ready, flying int
	timeout       time.Duration
}

func (srv *Server) newConn(nc net.Conn, secure *tls.Config) *conn {
	c := &conn{srv: srv, nc: nc, secure: secure, batch: srv.hub.NewBatch(), maker: engine.NewMaker(srv.limits.Topics), done: make(chan struct{}), heartbeat: srv.limits.Heartbeat, timeout: srv.limits.MessageTimeout}
	c.answers.most = srv.limits.Unanswered
	return c
}

// Serve reads until the connection ends.
func (c *conn) Serve() {
	defer close(c.done)
	err := c.open()
	if err == nil {
		err = c.reader.Run(c.handle)
	}
	c.finish(err)
}

// open prepares the connection, and TLS, which a client must ask for.
func (c *conn) open() error {
	_ = c.nc.SetDeadline(time.Now().Add(c.srv.limits.Connect))
	nc := c.nc
	if c.secure != nil {
		if err := c.ask(); err != nil {
			return err
		}
		t := tls.Server(nc, c.secure)
		if err := t.Handshake(); err != nil {
			return err
		}
		if _, err := t.Write(appendFrame(nil, frameResponse, "OK")); err != nil {
			return err
		}
		nc = t
	}
	_ = nc.SetWriteDeadline(time.Time{})
	c.reader = link.NewReader(nc)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse = time.AfterFunc(time.Hour, c.beat)
	c.pulse.Stop()
	c.nc, c.out = nc, engine.NewOutbox(nc, c.srv.limits.Outbound, c.srv.limits.Stall)
	c.answers.out = c.out
	return nil
}

// ask takes the magic and IDENTIFY of a client that must ask for TLS, and not a byte
// more.
func (c *conn) ask() error {
	head := make([]byte, len(magic)+len("IDENTIFY\n")+4)
	if _, err := io.ReadFull(c.nc, head); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(head[len(head)-4:]))
	if string(head[:len(head)-4]) != magic+"IDENTIFY\n" || size > maxOptions {
		return c.sayPlain(frameError, "E_INVALID this address has TLS, expected IDENTIFY with tls_v1")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.nc, body); err != nil {
		return err
	}
	answer, err := c.identify(body)
	if err != nil {
		return c.sayPlain(frameError, err.Error())
	}
	c.begun = true
	_, err = c.nc.Write(appendFrame(nil, frameResponse, answer))
	return err
}

// errTold ends a connection whose client knows why.
var errTold = errors.New("the client was told")

func (c *conn) sayPlain(kind byte, text string) error {
	_, _ = c.nc.Write(appendFrame(nil, kind, text))
	return errTold
}

// options are what a client says in IDENTIFY.
type options struct {
	Negotiate bool `json:"feature_negotiation"`
	Heartbeat int  `json:"heartbeat_interval"` // ms; 0: the server's; -1: none
	Timeout   int  `json:"msg_timeout"`        // ms; 0: the server's
	TLS       bool `json:"tls_v1"`
}

// identify takes the body of IDENTIFY and returns the answer.
func (c *conn) identify(body []byte) (answer string, err error) {
	var o options
	l := &c.srv.limits
	if err := json.Unmarshal(body, &o); err != nil {
		return "", fatal("E_BAD_BODY", "IDENTIFY is no JSON of the kind that clients send")
	}
	beat, timeout := time.Duration(o.Heartbeat)*time.Millisecond, time.Duration(o.Timeout)*time.Millisecond
	switch {
	case o.Heartbeat == -1:
		c.heartbeat = 0
	case o.Heartbeat == 0:
	case beat < fastest || beat > slowest:
		return "", fatal("E_BAD_BODY", "heartbeat_interval %d, expected %d to %d milliseconds, or -1", o.Heartbeat, fastest.Milliseconds(), slowest.Milliseconds())
	default:
		c.heartbeat = beat
	}
	switch {
	case o.Timeout == 0:
	case timeout < time.Millisecond || timeout > l.MaxTimeout:
		return "", fatal("E_BAD_BODY", "msg_timeout %d, expected 1 to %d milliseconds", o.Timeout, l.MaxTimeout.Milliseconds())
	default:
		c.timeout = timeout
	}
	if c.secure != nil && !o.TLS {
		return "", fatal("E_INVALID", "this address has TLS, expected tls_v1 in IDENTIFY")
	}
	c.identified = true
	if !o.Negotiate {
		return "OK", nil
	}
	needed := c.srv.users.Needed(c.nc) && (c.secure == nil || c.secure.ClientCAs == nil)
	text, err := json.Marshal(map[string]any{"max_rdy_count": l.Ready, "version": speaks, "max_msg_timeout": l.MaxTimeout.Milliseconds(), "msg_timeout": c.timeout.Milliseconds(),
		"tls_v1": c.secure != nil, "deflate": false, "deflate_level": 0, "max_deflate_level": 0, "snappy": false, "sample_rate": 0, "auth_required": needed,
		"output_buffer_size": 0, "output_buffer_timeout": 0})
	return string(text), err
}

// handle handles all commands that have been read.
func (c *conn) handle(unread []byte) (used, need int, err error) {
	now := time.Now()
	c.batch.Begin(c.reader.Stamp(now))
	defer c.batch.EndRead(c.reader)
	if c.who != nil {
		c.alive(now)
	}
	if !c.begun {
		switch {
		case len(unread) < len(magic) && strings.HasPrefix(magic, string(unread)):
			return 0, len(magic), nil
		case !strings.HasPrefix(string(unread[:min(len(unread), len(magic))]), magic):
			return 0, 0, fatal("E_BAD_PROTOCOL", "expected four bytes %q", magic)
		}
		c.begun, used = true, len(magic)
	}
	for used < len(unread) {
		n, need, err := parse(unread[used:], &c.srv.limits, &c.command)
		if err != nil || need > 0 {
			return used, need, err
		}
		if err := c.do(&c.command); err != nil && !c.mild(err) {
			return used, 0, err
		}
		used += n
	}
	return used, 0, nil
}

// mild answers an error after which the connection goes on, and reports whether it is
// one.
func (c *conn) mild(err error) bool {
	var f *failure
	if !errors.As(err, &f) || f.fatal {
		return false
	}
	c.answer(c.batch, frameError, f.Error())
	return true
}

// alive moves the deadline of heartbeats, though not for every read.
func (c *conn) alive(now time.Time) {
	if c.heartbeat > 0 && now.Sub(c.watched) >= c.heartbeat/8 {
		c.watched = now
		_ = c.nc.SetReadDeadline(now.Add(2*c.heartbeat + c.heartbeat/8))
	}
}

// beat asks the client whether it is there, on the timer's goroutine.
func (c *conn) beat() {
	if c.out.Err() != nil { // it has ended
		return
	}
	c.out.Send(appendFrame(nil, frameResponse, "_heartbeat_"))
	c.pulse.Reset(c.heartbeat)
}

// login finds out who the client is, by the secret of AUTH if there is one.
func (c *conn) login(secret string) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.srv.limits.Connect)
	defer cancel()
	name, password, _ := strings.Cut(secret, ":")
	who, err := c.srv.users.Enter(ctx, c.nc, name, password)
	switch {
	case errors.Is(err, access.ErrAnonymous) && secret == "":
		return fatal("E_AUTH_FIRST", "AUTH is required before %s", c.command.verb)
	case err != nil:
		return fatal("E_UNAUTHORIZED", "AUTH failed")
	}
	c.mu.Lock()
	c.who = who
	c.mu.Unlock()
	if c.srv.users.Stale(c.nc, who) { // the users changed while it was let in, and Review may have looked before
		return fatal("E_UNAUTHORIZED", "AUTH failed")
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	if c.heartbeat > 0 {
		c.alive(time.Now())
		c.pulse.Reset(c.heartbeat)
	}
	return nil
}

// Kick implements link.Guest. The client is told nothing: a library that gets an
// error for no command takes it for the answer to one.
func (c *conn) Kick(reason string) {
	c.mu.Lock()
	out := c.out
	if out == nil {
		_ = c.nc.Close()
	}
	c.mu.Unlock()
	if out != nil {
		c.srv.closed.Add(reason)
		out.Close(goodbye)
	}
	<-c.done
}

// finish closes the connection, which ended with err.
func (c *conn) finish(err error) {
	if c.out == nil {
		c.srv.closed.Add("handshake")
		_ = c.nc.Close()
		return
	}
	c.pulse.Stop()
	var f *failure
	switch {
	case errors.Is(c.out.Err(), engine.ErrStalled):
		c.srv.closed.Add("stalled")
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.srv.closed.Add("silent")
	case errors.As(err, &f):
		c.srv.closed.Add(f.code)
		c.out.Send(appendFrame(nil, frameError, f.Error()))
		if c.out.Drain(goodbye) {
			c.reader.Leave()
		}
	}
	c.out.Close(goodbye)
	if c.channel != nil {
		c.batch.Begin(c.reader.Stamp(time.Now()))
		c.srv.part(c.batch, c, c.channel)
		c.batch.End()
	}
}
