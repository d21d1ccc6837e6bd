package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/spillgate/spillgate/internal/harness/proc"
)

//go:embed envoy.yaml.tmpl
var envoyConfig string

// gcPercent is GOGC of every server here that is written in Go: at the default of
// 100, collection alone can look like an overload on one core.
const gcPercent = "400"

// contender is one way to the upstream.
type contender struct {
	name string
	// start starts the proxy on the given processors; nil: there is none.
	start func(ctx context.Context, upstream string, cpus []int) (*front, error)
}

// front is a proxy that runs.
type front struct {
	addr string
	pid  int // 0: no proxy
	stop func()
}

// contenders returns the ways to the upstream that can be had with the given
// programs.
func contenders(envoy, spillgate string) []contender {
	all := []contender{{name: "direct"}, {name: "go", start: startGo}}
	if envoy != "" {
		all = append(all,
			contender{"envoy", startEnvoy(envoy, "none")},
			contender{"envoy-adaptive", startEnvoy(envoy, "adaptive_concurrency")},
			contender{"envoy-admission", startEnvoy(envoy, "admission_control")})
	}
	if spillgate != "" {
		all = append(all, contender{"spillgate", startSpillgate(spillgate)})
	}
	return all
}

// measure makes one run of the contender in front of a fresh upstream.
func (c contender) measure(ctx context.Context, l load, s setting) (measured, error) {
	ctx, cancel := context.WithTimeout(ctx, s.length+60*time.Second)
	defer cancel()
	servers, generator, err := processors()
	if err != nil {
		return measured{}, err
	}
	upstream, err := startChild(ctx, order{Role: "upstream", Seed: s.seed}, server("upstream", servers))
	if err != nil {
		return measured{}, err
	}
	defer upstream.Stop(time.Second)
	proxy := &front{addr: upstream.Addr(), stop: func() {}}
	if c.start != nil {
		if proxy, err = c.start(ctx, upstream.Addr(), servers); err != nil {
			return measured{}, err
		}
	}
	defer proxy.stop()
	o := order{Role: "load", URL: "http://" + proxy.addr + "/", Patience: s.patience, Capacity: s.capacity, Seed: s.seed}
	o.Profile, o.From = l.profile(s.capacity, s.length)
	before, stolen := cpuTime(proxy.pid), stolenTime()
	m, err := generate(ctx, o, generator)
	if err != nil {
		return measured{}, err
	}
	used := cpuTime(proxy.pid) - before
	m.Stolen = (stolenTime() - stolen).Seconds() / s.length.Seconds()
	m.Load, m.Proxy, m.Seed = l.String(), c.name, s.seed
	if proxy.pid != 0 && m.Offered > 0 {
		m.CPU = used / time.Duration(m.Offered)
	}
	if m.Stolen > mostStolen {
		m.Valid = false
		m.Invalid = append(m.Invalid, fmt.Sprintf("other machines took %.0f %% of a processor, expected at most %.0f %%", 100*m.Stolen, 100*mostStolen))
	}
	return m, nil
}

// measureCapacity measures what the upstream does without a proxy, in requests
// per second.
func measureCapacity(ctx context.Context, s setting) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	servers, generator, err := processors()
	if err != nil {
		return 0, err
	}
	upstream, err := startChild(ctx, order{Role: "upstream", Seed: s.seed}, server("upstream", servers))
	if err != nil {
		return 0, err
	}
	defer upstream.Stop(time.Second)
	m, err := generate(ctx, order{Role: "capacity", URL: "http://" + upstream.Addr() + "/", Patience: objective, Seed: s.seed}, generator)
	return m.Capacity, err
}

// server returns how a server runs: before every ordinary process of its processor,
// like all processes of a run. None of them keeps a processor busy, so the system
// gets its time too.
func server(name string, cpus []int) proc.Spec {
	return proc.Spec{Name: name, CPUs: cpus, GOMAXPROCS: 1, GOGC: gcPercent, RealTime: true, Nice: -20}
}

// processors returns those of the servers and those of the generator.
func processors() (servers, generator []int, err error) {
	cpus, err := proc.CPUs()
	if err != nil {
		return nil, nil, err
	}
	if len(cpus) < 2 {
		return nil, nil, fmt.Errorf("this process may use processors %v, expected at least two: one for the servers, one for the generator", cpus)
	}
	return cpus[:1], cpus[len(cpus)-1:], nil
}

// generate runs a generator and returns what it found.
func generate(ctx context.Context, o order, cpus []int) (measured, error) {
	var output bytes.Buffer
	generator, err := startChild(ctx, o, proc.Spec{Name: "generator", CPUs: cpus, GOMAXPROCS: 1, GOGC: "off", Env: []string{"GOMEMLIMIT=1GiB"},
		RealTime: true, Nice: -20, ReadyTimeout: -1, Output: &output})
	if err != nil {
		return measured{}, err
	}
	if err := generator.Wait(); err != nil {
		return measured{}, err
	}
	var m measured
	if err := proc.ReadAnswer(output.String(), &m); err != nil {
		return measured{}, fmt.Errorf("the generator: %w", err)
	}
	return m, nil
}

// startChild starts this program in another role.
func startChild(ctx context.Context, o order, spec proc.Spec) (*proc.Child, error) {
	return role.Start(ctx, o, spec)
}

// startGo starts the plain reverse proxy of Go's library.
func startGo(ctx context.Context, upstream string, cpus []int) (*front, error) {
	child, err := startChild(ctx, order{Role: "proxy", URL: "http://" + upstream}, server("go", cpus))
	if err != nil {
		return nil, err
	}
	return ready(ctx, child, child.Addr(), func() {})
}

func startSpillgate(path string) func(context.Context, string, []int) (*front, error) {
	return func(ctx context.Context, upstream string, cpus []int) (*front, error) {
		addr, err := freeAddress()
		if err != nil {
			return nil, err
		}
		spec := server("spillgate", cpus)
		spec.Path, spec.ReadyTimeout = path, -1
		spec.Args = []string{"proxy", "--listen", addr, "--upstream", "http://" + upstream, "--slo", objective.String()}
		child, err := proc.Start(ctx, spec)
		if err != nil {
			return nil, err
		}
		return ready(ctx, child, addr, func() {})
	}
}

func startEnvoy(path, filter string) func(context.Context, string, []int) (*front, error) {
	return func(ctx context.Context, upstream string, cpus []int) (*front, error) {
		dir, err := os.MkdirTemp("", "envoy")
		if err != nil {
			return nil, err
		}
		clean := func() { _ = os.RemoveAll(dir) }
		config, admin := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
		text, err := configureEnvoy(filter, upstream)
		if err == nil {
			err = os.WriteFile(config, text, 0o600)
		}
		if err != nil {
			clean()
			return nil, err
		}
		// One worker, as there is one processor.
		spec := server("envoy", cpus)
		spec.Path, spec.ReadyTimeout = path, -1
		spec.Args = []string{"-c", config, "--concurrency", "1", "--log-level", "warning", "--disable-hot-restart", "--admin-address-path", admin}
		child, err := proc.Start(ctx, spec)
		if err != nil {
			clean()
			return nil, err
		}
		addr, err := envoyListener(ctx, child, admin)
		if err != nil {
			child.Stop(time.Second)
			clean()
			return nil, err
		}
		return ready(ctx, child, addr, clean)
	}
}

// configureEnvoy returns Envoy's configuration with the given filter.
func configureEnvoy(filter, upstream string) ([]byte, error) {
	host, port, err := net.SplitHostPort(upstream)
	if err != nil {
		return nil, err
	}
	// A little less than the clients' deadline: they leave without a word, and from
	// that neither filter learns how long it took.
	timeout := objective * 9 / 10
	var text bytes.Buffer
	err = template.Must(template.New("").Parse(envoyConfig)).Execute(&text, map[string]any{
		"Filter": filter, "Host": host, "Port": port, "Timeout": strconv.FormatFloat(timeout.Seconds(), 'f', -1, 64)})
	return text.Bytes(), err
}

// envoyListener asks Envoy's administration for the address it listens on.
func envoyListener(ctx context.Context, child *proc.Child, adminFile string) (string, error) {
	var addr string
	err := retry(ctx, child, func() error {
		admin, err := os.ReadFile(adminFile)
		if err != nil {
			return err
		}
		text, err := get(ctx, "http://"+strings.TrimSpace(string(admin))+"/listeners")
		if err != nil {
			return err
		}
		var ok bool
		if _, addr, ok = strings.Cut(strings.TrimSpace(text), "front::"); !ok {
			return fmt.Errorf("its listeners are %q", text)
		}
		return nil
	})
	return addr, err
}

// ready waits until a request gets any answer, and stops the proxy if none comes.
func ready(ctx context.Context, child *proc.Child, addr string, clean func()) (*front, error) {
	f := &front{addr: addr, pid: child.Pid(), stop: func() {
		child.Stop(time.Second)
		clean()
	}}
	err := retry(ctx, child, func() error {
		_, err := get(ctx, "http://"+addr+"/")
		return err
	})
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// retry does what a starting child is not ready for until it succeeds, for ten
// seconds at most.
func retry(ctx context.Context, child *proc.Child, do func() error) error {
	var last error
	for range 200 {
		if last = do(); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-child.Exited():
			return fmt.Errorf("ended: %s", child.Output())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("not ready: %w; it said: %s", last, child.Output())
}

func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return string(text), err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
