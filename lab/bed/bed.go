package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/world"
)

// The children's garbage collection, part of every result.
const (
	servicesGOGC = "400"
	clientsGOGC  = "off"
	clientsMem   = "GOMEMLIMIT=2GiB"
)

// Played is a run with all that was seen of it.
type Played struct {
	Report *world.Report
	// Looks are of all processes of all services, in the order of the world, and of
	// each in the order of time. With a proxy, the looks of a replica are followed by
	// those of the proxy in front of it.
	Looks  []Look
	Record Record
	// Requests are those of each group, in the order in which they ended.
	Requests [][]Request
}

// Run plays a world under a policy that is no peer, see Play, and returns the report.
func Run(ctx context.Context, w *world.World, policy string, seed uint64) (*world.Report, error) {
	played, err := Play(ctx, w, policy, seed)
	if err != nil {
		return nil, err
	}
	return played.Report, nil
}

// Play plays a world under a policy with real processes, and returns when all of them
// are gone. The policy is NAME or NAME/TRANSPORT: NAME is spillgate, none or
// semaphore:LIMIT[:QUEUE], that of one of the peers, or one of worlds.Peers, which come over
// grpc alone; TRANSPORT is grpc, the default, http, or, with spillgate, none or some peers,
// proxy. It takes the
// length of the world and some seconds. The error says all that
// is wrong with world and policy, or which process failed; that a service answers
// nobody is no error.
func Play(ctx context.Context, w *world.World, policy string, seed uint64, peers ...Peer) (*Played, error) {
	return play(ctx, Take{w, policy, seed}, peers, func() {})
}

// play calls ready before the clients start.
func play(ctx context.Context, t Take, peers []Peer, ready func()) (*Played, error) {
	w, policy, seed := t.World, t.Policy, t.Seed
	p, errWorld := newPlan(w)
	pol, errPolicy := parsePolicy(policy, peers)
	if err := errors.Join(errWorld, errPolicy); err != nil {
		return nil, err
	}
	cpus, err := proc.CPUs()
	if err != nil {
		return nil, err
	}
	at, err := newPlace(p, cpus)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "spillgate-bed-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := publish(dir, worldFile, p.World); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bed{plan: p, policy: pol, place: at, order: order{Dir: dir, Policy: policy, Seed: seed}, ready: ready}
	for _, peer := range peers {
		b.order.Peers = append(b.order.Peers, peer.Name)
	}
	defer b.stop()
	return b.play(ctx)
}

// bed is a run from the parent's side.
type bed struct {
	plan   *plan
	policy policy
	place  place
	order  order
	ready  func()

	mu   sync.Mutex
	seen []*seat
}

// seat is where a replica, or the proxy in front of one, is, whatever processes are it
// in turn.
type seat struct {
	order  order
	cpus   []int
	output bytes.Buffer // of all of them
	child  *proc.Child
	used   time.Duration // by those that are gone
}

func (b *bed) play(ctx context.Context) (*Played, error) {
	open := b.open
	if b.policy.over == overProxy && b.policy.peer != nil && b.policy.peer.Proxy != nil {
		open = b.openBehind
	}
	peers, err := open(ctx)
	if err != nil {
		return nil, err
	}
	if err := publish(b.order.Dir, peersFile, peers); err != nil {
		return nil, err
	}
	b.ready()
	var record Record
	stolen := machine.WatchStolen()
	results, err := b.clients(ctx, &record)
	record.Stolen = stolen()
	b.stop()
	if err != nil {
		return nil, err
	}
	record.Crowded = b.place.crowded(b.plan)
	return b.played(results, record), nil
}

// open starts all replicas and returns where to call them.
func (b *bed) open(ctx context.Context) (map[string][]string, error) {
	peers := map[string][]string{}
	for i := range b.plan.Services {
		s := &b.plan.Services[i]
		for r := range s.Replicas {
			addr, err := b.replica(ctx, s, r+1)
			if err != nil {
				return nil, err
			}
			peers[s.Name] = append(peers[s.Name], addr)
		}
	}
	return peers, nil
}

// replica starts a replica, and the proxy in front of it if there is to be one, and
// returns where to call it.
func (b *bed) replica(ctx context.Context, s *world.Service, number int) (addr string, err error) {
	o := b.order
	o.Service, o.Replica = s.Name, number
	cpus := b.place.services[s.Name]
	behind := &seat{order: o, cpus: cpus}
	if err := b.start(ctx, behind, threads(s, len(cpus))); err != nil {
		return "", err
	}
	if b.policy.over != overProxy {
		return behind.child.Addr(), nil
	}
	o.Upstream = behind.child.Addr()
	if b.policy.peer != nil {
		return b.foreignFront(ctx, &o)
	}
	front := &seat{order: o, cpus: cpus}
	if err := b.start(ctx, front, len(cpus)); err != nil {
		return "", err
	}
	return front.child.Addr(), nil
}

func (b *bed) start(ctx context.Context, s *seat, threads int) error {
	var env []string
	if b.plan.many() {
		env = append(env, evenStacks)
	}
	child, err := role.Start(ctx, s.order, proc.Spec{Env: env, Name: fmt.Sprintf("%s %d", s.order.Service, s.order.Replica),
		CPUs: s.cpus, GOMAXPROCS: threads, GOGC: servicesGOGC, RealTime: b.realTime(), Nice: -20, Output: &s.output})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.child == nil {
		b.seen = append(b.seen, s)
	}
	s.child = child
	s.order.Listen = child.Addr()
	return nil
}

// realTime reports whether the processes of services may take a processor at once: where
// they mostly wait, and no program of somebody else's, which does not, would starve.
func (b *bed) realTime() bool {
	return b.plan.waits() && (b.policy.peer == nil || b.policy.peer.Program == nil)
}

// clients runs the clients to their end, and the faults meanwhile.
func (b *bed) clients(ctx context.Context, record *Record) ([]tallied, error) {
	ctx, cancel := context.WithTimeout(ctx, b.plan.Length+time.Minute)
	defer cancel()
	var output bytes.Buffer
	began := time.Now()
	child, err := role.Start(ctx, b.order, proc.Spec{Name: "clients", CPUs: b.place.clients, GOMAXPROCS: 1, GOGC: clientsGOGC,
		Env: []string{clientsMem}, RealTime: true, First: true, Nice: -20, ReadyTimeout: -1, Output: &output})
	if err != nil {
		return nil, err
	}
	faults, stop := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- b.faults(faults) }()
	go func() { ended <- b.watch(faults, child, record) }()
	err = child.Wait()
	stop()
	err = errors.Join(err, <-ended, <-ended)
	if err != nil {
		return nil, err
	}
	record.Clients = child.CPUTime().Seconds() / time.Since(began).Seconds()
	var results []tallied
	if err := proc.ReadAnswer(output.String(), &results); err != nil {
		return nil, fmt.Errorf("bed: the clients: %w; they wrote: %s", err, child.Output())
	}
	for _, r := range results {
		record.SendLag = max(record.SendLag, r.Lag)
	}
	return results, nil
}

// goodbye is how long a process may take to say its last look and to end; much longer than the
// slowest machine takes, because what is not said is not counted.
const goodbye = 20 * time.Second

// stop ends all services.
func (b *bed) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.seen {
		s.signal(syscall.SIGCONT) // a halted one hears nothing
		s.child.Stop(goodbye)
	}
}

// signal sends a signal to the process that sits there, unless it is gone.
func (s *seat) signal(sig syscall.Signal) {
	select {
	case <-s.child.Exited():
	default:
		_ = syscall.Kill(s.child.Pid(), sig)
	}
}
