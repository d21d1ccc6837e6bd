package chains

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
)

// startTime is how long a server may take until it answers. A Tomcat on a busy
// processor takes some seconds.
const startTime = 60 * time.Second

// Bed is a set of running servers, and what stands in front of them. It is not safe
// for concurrent use.
type Bed struct {
	setting  Setting
	servers  []string // host:port
	fronts   []string // what requests are sent to; servers if nothing is in front
	exits    []string // what a server calls instead of the next front; nil: that itself
	admins   []string // of the proxies
	dir      string   // temporary, "" if there is none
	children []*proc.Child
	proxies  []*proc.Child
	logs     []*bytes.Buffer // of the proxies, if they log every request
}

// StartServices starts Go services, all in one process, on the first processor that
// this process may use. Close the bed in the end; the end of ctx ends the services
// as well.
func StartServices(ctx context.Context, s Setting, d Discipline) (*Bed, error) {
	s, err := s.withDefaults()
	if err := errors.Join(err, d.validate()); err != nil {
		return nil, err
	}
	child, err := startChild(ctx, order{Role: roleServices, Setting: s, Discipline: d},
		proc.Spec{Name: "services", GOMAXPROCS: 1, GOGC: "400", Nice: -10, RealTime: true}, firstCPU)
	if err != nil {
		return nil, err
	}
	servers := strings.Split(child.Addr(), ",")
	return &Bed{setting: s, servers: servers, fronts: servers, children: []*proc.Child{child}}, nil
}

// Setting returns the bed's setting, defaults filled in.
func (b *Bed) Setting() Setting { return b.setting }

// Front stands a proxy in front of each server, as the mode has it, in place of
// those that are there. program is spillgate; "" is this program.
func (b *Bed) Front(ctx context.Context, program string, m Mode) error {
	b.stopProxies()
	b.fronts, b.exits, b.logs = b.servers, nil, nil
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "spillgate-chains-")
		if err != nil {
			return fmt.Errorf("chains: %w", err)
		}
		b.dir = dir
	}
	n := len(b.servers)
	ports, err := freeAddrs(3 * n)
	if err != nil {
		return err
	}
	fronts, admins, exits := ports[:n], ports[n:2*n], ports[2*n:]
	for i, server := range b.servers {
		name := filepath.Join(b.dir, fmt.Sprintf("proxy%d.yaml", i))
		if err := os.WriteFile(name, []byte(m.file(b.setting, fmt.Sprintf("server%d", i), fronts[i], admins[i], server, exits[i], fronts[(i+1)%n])), 0o600); err != nil {
			return fmt.Errorf("chains: %w", err)
		}
		spec := proc.Spec{
			Name: fmt.Sprintf("proxy %d (%s)", i, m.Name), Path: program, Args: append([]string{"proxy", "--config", name}, m.Args...),
			GOMAXPROCS: 1, GOGC: "400", ReadyTimeout: -1, Nice: -10,
		}
		if m.Log {
			b.logs = append(b.logs, new(bytes.Buffer))
			spec.Output = b.logs[i]
		}
		child, err := proc.Start(ctx, pinned(spec, firstCPU))
		if err != nil {
			return err
		}
		b.proxies = append(b.proxies, child)
	}
	for i, admin := range admins {
		if err := await(ctx, b.proxies[i], "http://"+admin+"/.spillgate/health/ready"); err != nil {
			return err
		}
	}
	b.fronts, b.admins = fronts, admins
	if m.Egress {
		b.exits = exits
	}
	return nil
}

// Run sends a load to what stands in front, from a process of its own on the last
// processor, and returns what became of it.
func (b *Bed) Run(ctx context.Context, l Load) (Measured, error) {
	if err := l.validate(); err != nil {
		return Measured{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.duration()+longestWait+30*time.Second)
	defer cancel()
	var m Measured
	var output bytes.Buffer // all of it, which is more than a child keeps
	child, err := startChild(ctx, order{Role: roleLoad, Setting: b.setting, Load: l, Servers: b.fronts, Exits: b.exits},
		proc.Spec{Name: "generator", GOMAXPROCS: 1, GOGC: "off", Env: []string{"GOMEMLIMIT=1GiB"}, ReadyTimeout: -1, Output: &output, Nice: -20, RealTime: true}, lastCPU)
	if err != nil {
		return m, err
	}
	if err := child.Wait(); err != nil {
		return m, err
	}
	if err := proc.ReadAnswer(output.String(), &m); err != nil {
		return m, fmt.Errorf("chains: the generator: %w; it wrote: %.500s", err, child.Output())
	}
	return m, nil
}

// Counts returns what all servers together did since they were started.
func (b *Bed) Counts(ctx context.Context) (Counts, error) {
	var sum Counts
	for _, server := range b.servers {
		var c Counts
		if err := read(ctx, server, "/stats", &c); err != nil {
			return sum, err
		}
		sum = sum.plus(c)
	}
	return sum, nil
}

// Replay stops the proxies and returns what all that they let in waited, and would
// have in order of arrival, if their mode logs.
func (b *Bed) Replay() (Counts, error) {
	b.stopProxies() // and their logs are complete
	var sum Counts
	for _, log := range b.logs {
		visits, err := readVisits(log)
		if err != nil {
			return sum, err
		}
		sum = sum.plus(replay(visits, b.setting.Workers))
	}
	return sum, nil
}

// Weights returns the decisions of each server since it was started; none if the
// discipline is not Share.
func (b *Bed) Weights(ctx context.Context) ([][]Weighed, error) {
	all := make([][]Weighed, len(b.servers))
	for i, server := range b.servers {
		if err := read(ctx, server, "/weights", &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// read reads what a server says of itself.
func read(ctx context.Context, server, path string, v any) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server+path, nil)
	if err != nil {
		return fmt.Errorf("chains: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("chains: %w", err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil {
		return fmt.Errorf("chains: %s of server %s: %w", path, server, err)
	}
	return nil
}

// Close ends all processes of the bed and removes its files. Further calls do
// nothing.
func (b *Bed) Close() {
	b.stopProxies()
	stopAll(b.children)
	b.children = nil
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

func (b *Bed) stopProxies() {
	stopAll(b.proxies)
	b.proxies = nil
}

// stopAll ends processes, all at once.
func stopAll(children []*proc.Child) {
	var wg sync.WaitGroup
	for _, c := range children {
		wg.Go(func() { c.Stop(3 * time.Second) })
	}
	wg.Wait()
}

// await waits until a URL answers 200, or says what its process had to say.
func await(ctx context.Context, c *proc.Child, url string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	give := time.After(startTime)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("chains: %w", err)
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-c.Exited():
			return fmt.Errorf("chains: a process ended before it served: %w", c.Wait())
		case <-ctx.Done():
			return ctx.Err()
		case <-give:
			return fmt.Errorf("chains: %s: %w after %v; the process wrote:\n%s", url, err, startTime, c.Output())
		}
	}
}

// freeAddrs returns addresses on loopback that were free a moment ago, for programs
// that cannot tell which port they took.
func freeAddrs(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("chains: a free port: %w", err)
		}
		defer l.Close() // when all are known, so that they differ
		all = append(all, "127.0.0.1:"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return all, nil
}
