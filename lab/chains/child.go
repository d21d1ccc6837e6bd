package chains

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spillgate/spillgate/internal/harness/proc"
)

const role = proc.Role[order]("SPILLGATE_CHAINS")

const (
	roleServices = "services"
	roleLoad     = "load"
)

// order is what a child is to do.
type order struct {
	Role       string     `json:"role"`
	Setting    Setting    `json:"setting"`
	Discipline Discipline `json:"discipline,omitzero"`
	Load       Load       `json:"load,omitzero"`
	Servers    []string   `json:"servers,omitempty"`
	Exits      []string   `json:"exits,omitempty"`
}

// place says on which processor a child runs.
type place int

const (
	firstCPU place = iota
	lastCPU
)

// pinned puts a child on the first or the last processor of those that may be used.
func pinned(spec proc.Spec, at place) proc.Spec {
	if cpus, err := proc.CPUs(); err == nil && len(cpus) > 1 {
		spec.CPUs = cpus[:1]
		if at == lastCPU {
			spec.CPUs = cpus[len(cpus)-1:]
		}
	}
	return spec
}

func startChild(ctx context.Context, o order, spec proc.Spec, at place) (*proc.Child, error) {
	return role.Start(ctx, o, pinned(spec, at))
}

// Child does a child's work and ends the process if this process is one that a bed
// started, and returns otherwise. A program that uses beds calls it first in main.
func Child() { role.Play("chains", order.obey) }

func (o order) obey() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch o.Role {
	case roleServices:
		return serveAll(ctx, o.Setting, o.Discipline)
	case roleLoad:
		runtime.GC() // none is due during the run
		m, err := generate(ctx, o.Load, o.Servers, o.Exits, o.Setting.Mean)
		if err != nil {
			return err
		}
		return proc.Answer(m)
	}
	return fmt.Errorf("no role %q", o.Role)
}

// serveAll runs Go services until ctx ends, and says where.
func serveAll(ctx context.Context, s Setting, d Discipline) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var addrs []string
	failed := make(chan error, s.Servers)
	for i := range s.Servers {
		own := s
		own.Seed = s.Seed*uint64(s.Servers) + uint64(i)
		w, err := newWorkers(own, d)
		if err != nil {
			return err
		}
		defer w.close()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addrs = append(addrs, l.Addr().String())
		handler := &goService{name: fmt.Sprintf("server%d", i), mean: s.Mean, workers: w, client: newClient()}
		server := &http.Server{Handler: handler}
		context.AfterFunc(ctx, func() { _ = server.Close() })
		go func() { failed <- server.Serve(l) }()
	}
	fmt.Println("listening on " + strings.Join(addrs, ","))
	var errs []error
	for range s.Servers {
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
			cancel()
		}
	}
	return errors.Join(errs...)
}
