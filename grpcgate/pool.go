package grpcgate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/connectivity"

	"github.com/spillgate/spillgate/internal/live"
)

func init() { balancer.Register(builder{}) }

// pools counts the pools of this process.
var pools atomic.Uint32

// builder makes one pool for each ClientConn that uses the policy.
type builder struct{}

func (builder) Name() string { return BalancerName }

func (builder) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	p := &pool{number: max(pools.Add(1), 1), ClientConn: cc, target: opts.Target.Endpoint(), backends: map[balancer.SubConn]*backend{}, accounts: map[*live.Server]*backend{}}
	p.lost, p.lose = context.WithCancel(context.Background())
	p.lose() // nothing is connected yet
	// The base balancer keeps a SubConn for each address, connected and health
	// checked, and tells p of every change.
	p.Balancer = base.NewBalancerBuilder(BalancerName, p, base.Config{HealthCheck: true}).Build(p, opts)
	return p
}

// UpdateClientConnState gives the base the addresses of the endpoints where the resolver
// names no others: it knows none but addresses.
func (p *pool) UpdateClientConnState(s balancer.ClientConnState) error {
	if len(s.ResolverState.Addresses) == 0 {
		for _, e := range s.ResolverState.Endpoints {
			s.ResolverState.Addresses = append(s.ResolverState.Addresses, e.Addresses...)
		}
	}
	return p.Balancer.UpdateClientConnState(s)
}

// backend is a server that is connected.
type backend struct {
	sub     balancer.SubConn
	control *controlClient
	callee  *live.Callee
	close   func()       // of the control stream
	account *live.Server // nil until the pool is linked, or while it drains
	plain   atomic.Int32 // answers in a row without a grant
}

// pool is the balancer of one ClientConn: its connected servers and the wallet
// with their credits. The wallet's configuration comes with the first call that
// reaches the picker, which also links the pool to its ClientConn: a balancer
// does not know for which ClientConn it was built, but a call does.
type pool struct {
	number              uint32 // tells it from others, above 0
	balancer.Balancer          // the base
	balancer.ClientConn        // what the base reports to, through UpdateState below
	target              string

	mu       sync.Mutex
	backends map[balancer.SubConn]*backend
	accounts map[*live.Server]*backend // of those with one
	client   *client                   // nil: not linked
	conn     *grpc.ClientConn
	wallet   *live.Wallet
	called   *live.Target // nil: nobody counts
	unwatch  func()       // nil: not linked
	closed   bool
	lost     context.Context // ends when no server is connected any more
	lose     context.CancelFunc

	report sync.Mutex // of reports to the ClientConn, in order
	state  balancer.State
}

// Build takes the connected servers from the base balancer and returns the
// picker for them.
func (p *pool) Build(info base.PickerBuildInfo) balancer.Picker {
	p.connected(info.ReadySCs)
	return p.picker()
}

// connected makes ready the servers of the pool. Calls of it never overlap: grpc
// makes them one after another.
func (p *pool) connected(ready map[balancer.SubConn]base.SubConnInfo) {
	var gone, come []*backend
	p.mu.Lock()
	for sub, b := range p.backends {
		if _, ok := ready[sub]; !ok {
			delete(p.backends, sub)
			gone = append(gone, b)
		}
	}
	for sub := range ready {
		if p.backends[sub] == nil && !p.closed {
			come = append(come, &backend{sub: sub})
		}
	}
	p.mu.Unlock()
	for _, b := range come {
		control, done := b.sub.GetOrBuildProducer(&controlBuilder{})
		b.control, b.close = control.(*controlClient), done
		b.callee = live.NewCallee(p.target, b.control.ask)
		b.control.ofCallee(b.callee)
	}
	p.mu.Lock()
	for _, b := range come {
		p.backends[b.sub] = b
	}
	switch {
	case len(p.backends) == 0:
		p.lose()
	case p.lost.Err() != nil:
		p.lost, p.lose = context.WithCancel(context.Background())
	}
	wallet := p.wallet
	p.mu.Unlock()
	for _, b := range gone {
		b.close()
		if a := p.detach(b); a != nil {
			a.Close()
		}
	}
	if wallet != nil { // else link opens their accounts
		for _, b := range come {
			p.open(b, wallet)
		}
	}
}

// detach takes a backend's account off it.
func (p *pool) detach(b *backend) *live.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := b.account
	b.account = nil
	delete(p.accounts, a)
	return a
}

// open gives a connected server an account in the wallet.
func (p *pool) open(b *backend, wallet *live.Wallet) {
	a := wallet.Open(b.control.demand)
	p.mu.Lock()
	if p.backends[b.sub] != b || b.account != nil {
		p.mu.Unlock()
		a.Close()
		return
	}
	b.account, p.accounts[a] = a, b
	client := p.client
	p.mu.Unlock()
	b.control.serve(a, client)
}

// link makes the pool that of a call's ClientConn, the first time.
func (p *pool) link(o *outgoing) *live.Wallet {
	p.mu.Lock()
	if p.wallet != nil || p.closed {
		defer p.mu.Unlock()
		return p.wallet
	}
	wallet, err := live.NewWallet(o.client.o.wallet)
	if err != nil { // checked by DialOptions: its calls do not get here
		p.mu.Unlock()
		return nil
	}
	p.client, p.conn, p.wallet = o.client, o.conn, wallet
	p.called = o.client.o.calls.Target(o.conn.Target())
	p.unwatch = p.called.Watch(p.clientState)
	var open []*backend
	for _, b := range p.backends {
		open = append(open, b)
	}
	o.client.pools.Store(o.conn, p)
	p.mu.Unlock()
	for _, b := range open {
		p.open(b, wallet)
	}
	p.refresh(true)
	return wallet
}

// clientState is what the pool has of its servers.
func (p *pool) clientState() (sum live.ClientState) {
	p.mu.Lock()
	var servers []*live.Server
	for _, b := range p.backends {
		if b.account != nil {
			servers = append(servers, b.account)
		}
	}
	wallet := p.wallet
	p.mu.Unlock()
	sum.Waiting = wallet.Waiting()
	for _, s := range servers {
		if n, credited := s.Window(); credited {
			sum.Window += n
			sum.Credited = true
		}
	}
	return sum
}

// untilLost returns a context that ends when no server is connected any more.
func (p *pool) untilLost() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// acquire waits for a credit, for which there is room. It returns neither permit nor error if no server
// is connected, or none any more: what happens then is for grpc's rules on
// failing fast and waiting for ready.
func (p *pool) acquire(ctx context.Context, room *live.Permit) (*live.Permit, error) {
	p.mu.Lock()
	lost, wallet, none := p.lost, p.wallet, len(p.backends) == 0
	p.mu.Unlock()
	if none {
		return nil, nil
	}
	if ok, err := wallet.AcquireOr(ctx, lost.Done(), room); !ok {
		if lost.Err() != nil && ctx.Err() == nil {
			return nil, nil // whichever was heard of first
		}
		return nil, err
	}
	return room, nil
}

// behind returns what is connected to a server in the wallet, nil if it is gone.
func (p *pool) behind(a *live.Server) *backend {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accounts[a]
}

// longestDrain bounds how long a draining server is left alone.
const longestDrain = 30 * time.Second

// drained puts a server that refuses everything, because it is going away, out
// of use for as long as it asks for, if there is another.
func (p *pool) drained(a *live.Server, pushback time.Duration) {
	p.mu.Lock()
	b := p.accounts[a]
	if b == nil || len(p.accounts) == 1 { // there is no other
		p.mu.Unlock()
		return
	}
	b.account = nil
	delete(p.accounts, a)
	wallet := p.wallet
	p.mu.Unlock()
	b.control.serve(nil, nil)
	a.Close()
	p.refresh(true)
	time.AfterFunc(min(max(pushback, time.Second), longestDrain), func() {
		p.open(b, wallet)
		p.refresh(true)
	})
}

// UpdateState passes on what the base balancer reports.
func (p *pool) UpdateState(s balancer.State) {
	if s.ConnectivityState != connectivity.Ready {
		// The base makes no picker of ours for TRANSIENT_FAILURE, which a failing
		// health check enters straight from READY.
		p.connected(nil)
	}
	p.report.Lock()
	defer p.report.Unlock()
	p.state = s
	p.ClientConn.UpdateState(s)
}

// refresh has blocked calls picked again, with a new picker if the servers'
// accounts changed.
func (p *pool) refresh(changed bool) {
	p.report.Lock()
	defer p.report.Unlock()
	if _, ours := p.state.Picker.(*picker); ours && changed {
		p.state.Picker = p.picker()
	}
	if p.state.Picker != nil {
		p.ClientConn.UpdateState(p.state)
	}
}

// Close ends the pool; calls that wait for a credit are refused.
func (p *pool) Close() {
	p.Balancer.Close()
	p.mu.Lock()
	p.closed = true
	if p.client != nil {
		p.client.pools.CompareAndDelete(p.conn, p)
	}
	wallet := p.wallet
	if p.unwatch != nil {
		p.unwatch()
	}
	p.mu.Unlock()
	p.connected(nil)
	if wallet != nil {
		wallet.Close()
	}
}
