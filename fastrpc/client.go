package fastrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate"
	"github.com/spillgate/spillgate/internal/live"
)

// ClientConfig describes a Client. Its zero value works.
type ClientConfig struct {
	// Wallet says how calls wait for credits. Servers without a gate grant none, and calls to
	// them do not wait.
	Wallet spillgate.Wallet
	// WithoutCredits sends calls immediately, whatever servers grant; their gates refuse
	// instead. Default false.
	WithoutCredits bool
	// TLS, if set, is spoken on every connection. Its ServerName is by default the host of the
	// address. Default nil: none.
	TLS *tls.Config
	// MaxMessage is the longest answer, in bytes, up to 1 GiB. Default 1 MiB.
	MaxMessage int
	// MaxUnsent is about how many bytes of requests wait for a server that reads slowly. Default
	// 1 MiB. Beyond it calls are refused unsent.
	MaxUnsent int
	// WriteTimeout is how long a write may take, until the server counts as gone. Default 10 s.
	WriteTimeout time.Duration
}

func (c *ClientConfig) check(addresses []string) error {
	// The limits are those of a server, under other names.
	s := ServerConfig{MaxMessage: c.MaxMessage, MaxUnread: c.MaxUnsent, WriteTimeout: c.WriteTimeout}
	err := s.check()
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), "MaxUnread", "MaxUnsent"))
	}
	c.MaxMessage, c.MaxUnsent, c.WriteTimeout = s.MaxMessage, s.MaxUnread, s.WriteTimeout
	if len(addresses) == 0 {
		err = errors.Join(err, errors.New("fastrpc: there is no address, expected one or more, such as localhost:4000 or unix:/run/store"))
	}
	return err
}

// Client calls the methods of servers that can stand in for each other. Its methods may be
// called at once from any goroutine.
type Client struct {
	cfg    ClientConfig
	wallet *live.Wallet
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	routes atomic.Pointer[routes]
	turn   atomic.Uint32
	places sync.Pool // of *call
	all    sync.WaitGroup

	mu      sync.Mutex
	links   []*link
	methods map[string]*Method
}

// routes are the connections that calls may go by. They do not change once they are published.
type routes struct {
	links  []*link
	behind map[*live.Server]*link
	plain  bool          // none of them has credits
	lost   chan struct{} // closed when there is none any more; nil without any
}

// Dial connects to the servers at the addresses, "host:port" or "unix:" and a path, with one
// connection each. It keeps trying servers that it cannot reach, until Close. It fails if it
// has reached none when ctx ends or each was tried once. A call goes to a server with a free
// credit, in proportion to the free credits; without credits, to the server with the fewest
// requests in flight.
func Dial(ctx context.Context, cfg ClientConfig, addresses ...string) (*Client, error) {
	if err := cfg.check(addresses); err != nil {
		return nil, err
	}
	wallet, err := live.NewWallet(cfg.Wallet)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, wallet: wallet, methods: map[string]*Method{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.routes.Store(&routes{})
	first := make(chan error, len(addresses))
	for _, a := range addresses {
		c.all.Add(1)
		go func() {
			defer c.all.Done()
			c.keep(ctx, a, first)
		}()
	}
	var errs []error
	for range addresses {
		select {
		case err := <-first:
			if err == nil {
				return c, nil
			}
			errs = append(errs, err)
		case <-ctx.Done():
			c.Close()
			return nil, errors.Join(append(errs, fmt.Errorf("fastrpc: %w before a connection to %s", context.Cause(ctx), strings.Join(addresses, ", ")))...)
		}
	}
	c.Close()
	return nil, errors.Join(errs...)
}

// Close ends the client: calls that wait are refused, those under way fail, connections close. It
// returns when they have.
func (c *Client) Close() {
	c.cancel()
	c.wallet.Close()
	c.all.Wait()
}

// Waiting returns the number of calls that wait for a credit.
func (c *Client) Waiting() int { return c.wallet.Waiting() }

const (
	leastPause = 50 * time.Millisecond
	mostPause  = 5 * time.Second
)

// keep keeps a connection to an address until the client is closed, and says how the first
// attempt ended, which ends with dial too.
func (c *Client) keep(dial context.Context, address string, first chan<- error) {
	pause := leastPause
	for {
		ctx, cancel := context.WithTimeout(c.ctx, handshakeTimeout)
		stop := context.AfterFunc(dial, cancel)
		l, err := c.connect(ctx, address)
		stop()
		cancel()
		dial = context.Background()
		if err == nil {
			pause = leastPause
			c.add(l)
		}
		if first != nil {
			first <- err
			first = nil
		}
		if err == nil {
			pause = max(l.serve(), pause)
		}
		// Clients that lost a server together come back one by one.
		if !live.Pause(c.ctx, pause/2+rand.N(pause)) {
			return
		}
		pause = min(2*pause, mostPause)
	}
}

// add opens a connection to calls. Those that wait for a credit find it with the lock, as they may have one before the
// routes are made.
func (c *Client) add(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.server = c.wallet.Open(l.wants)
	if !l.credits {
		l.server.OnPlainReply() // it never limits
	}
	c.links = append(c.links, l)
	c.route()
}

// newest returns the routes when whoever makes new ones has done so.
func (c *Client) newest() *routes {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.routes.Load()
}

// remove closes a connection to calls. Further calls of it do nothing.
func (c *Client) remove(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, have := range c.links {
		if have == l {
			c.links = append(c.links[:i:i], c.links[i+1:]...)
			c.route()
			return
		}
	}
}

// route makes the routes anew. It is called with the lock held.
func (c *Client) route() {
	r := &routes{links: c.links, behind: make(map[*live.Server]*link, len(c.links)), plain: true, lost: c.routes.Load().lost}
	switch some := len(c.links) > 0; {
	case some && r.lost == nil:
		r.lost = make(chan struct{})
	case !some && r.lost != nil:
		lost := r.lost
		r.lost = nil
		defer close(lost) // after the routes say so
	}
	for _, l := range c.links {
		r.behind[l.server] = l
		r.plain = r.plain && !l.credits
	}
	c.routes.Store(r)
}

// to returns the connection to a server, nil if there is none.
func (r *routes) to(s *live.Server) *link {
	if len(r.links) == 1 && r.links[0].server == s {
		return r.links[0] // without a look-up
	}
	return r.behind[s]
}

// least returns the connection with the least in flight of two, taken in turn.
func (r *routes) least(turn uint32) *link {
	n := uint32(len(r.links))
	if n == 1 {
		return r.links[0]
	}
	a, b := r.links[turn%n], r.links[(turn+1+turn/n%(n-1))%n]
	if b.flying.Load() < a.flying.Load() {
		return b
	}
	return a
}

// Method is a method of a client's servers.
type Method struct {
	client *Client
	name   string
	number uint16
}

// Method returns the method of a name, which servers may have or not. To have it at hand
// spares every call a look-up. An empty name and one that is longer than MaxMethod panic, as does
// the MaxMethods+1st.
func (c *Client) Method(name string) *Method {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.methods[name]
	if m != nil {
		return m
	}
	if name == "" || len(name) > MaxMethod || len(c.methods) >= MaxMethods {
		panic(fmt.Sprintf("fastrpc: method %.80q has %d bytes and is the client's %d, expected 1 to %d bytes, and %d methods at most",
			name, len(name), len(c.methods)+1, MaxMethod, MaxMethods))
	}
	m = &Method{client: c, name: name, number: uint16(len(c.methods))}
	c.methods[name] = m
	return m
}
