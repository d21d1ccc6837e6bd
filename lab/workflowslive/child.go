package workflowslive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/spillgate/spillgate/internal/harness/proc"
)

// roleVariable carries a child's order, as JSON.
const roleVariable = "SPILLGATE_WORKFLOWS"

const answerPrefix = "answer "

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
func Child() {
	text, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	if err := child(text); err != nil {
		fmt.Fprintln(os.Stderr, "workflowslive:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(text string) error {
	proc.ExitWithParent()
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("the order: %w", err)
	}
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
		line, err := json.Marshal(found)
		if err != nil {
			return err
		}
		fmt.Println(answerPrefix + string(line))
		return nil
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
func run(ctx context.Context, s setting, c control) (made, error) {
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
	began := time.Now()
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
	var m made
	for _, server := range servers {
		server.Stop(time.Second)
		m.busy += server.CPUTime().Seconds() / took.Seconds()
	}
	for line := range strings.Lines(output.String()) {
		if text, ok := strings.CutPrefix(line, answerPrefix); ok {
			if err := json.Unmarshal([]byte(text), &m.flows); err != nil {
				return m, fmt.Errorf("the generator's answer: %w", err)
			}
			return m, nil
		}
	}
	return m, fmt.Errorf("the generator gave no answer: %s", generator.Output())
}

// length is how long the longest load of a setting lasts.
func (s *setting) length() (d time.Duration) {
	for _, f := range s.Flows {
		d = max(d, f.Profile.Duration())
	}
	return d
}

func start(ctx context.Context, o order, spec proc.Spec) (*proc.Child, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	spec.Env = append(spec.Env, roleVariable+"="+string(text))
	spec.GOMAXPROCS, spec.Nice = 1, -20
	return proc.Start(ctx, spec)
}
