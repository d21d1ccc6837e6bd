package chains

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/needs"
	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
	"github.com/spillgate/spillgate/lab/bed"
	"github.com/spillgate/spillgate/lab/experiment"
)

// The test binary is also the program of the children.
func TestMain(m *testing.M) {
	bed.Child(Peers()...)
	leaks.Verify(m)
}

// drive plays a light load, which a busy machine keeps up with, and checks that all was answered
// and every visit seen where an order is kept.
func drive(t *testing.T, s setting, policy string) *bed.Played {
	t.Helper()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("starts pinned processes")
	}
	p, err := bed.Play(t.Context(), s.world("light", 0, 1500*ms, steadily(40), steadily(160)), policy, 1, Peers()...)
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine a gate may find that a server is short, and then it is.
	visits, refused, gated := 0, 0, strings.HasSuffix(policy, "/proxy")
	for i, g := range p.Report.Groups {
		refused += g.Offered - g.Good
		if g.Offered == 0 || g.Good < g.Offered/2 || g.Good < g.Offered && !gated {
			t.Errorf("%s: %+v, expected all in time; refused by reason: %v", g.Name, g.Counts, g.Reasons)
		}
		visits += g.Offered * []int{servers, 1}[i]
	}
	l := p.Law()
	least := visits - servers*refused
	if plain := strings.Contains(policy, "plain"); !plain && (l.Arrived < least || l.Arrived > visits || l.Finished != l.Arrived) {
		t.Errorf("%d arrived, %d finished, expected %d to %d visits", l.Arrived, l.Finished, least, visits)
	}
	return p
}

// Each order serves all, and says how long all wait beside order of arrival: as long in that
// order, longer where workers are idle with work at hand.
func TestOrders(t *testing.T) {
	static, _ := static(lawPart)
	for _, order := range []string{"fifo", "weight 0.9", "lottery 0.9", "priority", static, "share"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel() // each of them mostly waits
			p := drive(t, setting{workers: 1, mean: 2 * ms, answer: world.Size{Least: 1000, Most: 2000}}, inGo(order))
			l := p.Law()
			distance, ok := l.Distance()
			// A busy machine stretches it, least in the order of arrival: two that come at the same moment may begin the other way round.
			t.Logf("%v from the law", distance)
			if !ok || order == "fifo" && math.Abs(distance) > 0.1 || order == static && distance < 0.2 {
				t.Errorf("%v from the law, %v", distance, ok)
			}
			if fifo := l.Class[work.Interactive]; order == "fifo" && (fifo.Waited-fifo.FIFO).Abs() > fifo.FIFO/5 {
				t.Errorf("in order of arrival chains waited %v, in the replay %v", fifo.Waited, fifo.FIFO)
			}
			last := p.Looks[len(p.Looks)-1]
			if moved := last.Weight != 0 && last.Weight != p.Looks[0].Weight; moved != (order == "share") {
				t.Errorf("the weight is %v in the end", last.Weight)
			}
		})
	}
}

// The proxies in front of Go services, which are silent about classes, see for themselves who
// goes on.
func TestProxies(t *testing.T) {
	for _, order := range []string{"plain", "fifo", "share"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel() // each of them mostly waits
			learned(t, order, drive(t, setting{workers: 2, mean: 5 * ms, answer: oneKB, silent: true}, "Go, "+order+"/proxy"))
		})
	}
}

func learned(t *testing.T, order string, p *bed.Played) {
	t.Helper()
	seen := 0
	for _, l := range p.Looks {
		if l.Class["interactive"] > 0 {
			seen++
		}
	}
	if (seen > 0) != (order == "share") {
		t.Errorf("%d looks of interactive requests", seen)
	}
}

// The same in front of unmodified Tomcats.
func TestTomcats(t *testing.T) {
	if os.Getenv("CATALINA_HOME") == "" {
		needs.Dir(t, "/usr/share/tomcat10")
	}
	needs.Program(t, "java")
	needs.Program(t, "javac")
	learned(t, "share", drive(t, setting{workers: 2, mean: 5 * ms, answer: world.Size{Least: 1000, Most: 2000}, silent: true}, "Tomcat, share/proxy"))
}

func TestTomcatIsMissing(t *testing.T) {
	t.Setenv("CATALINA_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := bed.Play(t.Context(), tomcats.mixed(0, time.Second), "Tomcat, plain/proxy", 1, Peers()...)
	if !errors.Is(err, ErrNoTomcat) {
		t.Fatalf("error %v, expected that something is not installed", err)
	}
	for _, want := range []string{"Tomcat 10 in ", "java: ", "javac: ", "scripts/deps.sh"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// played is a run of windows of a second, in which so many of each group were answered in its
// time, or gave up.
func played(length int, law bed.Law, group func(second, group int) (n, gaveUp int, took time.Duration)) *bed.Played {
	p := &bed.Played{Report: &world.Report{Bin: time.Second, Bins: make([]world.Counts, length), Measured: time.Duration(length) * time.Second},
		Requests: make([][]bed.Request, 2), Looks: []bed.Look{{Law: &law}}}
	for second := range length {
		for i := range p.Requests {
			n, gaveUp, took := group(second, i)
			at := time.Duration(second) * time.Second
			for range n {
				p.Requests[i] = append(p.Requests[i], bed.Request{At: at, Took: took, How: bed.Good})
			}
			for range gaveUp {
				p.Requests[i] = append(p.Requests[i], bed.Request{At: at, Took: took, How: bed.Expired})
			}
		}
	}
	return p
}

func waits(chains, singles bed.Waits) bed.Law {
	return bed.Law{Arrived: 5, Finished: 5, Class: [work.NumClasses]bed.Waits{work.Interactive: chains, work.Default: singles}}
}

func bars(t *testing.T, r *experiment.Result, want map[string]float64) {
	t.Helper()
	for _, b := range r.Bars {
		if w, ok := want[b.Name]; !ok || math.Abs(b.Measured-w) > 1e-6 {
			t.Errorf("%s: %v, want %v", b.Name, b.Measured, w)
		}
		delete(want, b.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestDynamicReport(t *testing.T) {
	f := dynamicForm{mean: steady, begins: 15, ends: 55, stops: 70}
	// Of 400 singles while there are chains, each waited 4 ms more than in one queue.
	l := waits(bed.Waits{FIFO: 10 * time.Second}, bed.Waits{Waited: 1600 * ms})
	l.Class[work.Default].FIFO, l.Class[work.Interactive].Waited = 0, 8400*ms
	one := func(chainsTook, singlesTook time.Duration, weights ...float64) []*bed.Played {
		p := played(f.stops, l, func(second, group int) (int, int, time.Duration) {
			if there := second >= f.begins && second < f.ends; group == chains && !there {
				return 0, 0, 0
			}
			return 10, 0, []time.Duration{chainsTook, singlesTook}[group]
		})
		p.Looks = nil
		for range servers {
			for i := range f.stops {
				weight := 0.5
				if k := i + 1 - f.begins; k >= 0 && len(weights) > 0 {
					weight = weights[min(k, len(weights)-1)]
				}
				p.Looks = append(p.Looks, bed.Look{At: time.Duration(i+1) * time.Second, Weight: weight})
			}
		}
		p.Looks[len(p.Looks)-1].Law = &l
		return []*bed.Played{p}
	}
	r := &experiment.Result{}
	f.report(r, []string{"fifo", "static", "share"}, [][]*bed.Played{one(200*ms, 50*ms), one(250*ms, 250*ms), one(150*ms, 60*ms, 0.55, 0.9, 0.67, 0.6)})
	bars(t, r, map[string]float64{
		"settled after chains began": 2, "overshoot": 50, "chains gain, 10 s later on": 25,
		"singles lose while there are chains": 100 * 4. / 56, "singles beyond the law's least": 0,
		"the better-off class": 60. / 61.6, "singles 10 s after the chains' end": 1.2, "static shares, the better-off class, 10 s later on": 1.25,
	})
	if len(r.Chart) != 3 || len(r.Table) != 1 {
		t.Errorf("%d charts, %d tables", len(r.Chart), len(r.Table))
	}
	// Half as long service times make everything half as long; latencies are shown as if not.
	half := dynamicForm{mean: steady / 2, begins: 15, ends: 55, stops: 70}
	w := half.world(setting{workers: 1, mean: half.mean})
	if at := w.Clients[chains].Load.Steps[1]; w.Length != 35*time.Second || at.At != 7500*ms || at.PerSecond != 80 || w.Clients[singles].Load.Steps[0].PerSecond != 320 {
		t.Errorf("%v, %+v", w.Length, at)
	}
}

func TestBeyondLaw(t *testing.T) {
	l := waits(bed.Waits{}, bed.Waits{Waited: 11 * time.Second, FIFO: 10 * time.Second})
	p := played(1, l, func(_, group int) (int, int, time.Duration) { return 6 * group, 0, time.Second })
	// One second was wasted. Without it, singles would have taken five of their six.
	if got := beyondLaw([]*bed.Played{p}); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("%v beyond the law, want 0.2", got)
	}
	p.Looks[0].Law.Abandoned = 1
	if got := beyondLaw([]*bed.Played{p}); !math.IsNaN(got) {
		t.Errorf("callers gave up: %v, want none", got)
	}
}

// What the law allows, from the formulas by hand: at 85 % load priority makes 67/96 of
// the chains' latency go away, and nearly nothing at 8.5 %.
func TestAllowed(t *testing.T) {
	s := setting{workers: 1, mean: steady}
	for _, c := range []struct {
		clients int
		want    float64
	}{
		{500, 1 - (1+0.85/(1-0.2125))*(1-0.85)},
		{400, 1 - (1+0.68/(1-0.17))*(1-0.68)},
		{50, 1 - (1+0.085/(1-0.02125))*(1-0.085)},
	} {
		if got := (crowd{clients: c.clients}).allowed(s); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d clients: %v, want %v", c.clients, got, c.want)
		}
	}
	ofChains, ofSingles := crowd{clients: 500}.rates(s)
	if visits := 4*ofChains + ofSingles; math.Abs(visits-340) > 1e-9 || math.Abs(ofSingles-12*ofChains) > 1e-9 {
		t.Errorf("%v chains and %v singles a second, want 340 visits and 12 to 1", ofChains, ofSingles)
	}
	if w := (crowd{500, true}).world(s, time.Minute, time.Second); w.Clients[singles].GiveUp != 250*ms || w.Clients[chains].GiveUp != 2*time.Second || w.Check() != nil {
		t.Errorf("%+v, mistakes %v", w.Clients, w.Check())
	}
}

func TestScaleReport(t *testing.T) {
	ran := func(chainsTook, singlesTook time.Duration, gaveUp int, saved time.Duration) *bed.Played {
		return played(1, waits(bed.Waits{FIFO: saved + 10}, bed.Waits{Waited: saved + 10}), func(_, group int) (int, int, time.Duration) {
			return 100 - gaveUp, gaveUp, []time.Duration{chainsTook, singlesTook}[group]
		})
	}
	few, many, leaving := crowd{50, false}, crowd{500, false}, crowd{500, true}
	got := map[crowd][2][]*bed.Played{
		few:     {{ran(40*ms, 10*ms, 0, 0)}, {ran(39*ms, 10*ms, 0, 100*ms)}},
		many:    {{ran(200*ms, 60*ms, 0, 0), ran(300*ms, 60*ms, 0, 0)}, {ran(100*ms, 72*ms, 0, 5*time.Second), ran(100*ms, 72*ms, 0, 5*time.Second)}},
		leaving: {{ran(100*ms, 30*ms, 5, 0)}, {ran(80*ms, 33*ms, 7, 0)}},
	}
	r := &experiment.Result{}
	scaleReport(r, setting{workers: 1, mean: steady}, []crowd{few, many, leaving}, got)
	bars(t, r, map[string]float64{
		"chains gain where the law allows 35 %, worst of 1": 60, "singles lose, worst": 20, "singles beyond the law's least, worst": 0,
		"the better-off class, worst": 39. / 40, "singles that give up beyond FIFO's": 2,
	})
	if len(r.Chart) != 2 || len(r.Table) != 1 || len(r.Chart[0].Series) != 2 || len(r.Chart[0].Series[0].X) != 2 {
		t.Errorf("charts %+v", r.Chart)
	}
}

// Every world is one, and every experiment says what it is.
func TestComplete(t *testing.T) {
	for _, w := range []*world.World{tomcats.mixed(warmup, tomcatLength), crowd{50, false}.world(setting{workers: 1, mean: steady}, time.Minute, time.Second)} {
		if mistakes := w.Check(); mistakes != nil {
			t.Errorf("%s: %v", w.Name, mistakes)
		}
	}
}
