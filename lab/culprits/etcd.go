package culprits

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillgate/spillgate/classify"
	"github.com/spillgate/spillgate/guard/etcd/keyrange"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/harness/servers"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/lab/experiment"
	"github.com/spillgate/spillgate/proxy"
)

// etcdObjective is that of puts and gets, which take 1 to 3 ms.
const etcdObjective = 50 * ms

// etcdLoops is how many clients count at once.
const etcdLoops = 4

// wideCulprit and etcdOthers stand for the processes of a scene: a proxy and a gate name
// kinds of requests.
const wideCulprit, etcdOthers = 1, 0

// etcdExperiments are the two forms of c16.
func etcdExperiments() []experiment.Experiment {
	form := func(name, title, about string, scene func(quick bool) *scene) experiment.Experiment {
		return experiment.Experiment{Name: "atropos/" + name, Title: title, About: about, Live: true,
			Run: func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
				return run(ctx, o, scene(o.Quick))
			}}
	}
	return []experiment.Experiment{
		form("c16", "Clients count all keys of a stock etcd in a loop (c16)", `Four clients count a million keys (quick: 200,000) in a loop, count_only, while others put and get.
Each count walks over the whole index of etcd under the lock that puts need. etcd 3.4 does not
end a count whose caller left, so what is found is not cancelled: its kind is kept out. Between
clients and etcd stands Spillgate's proxy, with the rules of examples/etcd.`, stockEtcd),
		form("c16-embedded", "Clients count all keys of an embedded etcd in a loop (c16)", `The same with an etcd inside of a program, behind package guard/etcd: a gate in its interceptors.
The program is examples/etcd, a module of its own, which the experiment builds: it needs a
checkout of the sources, and the Go command.`, embeddedEtcd),
	}
}

// etcdStage is what the contenders of a scene share.
type etcdStage struct {
	keys  int
	lasts time.Duration
	// direct is where the stock server listens, front where requests go at present.
	direct string
	front  atomic.Pointer[etcdClient]
}

func newEtcdStage(quick bool) *etcdStage {
	if quick {
		return &etcdStage{keys: 200_000, lasts: 3500 * ms}
	}
	return &etcdStage{keys: 1_000_000, lasts: 6 * time.Second}
}

// scene returns what both forms have in common.
func (e *etcdStage) scene(name, title string) *scene {
	s := &scene{name: name, title: title, objective: etcdObjective, rate: 400, lasts: e.lasts, nativeTitle: "at most one wide range at once, by the proxy"}
	s.request = func(ctx context.Context, _ *bench, i int) error {
		key := fmt.Sprintf("hot/%d", i*7919%1000)
		if i%2 == 0 {
			return e.front.Load().put(ctx, key, "v")
		}
		return e.front.Load().get(ctx, key)
	}
	for range etcdLoops {
		s.culprits = append(s.culprits, e.count)
	}
	return s
}

// count counts the keys for as long as a culprit lasts, whatever it is answered.
func (e *etcdStage) count(ctx context.Context, _ *bench, size float64, mark func(int64)) error {
	mark(wideCulprit)
	c, err := dialEtcd(e.front.Load().address)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(float64(e.lasts)*size))
	defer cancel()
	for ctx.Err() == nil {
		if err := c.count(ctx, "bulk/"); err != nil {
			select { // as etcd's own client, which asks again after 25 ms
			case <-ctx.Done():
			case <-time.After(25 * ms):
			}
		}
	}
	return nil
}

// through sends the requests of a run to an address.
func (e *etcdStage) through(address string) (back func(), err error) {
	c, err := dialEtcd(address)
	if err != nil {
		return nil, err
	}
	was := e.front.Swap(c)
	return func() {
		e.front.Store(was)
		c.close()
	}, nil
}

// stockEtcd is c16 on the server that Debian has, behind the proxy.
func stockEtcd(quick bool) *scene { return stockEtcdOn(newEtcdStage(quick)) }

func stockEtcdOn(e *etcdStage) *scene {
	s := e.scene("c16", "a stock etcd, counted in a loop")
	s.start = func(ctx context.Context) (*bench, error) {
		server, err := servers.Etcd(ctx, servers.EtcdConfig{})
		if err != nil {
			return nil, err
		}
		e.direct = fmt.Sprintf("127.0.0.1:%d", server.Port)
		if err := e.fill(ctx, e.direct); err != nil {
			server.Stop()
			return nil, err
		}
		back, err := e.through(e.direct)
		return &bench{used: server.CPU, stop: func() {
			back()
			server.Stop()
		}}, err
	}
	wide := classify.Use{Kind: "wide range", Holds: "index", NoCancel: true}
	s.contenders = func() []contender {
		return []contender{
			{name: "no culprit", alone: true, run: e.proxied(culprit.Enforce, wide, 0, 0)},
			{name: "no culprit, no proxy", alone: true},
			{name: "no control"},
			{name: "hand-set limits", run: e.proxied(culprit.Off, classify.Use{AtOnce: 1}, 0, 0)},
			{name: "oldest first", run: e.proxied(culprit.Off, classify.Use{}, 2*etcdObjective, 0)},
			{name: "victims dropped", run: e.proxied(culprit.Off, classify.Use{}, 0, etcdObjective/2)},
			{name: "spillgate", run: e.proxied(culprit.Enforce, wide, 0, 0)},
		}
	}
	return s
}

// proxied returns a contender with Spillgate's proxy in front of etcd: what it is told of
// wide ranges, and the deadlines of these and of all else, 0 for none.
func (e *etcdStage) proxied(mode culprit.Mode, wide classify.Use, costly, others time.Duration) func(context.Context, *scene, *bench, func(int64, string)) (func(), error) {
	return func(ctx context.Context, s *scene, _ *bench, cancelled func(int64, string)) (func(), error) {
		last := work.MaxPriority
		p, err := proxy.New(proxy.Config{
			Objective: s.objective, Listen: []proxy.Listener{{Address: "127.0.0.1:0"}}, Upstreams: []proxy.Upstream{{Name: "etcd", URL: "h2c://" + e.direct}},
			Culprit: proxy.Culprit{Mode: mode}, Drain: proxy.Drain{Timeout: time.Second},
			Rules: []classify.Rule{
				{Match: classify.Match{EtcdRange: []string{"", "bulk/"}}, Set: classify.Set{Priority: &last, Deadline: costly, Use: wide}},
				{Match: classify.Match{Path: []string{"/etcdserverpb.KV/"}}, Set: classify.Set{Deadline: others, Use: classify.Use{Needs: "index"}}},
			}}, slog.New(&decisions{told: cancelled}))
		if err != nil {
			return nil, err
		}
		if err := p.Listen(); err != nil {
			return nil, err
		}
		front, _ := p.Addrs()
		var running sync.WaitGroup
		running.Go(func() { _ = p.Run(ctx) })
		back, err := e.through(front[0].String())
		return func() {
			running.Wait()
			back()
		}, err
	}
}

// decisions is a log's handler that picks what is decided about culprits.
type decisions struct{ told func(int64, string) }

// Enabled implements slog.Handler.
func (d *decisions) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (d *decisions) WithAttrs([]slog.Attr) slog.Handler { return d }

// WithGroup implements slog.Handler.
func (d *decisions) WithGroup(string) slog.Handler { return d }

// Handle implements slog.Handler.
func (d *decisions) Handle(_ context.Context, r slog.Record) error {
	said := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		said[a.Key] = a.Value.String()
		return true
	})
	named := said["state"] == culprit.Named.String() && said["why"] == culprit.Fixed.String()
	if r.Message == "culprit cancelled" || named {
		d.told(etcdCulprit(said["kind"]), r.Message)
	}
	return nil
}

// etcdCulprit says whose a kind is.
func etcdCulprit(kind string) int64 {
	if strings.HasPrefix(kind, keyrange.MethodRange+" of") || kind == "wide range" {
		return wideCulprit
	}
	return etcdOthers
}

// embeddedEtcd is c16 on the server of examples/etcd.
func embeddedEtcd(quick bool) *scene { return embeddedEtcdOn(newEtcdStage(quick)) }

func embeddedEtcdOn(e *etcdStage) *scene {
	s := e.scene("c16-embedded", "an embedded etcd, counted in a loop")
	s.nativeTitle = "etcd has none"
	var program string
	var plain, guarded atomic.Pointer[etcdProgram]
	s.start = func(ctx context.Context) (*bench, error) {
		built, remove, err := buildEtcd(ctx)
		if err != nil {
			return nil, err
		}
		program = built
		p, err := e.embedded(ctx, program, false, nil)
		if err != nil {
			remove()
			return nil, err
		}
		plain.Store(p)
		back, err := e.through(p.address)
		return &bench{used: func() time.Duration { return plain.Load().used() + guarded.Load().used() }, stop: func() {
			back()
			p.stop()
			remove()
		}}, err
	}
	gated := func(ctx context.Context, _ *scene, _ *bench, cancelled func(int64, string)) (func(), error) {
		// A new one each time: a gate remembers for a minute whose kind was a culprit's.
		p, err := e.embedded(ctx, program, true, cancelled)
		if err != nil {
			return nil, err
		}
		guarded.Store(p)
		back, err := e.through(p.address)
		return func() {
			back()
			p.stop()
			guarded.Store(nil)
		}, err
	}
	s.contenders = func() []contender {
		return []contender{{name: "no culprit", alone: true, run: gated}, {name: "no culprit, no gate", alone: true}, {name: "no control"}, {name: "spillgate", run: gated}}
	}
	return s
}

// buildEtcd builds the example. It looks for the sources upwards from here.
func buildEtcd(ctx context.Context) (program string, remove func(), err error) {
	root, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	source := filepath.Join("examples", "etcd")
	for ; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, source, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			return "", nil, fmt.Errorf("%w: the embedded etcd is built from %s, which is not above the working directory; run this in a checkout", servers.ErrMissing, source)
		}
	}
	dir, err := os.MkdirTemp("", "spillgate-etcd-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	program = filepath.Join(dir, "etcd")
	cmd := osexec.CommandContext(ctx, "go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join(root, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("%w: go build in %s: %w: %.400s", servers.ErrMissing, source, err, out)
	}
	return program, remove, nil
}

// etcdProgram is a process of the example.
type etcdProgram struct {
	address string
	cmd     *osexec.Cmd
	input   io.Closer
	read    sync.WaitGroup
}

// embedded starts the example, with a gate or without, and fills its etcd. cancelled, if
// not nil, is told what the gate cancels.
func (e *etcdStage) embedded(ctx context.Context, program string, control bool, cancelled func(int64, string)) (*etcdProgram, error) {
	p := &etcdProgram{cmd: osexec.CommandContext(ctx, program, "-serve", fmt.Sprintf("-control=%v", control), "-slo", etcdObjective.String())}
	input, errIn := p.cmd.StdinPipe() // which ends with this process, too
	output, errOut := p.cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	p.input, p.cmd.Stderr = input, os.Stderr
	p.cmd.Cancel, p.cmd.WaitDelay = input.Close, stopWithin
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(output)
	for p.address == "" && lines.Scan() {
		p.address, _ = strings.CutPrefix(lines.Text(), "etcd: ")
	}
	p.read.Go(func() {
		for lines.Scan() {
			line, ok := strings.CutPrefix(lines.Text(), "gate: cancelled statement: ")
			kind, named := strings.CutPrefix(lines.Text(), "gate: named none: ")
			switch {
			case cancelled == nil:
			case ok:
				cancelled(etcdCulprit(line), culprit.Statement.String())
			case named && etcdCulprit(kind) == wideCulprit: // and kept out, as none lasts long enough to be cancelled
				cancelled(wideCulprit, culprit.Named.String())
			}
		}
	})
	if err := e.fill(ctx, p.address); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// stopWithin is how long the example may take to end before it is killed.
const stopWithin = 5 * time.Second

func (p *etcdProgram) used() time.Duration {
	if p == nil {
		return 0
	}
	return servers.Used(p.cmd.Process.Pid)
}

func (p *etcdProgram) stop() {
	_ = p.input.Close()
	p.read.Wait()
	_ = p.cmd.Wait()
}
