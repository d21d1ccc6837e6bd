package workflowslive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/proc"
)

const role = proc.Role[order]("SPILLGATE_WORKFLOWS")

// The children's garbage collection, part of every result.
const (
	serverGOGC    = "400"
	generatorGOGC = "off"
	generatorMem  = "GOMEMLIMIT=1GiB"
)

// order is what a child is to do: to be a server of Tier, or, without one, the
// generator.
type order struct {
	Tier    tier     `json:"tier,omitempty"`
	Control control  `json:"control"`
	Setting setting  `json:"setting"`
	Next    []string `json:"next,omitempty"` // addresses that it calls
}

// Child does a child's work and ends the process, if this process is one that an
// experiment started, and returns otherwise. A program that runs experiments calls
// it first in main.
func Child() { role.Play("workflowslive", order.obey) }

func (o order) obey() error {
	if err := o.Setting.validate(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.Tier == "" {
		found, err := generate(ctx, &o.Setting, o.Next)
		if err != nil {
			return err
		}
		return proc.Answer(found)
	}
	p, err := newProcess(o.Tier, &o.Setting, o.Control, o.Next)
	if err != nil {
		return err
	}
	defer p.close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	if err := p.serve(ctx, l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// made is a run.
type made struct {
	flows []measured
	// busy is the processor time of all servers, of one processor.
	busy float64
	// stolen is the largest share of a processor that the host took in a second.
	stolen float64
	// disturbed says why a run that is judged does not count, "" if it does.
	disturbed string
}

// place returns the processor of a tier: the extent nodes share that of the
// generator. Servers are not real-time processes: several of those on a processor
// keep the kernel's thread that delivers packets from it.
func place(t tier, cpus []int) []int {
	if t == extent {
		return cpus[len(cpus)-1:]
	}
	return cpus[:1]
}

// run makes a run: front ends and partition servers on one processor, the rest on
// another.
func run(ctx context.Context, s setting, c control) (m made, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.validate(); err != nil {
		return made{}, err
	}
	cpus, err := proc.CPUs()
	if err != nil {
		return made{}, err
	}
	var servers []*proc.Child
	defer func() {
		for _, server := range servers {
			server.Stop(time.Second)
		}
	}()
	var next []string
	for _, t := range []tier{extent, partition, front} {
		var addrs []string
		for i := range tierSize {
			server, err := start(ctx, order{Tier: t, Control: c, Setting: s, Next: next},
				proc.Spec{Name: fmt.Sprintf("%s%d", t, i), CPUs: place(t, cpus), GOGC: serverGOGC})
			if err != nil {
				return made{}, err
			}
			servers, addrs = append(servers, server), append(addrs, server.Addr())
		}
		next = addrs
	}
	began, stolen := time.Now(), machine.WatchStolen()
	defer func() { m.stolen = stolen() }()
	var output bytes.Buffer
	generator, err := start(ctx, order{Control: c, Setting: s, Next: next},
		proc.Spec{Name: "generator", CPUs: cpus[len(cpus)-1:], GOGC: generatorGOGC, Env: []string{generatorMem}, RealTime: true, ReadyTimeout: -1, Output: &output})
	if err != nil {
		return made{}, err
	}
	patience := time.AfterFunc(s.length()+time.Minute, cancel)
	defer patience.Stop()
	if err := generator.Wait(); err != nil {
		return made{}, err
	}
	took := time.Since(began)
	for _, server := range servers {
		server.Stop(time.Second)
		m.busy += server.CPUTime().Seconds() / took.Seconds()
	}
	if err := proc.ReadAnswer(output.String(), &m.flows); err != nil {
		return m, fmt.Errorf("the generator: %w; it wrote: %s", err, generator.Output())
	}
	return m, nil
}

// length is how long the longest load of a setting lasts.
func (s *setting) length() (d time.Duration) {
	for _, f := range s.Flows {
		d = max(d, f.Profile.Duration())
	}
	return d
}

func start(ctx context.Context, o order, spec proc.Spec) (*proc.Child, error) {
	spec.GOMAXPROCS, spec.Nice = 1, -20
	return role.Start(ctx, o, spec)
}
