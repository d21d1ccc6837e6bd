package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/plot"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

const aWorld = `
objective: 100ms
warmup: 1s
length: 3s
services: {name: api, workers: 8, steps: {wait: 10ms}}
clients:
- {name: web, ask: api, load: 400/s}
- {name: batch, ask: api, load: 100/s, deadline: never}
faults: {at: 1s, for: 500ms, every: 1s, service: api, slower: 10}
`

// fake reports what depends on policy and seed, and plays nothing.
func fake(_ context.Context, w *world.World, policy string, seed uint64) (*world.Report, error) {
	r := &world.Report{World: w.Name, Policy: policy, Seed: seed, Measured: w.Length - w.Warmup, Bin: time.Second}
	good := 600 + 20*int(seed)
	if policy == "none" {
		good = 10
	}
	for i, g := range w.Clients {
		c := world.Counts{Offered: 800, Good: good / (i + 1), Late: 700 - good, Refused: 100, Attempts: 900}
		report := world.GroupReport{Name: g.Name, Counts: c, P50: 12 * time.Millisecond, P99: time.Duration(90-seed) * time.Millisecond, Max: time.Second, Told: time.Duration(seed) * time.Millisecond}
		report.Reasons[work.Delay], report.Reasons[work.WalletExpired] = 20, 80
		if policy == "none" {
			report.P99, report.Reasons, report.Told = 3*time.Second, [work.NumReasons]int{}, 0
		}
		r.Groups = append(r.Groups, report)
	}
	for k := range 3 {
		r.Bins = append(r.Bins, world.Counts{Offered: 500, Good: good * (k + 1) / 4})
	}
	s := world.ServiceReport{Name: "api", Begun: 1000, Finished: 990, Wasted: 50, Refused: 20, Busy: 8 * time.Second}
	if policy != "none" {
		s.Limits = []int{4, 8, 8 + int(seed)}
	}
	r.Services = append(r.Services, s)
	return r, nil
}

// call runs the command and returns what it prints.
func call(t *testing.T, s stages, text string, args ...string) (out, progress string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newWorld(s)
	var stdout, stderr bytes.Buffer
	cmd.SetArgs(append(args, path))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	clean := func(s string) string { return strings.ReplaceAll(s, filepath.Dir(path)+"/", "") }
	if err != nil {
		err = errors.New(clean(err.Error()))
	}
	return clean(stdout.String()), clean(stderr.String()), err
}

var forms = []string{"spillgate", "semaphore:N", "semaphore:N:Q", "none"}

var fakes = stages{simulated: stage{fake, forms}}

func TestWorldPrints(t *testing.T) {
	out, progress, err := call(t, fakes, aWorld, "--policy", "spillgate,none", "--seeds", "2", "--seed", "3")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/world.txt")
	if err != nil {
		t.Fatal(err)
	}
	out = regexp.MustCompile(`took .*`).ReplaceAllString(out, "took …")
	if out != string(want) {
		t.Errorf("printed\n%s\nwant\n%s", out, want)
	}
	if !strings.Contains(progress, "shop: 4 of 4") {
		t.Errorf("progress: %q", progress)
	}
}

func TestWorldJSON(t *testing.T) {
	out, _, err := call(t, fakes, aWorld, "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got jsonWorld
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if len(got.Runs) != 2 || got.Runs[0].Policy != "spillgate" || got.Runs[1].Policy != "none" {
		t.Fatalf("runs: %+v", got.Runs)
	}
	g := got.Runs[0].Groups[0]
	if g.Name != "web" || g.Good != 620 || g.P50Seconds != 0.012 || len(g.Reasons) != 2 || g.Reasons["wallet_expired"] != 80 || got.Runs[0].Services[0].BusySeconds != 8 {
		t.Errorf("read %+v", got.Runs[0])
	}
	if !strings.Contains(out, `"offered": 800`) {
		t.Errorf("counts are not part of their group:\n%s", out)
	}
}

func TestWorldReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	_, progress, err := call(t, fakes, aWorld, "--out", dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Goodput over time", "Limit of api", "What clients got", "wallet_expired"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if !strings.Contains(progress, "index.html") {
		t.Errorf("the page is not named: %q", progress)
	}
}

func TestWorldMistakes(t *testing.T) {
	broken := func(context.Context, *world.World, string, uint64) (*world.Report, error) {
		return nil, errors.New("out of luck")
	}
	for _, c := range []struct {
		what  string
		s     stages
		text  string
		args  []string
		wants []string
	}{
		{"flags", fakes, aWorld, []string{"--seeds", "0", "--policy", "spilgate,none,none", "another"},
			[]string{`2 files given, expected one`, `--seeds is 0, expected 1 to 1000`, `--policy "spilgate" is unknown; did you mean spillgate?`, `--policy "none" comes twice`}},
		{"no policy", fakes, aWorld, []string{"--policy", ""}, []string{"--policy names none"}},
		{"a policy that is not live", stages{live: stage{policies: forms[:1]}}, aWorld, []string{"--live", "--policy", "none"}, []string{`--policy "none", expected one of: spillgate`}},
		{"numbers that are missing", fakes, aWorld, []string{"--policy", "semaphore,semaphore:x,semaphore:1:2:3,none:1"},
			[]string{`"semaphore"`, `"semaphore:x"`, `"semaphore:1:2:3"`, `"none:1"`}},
		{"a file with mistakes", fakes, "objective: fast\nlength: 1s\n", []string{"--check"},
			[]string{"shop.yaml:1:12: objective: \"fast\"", "shop.yaml:1:1: services: missing", "shop.yaml:1:1: clients: missing"}},
		{"a run that fails", stages{simulated: stage{broken, forms}}, aWorld, nil, []string{"seed 1: out of luck"}},
		{"a live run that fails", stages{live: stage{broken, forms}}, aWorld, []string{"--live"}, []string{"spillgate, seed 1: out of luck"}},
	} {
		out, _, err := call(t, c.s, c.text, c.args...)
		if err == nil || out != "" {
			t.Errorf("%s: error %v, printed %q", c.what, err, out)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s:\n%v\nwant also %s", c.what, err, want)
			}
		}
	}
}

func TestWorldChecksAlone(t *testing.T) {
	out, _, err := call(t, stages{simulated: stage{policies: forms}}, aWorld, "--check") // nothing could play it
	if want := "shop.yaml: ok: objective 100ms, 3s long with 1s of warm-up, 1 service, 2 groups of clients, 1 fault\n" +
		"capacity for what each group asks, by itself: web 800/s, batch 800/s\n"; err != nil || out != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// Real processes play one world at a time, in the order of the policies.
func TestWorldLive(t *testing.T) {
	var played []string
	live := func(ctx context.Context, w *world.World, policy string, seed uint64) (*world.Report, error) {
		played = append(played, policy)
		r, err := fake(ctx, w, policy, seed)
		r.Void = "processors were taken away"
		return r, err
	}
	out, _, err := call(t, stages{live: stage{live, forms}}, aWorld, "--live", "--policy", "none,semaphore:8:16")
	if err != nil || strings.Join(played, " ") != "none semaphore:8:16" {
		t.Errorf("%v, played %v", err, played)
	}
	if !strings.Contains(out, "void: semaphore:8:16, seed 1: processors were taken away\n") {
		t.Errorf("the void is not said:\n%s", out)
	}
}

func TestPolicyForms(t *testing.T) {
	for _, c := range []struct {
		policy, form string
		want         bool
	}{
		{"none", "none", true}, {"none", "nones", false}, {"none:1", "none", false},
		{"semaphore:8", "semaphore:N", true}, {"semaphore:8:16", "semaphore:N", false}, {"semaphore:-8", "semaphore:N", false}, {"semaphore:", "semaphore:N", false},
		{"semaphore:2x:4x", "semaphore:Nx:Qx", true}, {"semaphore:2:4x", "semaphore:Nx:Qx", false}, {"semaphore:2x:4", "semaphore:Nx:Qx", false}, {"semaphore:x:x", "semaphore:Nx:Qx", false},
		{"semaphore:2x", "semaphore:N", false}, {"codex", "codel", false},
		{"semaphore:8/http", "semaphore:N/http", true}, {"semaphore:8/grpc", "semaphore:N/http", false}, {"semaphore:8", "semaphore:N/http", false},
		{"spillgate/http", "spillgate", false}, {"", "none", false},
	} {
		if got := hasForm(c.policy, c.form); got != c.want {
			t.Errorf("%q written as %q: %v, want %v", c.policy, c.form, got, c.want)
		}
	}
}

func TestFaultsOverTime(t *testing.T) {
	w := &world.World{Length: 10 * time.Second, Faults: []world.Fault{
		{At: time.Second, For: 2 * time.Second, Every: 4 * time.Second, Service: "a", Slower: 10},
		{At: 8 * time.Second, For: 5 * time.Second, Service: "b", Kill: true},
		{At: 0, For: time.Millisecond, Every: time.Millisecond, Service: "c", Stop: true},
	}}
	spans := faultSpans(w)
	want := []plot.Span{{Name: "a 10x slower", From: 1, To: 3}, {From: 5, To: 7}, {From: 9, To: 10}, {Name: "b killed", From: 8, To: 10}, {Name: "c stopped", From: 0, To: 0.001}}
	if len(spans) != 3+1+maxSpans || !slices.Equal(spans[:5], want) {
		t.Errorf("%d spans: %v, want %v and more", len(spans), spans[:min(5, len(spans))], want)
	}
}

func TestSqueeze(t *testing.T) {
	for n := range 200 {
		values := make([]float64, n)
		sum := 0.0
		for i := range values {
			values[i] = 7
		}
		out := squeeze(values, 60)
		for _, v := range out {
			sum += v
		}
		if len(out) > 60 || n > 0 && len(out) == 0 || sum != 7*float64(len(out)) {
			t.Fatalf("%d values became %v", n, out)
		}
	}
	if got := squeeze([]float64{1, 3, 5}, 2); !slices.Equal(got, []float64{2, 5}) {
		t.Errorf("squeezed to %v, want [2 5]", got)
	}
}

// The command simulates: at twice its load a service with Spillgate answers in time,
// and one without does not.
func TestWorldForReal(t *testing.T) {
	cmd := Command()
	var out bytes.Buffer
	cmd.SetArgs([]string{"world", "../examples/worlds/double.yaml", "--json"})
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got jsonWorld
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	with, without := got.Runs[0].Groups[0], got.Runs[1].Groups[0]
	if got.Runs[0].Policy != "spillgate" || with.Offered != without.Offered || with.Good < 2*without.Good || len(got.Runs[0].Bins) == 0 {
		t.Errorf("with a gate %+v, without %+v", with, without)
	}
}

// The world in the help is one that can be played, and its load is what the help says.
func TestFirstWorld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "first.yaml")
	if err := os.WriteFile(path, []byte(firstWorld), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := Command()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"world", path, "--check"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ": ok:") {
		t.Errorf("the help's world: %s", &out)
	}
}
