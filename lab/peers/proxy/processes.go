package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/spillgate/spillgate/internal/harness/measure"
	"github.com/spillgate/spillgate/internal/harness/openloop"
	"github.com/spillgate/spillgate/internal/harness/proc"
	"github.com/spillgate/spillgate/internal/harness/service"
)

//go:embed envoy.yaml.tmpl
var envoyConfig string

const (
	roleVariable = "SPILLGATE_PROXY_LAB"
	answerPrefix = "answer "
)

// order is what a child is to do.
type order struct {
	Role   string // "upstream" or "load"
	URL    string
	Load   float64
	Length time.Duration
	Seed   uint64
}

// contender is one way to the upstream.
type contender struct {
	name          string
	envoy, filter string
	spillgate     string
}

// one makes one run of a proxy in front of a fresh upstream.
func one(ctx context.Context, p contender, load float64, length time.Duration, seed uint64) (measured, error) {
	ctx, cancel := context.WithTimeout(ctx, length+60*time.Second)
	defer cancel()
	cpus, err := proc.CPUs()
	if err != nil {
		return measured{}, err
	}
	upstream, err := start(ctx, order{Role: "upstream", Seed: seed}, proc.Spec{Name: "upstream", CPUs: cpus[:1], GOGC: "400"})
	if err != nil {
		return measured{}, err
	}
	defer upstream.Stop(time.Second)
	front, stop, err := p.start(ctx, upstream.Addr(), cpus[:1])
	if err != nil {
		return measured{}, err
	}
	defer stop()
	var output bytes.Buffer
	generator, err := start(ctx, order{Role: "load", URL: "http://" + front + "/", Load: load, Length: length, Seed: seed},
		proc.Spec{Name: "generator", CPUs: cpus[len(cpus)-1:], GOGC: "off", Env: []string{"GOMEMLIMIT=1GiB"}, Nice: -10, ReadyTimeout: -1, Output: &output})
	if err != nil {
		return measured{}, err
	}
	if err := generator.Wait(); err != nil {
		return measured{}, err
	}
	return parseAnswer(output.String())
}

func start(ctx context.Context, o order, spec proc.Spec) (*proc.Child, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	spec.Env = append(spec.Env, roleVariable+"="+string(text))
	spec.GOMAXPROCS = 1
	return proc.Start(ctx, spec)
}

// start starts the proxy, if there is one, and returns where to send requests.
func (p contender) start(ctx context.Context, upstream string, cpus []int) (addr string, stop func(), err error) {
	switch {
	case p.envoy != "":
		return p.startEnvoy(ctx, upstream, cpus)
	case p.spillgate != "":
		return p.startSpillgate(ctx, upstream, cpus)
	}
	return upstream, func() {}, nil
}

func (p contender) startSpillgate(ctx context.Context, upstream string, cpus []int) (string, func(), error) {
	addr, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	child, err := proc.Start(ctx, proc.Spec{Name: "spillgate proxy", Path: p.spillgate, CPUs: cpus, GOGC: "400", ReadyTimeout: -1,
		Args: []string{"proxy", "--listen", addr, "--upstream", "http://" + upstream, "--slo", objective.String()}})
	if err != nil {
		return "", nil, err
	}
	return addr, func() { child.Stop(2 * time.Second) }, await(ctx, child, addr)
}

func (p contender) startEnvoy(ctx context.Context, upstream string, cpus []int) (string, func(), error) {
	dir, err := os.MkdirTemp("", "envoy")
	if err != nil {
		return "", nil, err
	}
	clean := func() { _ = os.RemoveAll(dir) }
	host, port, err := net.SplitHostPort(upstream)
	if err != nil {
		clean()
		return "", nil, err
	}
	var config bytes.Buffer
	err = template.Must(template.New("").Parse(envoyConfig)).Execute(&config, map[string]any{
		"Filter": p.filter, "Host": host, "Port": port, "Timeout": objective.Seconds()})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "envoy.yaml"), config.Bytes(), 0o600)
	}
	if err != nil {
		clean()
		return "", nil, err
	}
	admin := filepath.Join(dir, "admin")
	child, err := proc.Start(ctx, proc.Spec{Name: "envoy", Path: p.envoy, CPUs: cpus, ReadyTimeout: -1,
		Args: []string{"-c", filepath.Join(dir, "envoy.yaml"), "--concurrency", "1", "--log-level", "warning",
			"--disable-hot-restart", "--admin-address-path", admin}})
	if err != nil {
		clean()
		return "", nil, err
	}
	stop := func() {
		child.Stop(2 * time.Second)
		clean()
	}
	addr, err := envoyListener(ctx, child, admin)
	if err != nil {
		stop()
		return "", nil, err
	}
	return addr, stop, await(ctx, child, addr)
}

// envoyListener asks Envoy's administration for the port it listens on.
func envoyListener(ctx context.Context, child *proc.Child, adminFile string) (string, error) {
	var last error
	for range 200 {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-child.Exited():
			return "", fmt.Errorf("envoy ended: %s", child.Output())
		case <-time.After(50 * time.Millisecond):
		}
		admin, err := os.ReadFile(adminFile)
		if err != nil {
			last = err
			continue
		}
		text, err := get(ctx, "http://"+strings.TrimSpace(string(admin))+"/listeners")
		if _, addr, ok := strings.Cut(strings.TrimSpace(text), "front::"); ok {
			return addr, nil
		}
		last = fmt.Errorf("listeners: %q, %w", text, err)
	}
	return "", fmt.Errorf("envoy did not say where it listens: %w", last)
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

// await waits until a request gets any answer.
func await(ctx context.Context, child *proc.Child, addr string) error {
	var last error
	for range 200 {
		if _, last = get(ctx, "http://"+addr+"/"); last == nil {
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
	return fmt.Errorf("no answer at %s: %w", addr, last)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// child does a child's work and ends the process, if this is one.
func child() {
	text, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	proc.ExitWithParent()
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil && o.Role == "upstream" {
		err = serve(o)
	} else if err == nil {
		err = generate(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve is the upstream: like most, it does not know when its caller gave up.
func serve(o order) error {
	station, err := service.New(service.Config{Workers: slots, Mean: mean, Seed: o.Seed})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := station.Do(context.WithoutCancel(r.Context())); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
}

func generate(o order) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, MaxIdleConns: 2000}}
	send := func(ctx context.Context, _ int, intended time.Time) measure.Outcome {
		ctx, cancel := context.WithDeadline(ctx, intended.Add(objective))
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, nil)
		if err != nil {
			return measure.Outcome{Kind: measure.Failed, Reason: "request"}
		}
		resp, err := client.Do(req)
		if err != nil {
			if ctx.Err() != nil {
				return measure.Outcome{Kind: measure.TimedOut}
			}
			return measure.Outcome{Kind: measure.Failed, Reason: "transport"}
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			return measure.Outcome{Kind: measure.TimedOut}
		case resp.StatusCode == http.StatusOK:
			return measure.Outcome{Kind: measure.Served}
		}
		return measure.Outcome{Kind: measure.Refused, Reason: resp.Status}
	}
	arrivals, err := openloop.Poisson(openloop.Steady(o.Load*rate, o.Length), o.Seed)
	if err != nil {
		return err
	}
	g, err := openloop.New(openloop.Config{Arrivals: arrivals, Send: send, SLO: objective, Drain: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	res, err := g.Run(context.Background())
	if err != nil {
		return err
	}
	good, from := 0.0, o.Length/4
	for _, w := range res.Windows {
		if w.From >= from && w.To <= o.Length {
			good += float64(w.Good)
		}
	}
	line, err := json.Marshal(measured{
		Share: good / (o.Length - from).Seconds() / rate,
		P99:   res.Total.Latency.P99, Refused: res.Total.Refusal.P50, Lag: res.SendLag.P99, Valid: res.Valid,
	})
	if err != nil {
		return err
	}
	fmt.Println(answerPrefix + string(line))
	return nil
}
