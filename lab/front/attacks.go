package front

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spillgate/spillgate/internal/harness/machine"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/table"
	"github.com/spillgate/spillgate/lab/experiment"
)

// scene is an attack on a proxy.
type scene struct {
	name  string
	kind  string
	many  int    // connections
	files uint64 // that the proxy may open; 0: many
}

// control reports whether the scene is no attack but what one is compared with. It has no bar.
func (s scene) control() bool { return s.kind == "reader" }

// overTLS reports whether the proxy speaks TLS and nothing else.
func (s scene) overTLS() bool { return s.kind == "slow handshake" || s.kind == "handshakes" }

// scenes are what the front door must bear.
func scenes() []scene {
	return []scene{
		{"64 slow bodies of 10 kB", "slow body", 64, 0},
		{"64 slow bodies of 10 MiB", "slow long body", 64, 0},
		{"200 silent streams of HTTP/2", "silent stream", 4, 0},
		{"64 slow readers of 8 MiB", "slow reader", 64, 0},
		{"64 ordinary readers of 8 MiB", "reader", 64, 0}, // they ask at once, as slow ones do
		{"200 times slowloris", "slowloris", 200, 0},
		{"200 halves of a header", "half a header", 200, 0},
		{"20,000 idle connections", "idle connection", 20_000, 0},
		{"200 idle connections, 64 files", "idle connection", 200, 64},
		{"200 halves of a header, 64 files", "half a header", 200, 64},
	}
}

// strange are those that were found by asking what else a stranger may send.
func strange() []scene {
	return []scene{
		{"64 times chunk extensions", "chunk extensions", 64, 0},
		{"64 bodies in chunks of a byte", "small chunks", 64, 0},
		{"64 chunked bodies that stop, ten a second each", "chunked silence", 64, 0},
		{"64 bodies that are asked for in vain, ten a second each", "expect", 64, 0},
		{"16 times many trailers", "trailers", 16, 0},
		{"8 pipelines of 1,000 requests", "pipeline", 8, 0},
		{"16 clients that ask and leave, ten times a second", "leaves", 16, 0},
		{"16 clients that ask and close one direction", "half closed", 16, 0},
		{"64 times CONNECT and absolute targets", "connect", 64, 0},
		{"200 upgraded connections", "upgrade", 200, 0},
		{"64 times long targets and many fields", "long header", 64, 0},
		{"64 clients that invent names", "names", 64, 0},
		{"16 floods of SETTINGS", "settings", 16, 0},
		{"16 floods of PING", "pings", 16, 0},
		{"16 floods of WINDOW_UPDATE", "windows", 16, 0},
		{"16 floods of PRIORITY", "priorities", 16, 0},
		{"16 floods of empty DATA", "empty data", 16, 0},
		{"16 floods of headers that unpack to 1 MB", "header bomb", 16, 0},
		{"64 headers of HTTP/2 that never end", "slow header", 64, 0},
		{"64 times the last stream", "last stream", 64, 0},
		{"200 streams that take no answer, a second each", "no window", 4, 0},
		{"200 bodies of a byte, a second each", "one byte", 4, 0},
		{"16 times rapid reset", "rapid reset", 16, 0},
		{"16 floods of unknown frames", "unknown kind", 16, 0},
		{"16 chunk extensions of 1 MB, ten a second each", "long extension", 16, 0},
		{"16 trailers of 1 MB, ten a second each", "long trailers", 16, 0},
		{"4 pipelines of requests with bodies", "bodied pipeline", 4, 0},
		{"64 requests in place of the body asked for", "expect and send", 64, 0},
		{"64 WebSockets that ping without end", "talks", 64, 0},
		{"64 upgrades that the server refuses", "half upgrade", 64, 0},
		{"8 times 200 connections a second", "churn", 8, 0},
		{"64 handshakes of TLS where there is none", "not TLS", 64, 0},
		{"64 clients that forge their tags", "forged", 64, 0},
		{"16 floods of table sizes", "table sizes", 16, 0},
		{"16 floods of windows that open and close", "flips window", 16, 0},
		{"16 answers of 8 MiB by windows of a byte", "tiny windows", 16, 0},
		{"2,000 halves of bodies at once", "half bodies", 8, 0},
		{"16 floods of trailers of HTTP/2", "HTTP/2 trailers", 16, 0},
		{"16 floods of gRPC lengths that lie", "gRPC length", 16, 0},
		{"16 floods of gRPC bombs", "gRPC bomb", 16, 0},
		{"16 floods of gRPC deadlines", "gRPC deadlines", 16, 0},
		{"200 slow handshakes of TLS", "slow handshake", 200, 0},
		{"4 times 50 handshakes of TLS a second", "handshakes", 4, 0},
	}
}

// perAttacker is the most connections of one process that attacks.
const perAttacker = 5000

const (
	objective = 100 * time.Millisecond
	perSecond = 400 // normal requests: half of what the server can do
	// maxStolen is what share of a processor the host may take, and maxOthers what other
	// processes may use, of a run that is not disturbed.
	maxStolen, maxOthers = 0.2, 0.5
)

func attacks() experiment.Experiment {
	return experiment.Experiment{
		Name:  "front/attacks",
		Title: "normal requests through the proxy beside slow, silent and hostile clients",
		About: `A server with eight workers of 10 ms each stands behind the proxy, which has eight slots and an objective of 100 ms.
Normal clients ask for half of what it can do: first alone, then, on the same proxy, beside an attack that goes on. A slow
client sends or reads a byte every 100 ms. The slow readers ask for their answers at once, which is 80 ms of the server's work;
as many ordinary readers show what that alone costs. The bars are on what of the normal requests beside an attack was not served, and
on their p99 by that of the time before. Medians of the repeats.`,
		Live: true, Run: scenesOf(scenes),
	}
}

func hostile() experiment.Experiment {
	return experiment.Experiment{
		Name:  "front/hostile",
		Title: "normal requests through the proxy beside half requests, floods of frames and answers that nobody takes",
		About: `As front/attacks, with attacks that need less of their clients: each connection sends a burst every 100 ms, of what HTTP/1 or
HTTP/2 allows and no ordinary client sends, or of gRPC, WebSocket, TLS and Spillgate's tags, and begins anew when the proxy closes it. The attackers do not ask for
more than the server can do beside the normal requests, but for those that pipeline.`,
		Live: true, Run: scenesOf(strange),
	}
}

// scenesOf returns what plays scenes.
func scenesOf(all func() []scene) func(context.Context, experiment.Options) (*experiment.Result, error) {
	return func(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
		p := play{scenes: all(), objective: objective, perSecond: perSecond, pause: 100 * time.Millisecond, before: 4 * time.Second, beside: 8 * time.Second, repeats: 3}
		if o.Quick {
			p.before, p.beside, p.repeats = 2*time.Second, 3*time.Second, 1
		}
		return p.run(ctx, o)
	}
}

// play is how scenes are played.
type play struct {
	scenes                           []scene
	objective, pause, before, beside time.Duration
	perSecond, repeats               int
}

// outcome is one scene, played once.
type outcome struct {
	alone, beside *seen
	cpu, memory   float64 // of the proxy beside the attack: share of a processor, MB at its end
	disturbed     []string
}

func (p play) run(ctx context.Context, o experiment.Options) (*experiment.Result, error) {
	r := &experiment.Result{Quick: o.Quick}
	t := &table.Table{Title: "Normal requests", Columns: []table.Column{{Name: "beside"}, {Name: "not served before", Unit: "%", Format: "%.2f"},
		{Name: "not served", Unit: "%", Format: "%.2f"}, {Name: "p99 before", Unit: "ms", Format: "%.1f"}, {Name: "p99", Unit: "ms", Format: "%.1f"}, {Name: "ratio", Format: "%.2f"},
		{Name: "proxy's processor", Format: "%.2f"}, {Name: "memory", Unit: "MB", Format: "%.0f"}}}
	all := p.scenes
	for i, s := range all {
		var bad, badBefore, alone, beside, ratio, cpu, memory []float64
		var disturbed []string
		for n := range p.repeats {
			o.Step(i*p.repeats+n, len(all)*p.repeats, s.name)
			out, err := p.scene(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			before, after := out.alone.p99().Seconds()*1e3, out.beside.p99().Seconds()*1e3
			bad, badBefore = append(bad, 100*out.beside.bad()), append(badBefore, 100*out.alone.bad())
			alone, beside, ratio = append(alone, before), append(beside, after), append(ratio, after/before)
			cpu, memory = append(cpu, out.cpu), append(memory, out.memory)
			disturbed = append(disturbed, out.disturbed...)
		}
		t.Add(s.name, median(badBefore), median(bad), median(alone), median(beside), median(ratio), median(cpu), median(memory))
		if s.control() {
			continue
		}
		r.On(experiment.Machine{Ours: disturbed}, func() {
			r.Ceiling("normal requests not served beside "+s.name, " %", 0.5, 0.5, median(bad))
			r.Ceiling("their p99 by that without, beside "+s.name, "", 1.5, 0.5, median(ratio))
		})
	}
	r.Table = append(r.Table, t)
	return r, nil
}

// scene plays one scene once.
func (p play) scene(ctx context.Context, s scene) (*outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	back := &http.Server{Handler: server()}
	go func() { _ = back.Serve(l) }()
	defer back.Close()

	front, scheme, err := p.front(ctx, s, l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer front.Stop(0)
	children := []*proc.Child{front}
	used := func() time.Duration {
		all := machine.Own()
		for _, c := range children {
			all += machine.Used(c.Pid())
		}
		return all
	}

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: patience}
	defer client.CloseIdleConnections()
	url := scheme + "://" + front.Addr() + "/work"
	ask(ctx, client, url, p.perSecond, p.before/4) // connections are made
	out := &outcome{}
	out.alone = p.watched(out, used, "before the attack", func() *seen { return ask(ctx, client, url, p.perSecond, p.before) })
	for left := s.many; left > 0; left -= perAttacker {
		a := &Attack{Kind: s.kind, Target: front.Addr(), Connections: min(left, perAttacker), Pause: p.pause}
		attacker, err := role.Start(ctx, order{Attack: a}, proc.Spec{Name: "attacker", ReadyTimeout: patience})
		if err != nil {
			return nil, err
		}
		defer attacker.Stop(0)
		children = append(children, attacker)
	}
	began := machine.Used(front.Pid())
	out.beside = p.watched(out, used, "beside the attack", func() *seen { return ask(ctx, client, url, p.perSecond, p.beside) })
	out.cpu = (machine.Used(front.Pid()) - began).Seconds() / p.beside.Seconds()
	bytes, err := machine.Resident(front.Pid())
	select {
	case <-ctx.Done(): // which ends the proxy as well
		return nil, ctx.Err()
	default:
	}
	select {
	case <-front.Exited():
		return nil, fmt.Errorf("the proxy ended beside the attack: %w", cmp.Or(front.Wait(), errEnded))
	default:
	}
	if err != nil {
		return nil, err
	}
	out.memory = bytes / 1e6
	return out, ctx.Err()
}

// errEnded is the error of a proxy that ended as if it had been told to.
var errEnded = errors.New("it said that all was well")

// front starts the proxy of a scene, which lasts as long as ctx, and says by which scheme it is asked.
func (p play) front(ctx context.Context, s scene, upstream string) (front *proc.Child, scheme string, err error) {
	its := &proxyOrder{Upstream: upstream, Objective: p.objective, Slots: workers, Files: s.files}
	scheme = "http"
	if s.overTLS() {
		scheme = "https"
		dir, err := os.MkdirTemp("", "spillgate-front-")
		if err != nil {
			return nil, "", err
		}
		context.AfterFunc(ctx, func() { _ = os.RemoveAll(dir) }) // the proxy reads them again and again
		if its.Cert, its.Key, err = certificate(dir); err != nil {
			return nil, "", err
		}
	}
	front, err = role.Start(ctx, order{Proxy: its}, proc.Spec{Name: "proxy", CPUs: []int{0}})
	return front, scheme, err
}

// patience is how long a normal client waits for its answer.
const patience = 10 * time.Second

// watched notes what the machine did while f ran.
func (p play) watched(out *outcome, used func() time.Duration, when string, f func() *seen) (s *seen) {
	_ = p.watch(out, used, when, func() error {
		s = f()
		return nil
	})
	return s
}

// watch is watched for what may fail.
func (p play) watch(out *outcome, used func() time.Duration, when string, f func() error) error {
	var all []int
	for i := range runtime.NumCPU() {
		all = append(all, i)
	}
	stolen, others := machine.WatchStolen(), machine.WatchOthers(all, used)
	err := f()
	if share := stolen(); share > maxStolen {
		out.disturbed = append(out.disturbed, fmt.Sprintf("the host took %.0f %% of a processor %s", 100*share, when))
	}
	if share := others(); share > maxOthers {
		out.disturbed = append(out.disturbed, fmt.Sprintf("other processes used %.0f %% of a processor %s", 100*share, when))
	}
	return err
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
