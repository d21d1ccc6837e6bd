package worldfile

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/work"
	"github.com/spillgate/spillgate/internal/world"
)

// What a world says, a file says: random worlds are written and read again. Every
// field of a world has a key.
func TestRoundTrip(t *testing.T) {
	seen := map[string]bool{"Rate.Times": true} // which the scripts read
	for seed := range uint64(200) {
		r := &random{rand.New(rand.NewPCG(seed, 0))}
		w := r.world()
		files := map[string]string{}
		text := write(w, files)
		got, err := parse("w.yaml", []byte(text), memory(files))
		if err != nil {
			t.Fatalf("seed %d: %v\nin\n%s", seed, err, text)
		}
		if !reflect.DeepEqual(got, w) {
			t.Fatalf("seed %d:\n%s\nbecame\n%swritten as\n%s", seed, show(w), show(got), text)
		}
		visit(reflect.ValueOf(w), seen)
	}
	for field, some := range seen {
		if !some {
			t.Errorf("no file said %s", field)
		}
	}
}

// visit notes for each field of v, and of what it holds, whether it ever had a value
// that is not zero.
func visit(v reflect.Value, seen map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), seen)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			seen[name] = seen[name] || !v.Field(i).IsZero()
			visit(v.Field(i), seen)
		}
	}
}

// random makes worlds that are right.
type random struct{ *rand.Rand }

func (r *random) yes() bool { return r.IntN(2) == 0 }

func (r *random) time() time.Duration { return time.Duration(1+r.IntN(1_000_000)) * time.Microsecond }

func (r *random) world() *world.World {
	w := &world.World{Name: "some world", Objective: r.time(), Warmup: 5 * time.Second, Length: time.Minute, Network: world.Network{Delay: r.time(), Jitter: r.time(),
		LoseGrant: r.Float64(), RepeatGrant: r.Float64(), DelayGrant: r.Float64()}}
	for i := range r.IntN(3) {
		w.Hosts = append(w.Hosts, world.Host{Name: fmt.Sprint("host ", i), Processors: 1 + r.IntN(9), Message: time.Duration(r.IntN(3)-1) * time.Nanosecond})
	}
	for i := range 1 + r.IntN(4) {
		w.Services = append(w.Services, r.service(w, i))
	}
	for i := range 1 + r.IntN(4) {
		w.Clients = append(w.Clients, r.group(w, i))
	}
	for range r.IntN(3) {
		s := w.Services[r.IntN(len(w.Services))]
		f := world.Fault{At: r.time(), For: r.time(), Service: s.Name, Replica: r.IntN(1 + max(s.Replicas, 1))}
		if r.yes() {
			f.Every = f.For + time.Second
		}
		switch r.IntN(4) {
		case 3:
			f.Vanish, f.Notice, f.Service, f.Replica = 0.5+r.Float64()/2, r.time(), "", 0
		case 0:
			f.Slower = 1 + float64(r.IntN(9))/4
		case 1:
			f.Stop = true
		default:
			f.Kill = true
		}
		w.Faults = append(w.Faults, f)
	}
	return w
}

// service makes a service that calls those before it.
func (r *random) service(w *world.World, i int) world.Service {
	s := world.Service{Name: fmt.Sprint("s", i), Replicas: r.IntN(4), Threads: r.IntN(3), Workers: 1 + r.IntN(9), Ungated: r.yes(), Deaf: r.yes(), Proxied: r.yes(), Message: r.time(), Async: r.yes()}
	for k := range r.IntN(3) {
		s.Locks = append(s.Locks, world.Lock{Name: fmt.Sprint("l", k), Permits: r.IntN(4), Batch: r.yes()})
	}
	if r.yes() {
		s.Contention = world.Contention{Each: r.Float64(), Pair: r.Float64()}
	}
	if len(w.Hosts) > 0 && r.yes() {
		s.Host = w.Hosts[r.IntN(len(w.Hosts))].Name
	}
	if r.yes() {
		s.Objective = r.time()
	}
	for k := range 1 + r.IntN(3) {
		least := r.IntN(3)
		m := world.Method{Name: fmt.Sprint("m", k), Idle: r.yes(), Answer: world.Size{Least: least, Most: least + r.IntN(3)}}
		for range 1 + r.IntN(3) {
			var step world.Step
			switch {
			case i > 0 && r.yes():
				for range 1 + r.IntN(3) {
					step.Call = append(step.Call, r.target(w))
				}
			case r.yes():
				step.Wait = r.draw()
			default:
				step.Compute = r.draw()
			}
			if n := len(s.Locks); n > 0 && step.Call == nil && r.yes() {
				step.Lock = s.Locks[r.IntN(n)].Name
			}
			m.Steps = append(m.Steps, step)
		}
		s.Methods = append(s.Methods, m)
	}
	return s
}

func (r *random) target(w *world.World) world.Target {
	s := w.Services[r.IntN(len(w.Services))]
	return world.Target{Service: s.Name, Method: s.Methods[r.IntN(len(s.Methods))].Name}
}

func (r *random) draw() *world.Draw {
	d := &world.Draw{Shape: world.Shape(r.IntN(int(world.Weighted) + 1)), Mean: r.time()}
	switch d.Shape {
	case world.Pareto, world.Lognormal:
		d.Param = 1.25 + float64(r.IntN(4))
	case world.Weighted:
		d.Mean, d.Spread = 0, r.yes()
		for i := range 1 + r.IntN(4) {
			d.Points = append(d.Points, world.Point{Value: time.Duration(i)*time.Second + r.time(), Weight: 1 + float64(r.IntN(5))})
		}
	}
	return d
}

func (r *random) group(w *world.World, i int) world.Group {
	g := world.Group{
		Name: fmt.Sprint("group ", i), Clients: r.IntN(9), Connections: r.IntN(9), SharedAddress: r.yes(), Kind: world.Kind(r.IntN(4)), ByReply: r.yes(), Arrive: r.time(),
		Deadline: time.Duration(r.IntN(3) - 1), GiveUp: r.time(), Cycle: r.IntN(3), Patient: r.yes(), Class: work.Class(r.IntN(int(work.NumClasses))), Priority: work.Priority(r.IntN(128)), Share: float64(r.IntN(9)) / 4,
	}
	if r.yes() {
		g.Workflow = "checkout"
	}
	if r.yes() {
		g.Churn = world.Churn{Stay: r.time(), Away: r.time()}
	}
	if r.yes() {
		g.Retry = world.Retry{Attempts: 2 + r.IntN(3), Backoff: r.time(), Stubborn: r.yes(), Budget: float64(r.IntN(4)) / 8}
	}
	for _, s := range w.Services {
		if i := r.IntN(len(s.Methods)); r.yes() || len(g.Ask) == 0 {
			g.Ask = append(g.Ask, world.Ask{Target: world.Target{Service: s.Name, Method: s.Methods[i].Name}, Weight: 1 + float64(r.IntN(5))})
		}
	}
	switch r.IntN(3) {
	case 0:
		g.Load = world.Load{Users: 1 + r.IntN(99), Think: r.time()}
	case 1:
		g.Load.Arrivals = []time.Duration{0, r.time(), time.Second + r.time()}
	default:
		g.Load.Steps = []world.Rate{{PerSecond: float64(r.IntN(99))}}
		if r.yes() {
			g.Load.Steps = append(g.Load.Steps, world.Rate{At: time.Second, PerSecond: 1.5, For: r.time(), Every: 2 * time.Second})
		}
	}
	return g
}

// write renders a world with every key, zeros left out, and puts traces into files.
func write(w *world.World, files map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nobjective: %v\nwarmup: %v\nlength: %v\nnetwork: {delay: %v, jitter: %v, lose_grant: %v, repeat_grant: %v, delay_grant: %v}\nhosts:\n", w.Name, w.Objective, w.Warmup, w.Length,
		w.Network.Delay, w.Network.Jitter, w.Network.LoseGrant, w.Network.RepeatGrant, w.Network.DelayGrant)
	for _, h := range w.Hosts {
		fmt.Fprintf(&b, "- {name: %s, processors: %d%s}\n", h.Name, h.Processors, orWord("message", h.Message, "none"))
	}
	b.WriteString("services:\n")
	for _, s := range w.Services {
		fmt.Fprintf(&b, "- name: %s\n  host: %q\n  replicas: %d\n  threads: %d\n  workers: %d\n  objective: %v\n  gate: %v\n  deaf: %v\n  proxied: %v\n  message: %v\n  async: %v\n  contention: {each: %g, pair: %g}\n",
			s.Name, s.Host, s.Replicas, s.Threads, s.Workers, s.Objective, !s.Ungated, s.Deaf, s.Proxied, s.Message, s.Async, s.Contention.Each, s.Contention.Pair)
		b.WriteString("  locks:\n")
		for _, l := range s.Locks {
			fmt.Fprintf(&b, "  - {name: %s, permits: %d, batch: %v}\n", l.Name, l.Permits, l.Batch)
		}
		b.WriteString("  methods:\n")
		for _, m := range s.Methods {
			fmt.Fprintf(&b, "  - name: %s\n    idle: %v\n    answer: %s\n    steps:\n", m.Name, m.Idle, writeSize(m.Answer))
			for _, step := range m.Steps {
				switch {
				case step.Wait != nil:
					fmt.Fprintf(&b, "    - wait: %s\n", writeDraw(step.Wait))
				case step.Compute != nil:
					fmt.Fprintf(&b, "    - compute: %s\n", writeDraw(step.Compute))
				default:
					fmt.Fprintf(&b, "    - call: [%s]\n", strings.Trim(strings.ReplaceAll(fmt.Sprint(step.Call), " ", ", "), "[]"))
				}
				if step.Lock != "" {
					fmt.Fprintf(&b, "      lock: %s\n", step.Lock)
				}
			}
		}
	}
	b.WriteString("clients:\n")
	for _, g := range w.Clients {
		writeGroup(&b, &g, files)
	}
	b.WriteString("faults:\n")
	for _, f := range w.Faults {
		fmt.Fprintf(&b, "- {at: %v, for: %v, every: %v, ", f.At, f.For, f.Every)
		if f.Vanish > 0 {
			fmt.Fprintf(&b, "vanish: %v, notice: %v}\n", f.Vanish, f.Notice)
			continue
		}
		fmt.Fprintf(&b, "service: %s, replica: %d, slower: %g, stop: %v, kill: %v}\n", f.Service, f.Replica, f.Slower, f.Stop, f.Kill)
	}
	return strings.ReplaceAll(b.String(), "  host: \"\"\n", "")
}

func orWord(key string, d time.Duration, word string) string {
	switch {
	case d < 0:
		return ", " + key + ": " + word
	case d > 0:
		return ", " + key + ": " + d.String()
	}
	return ""
}

func writeSize(s world.Size) string {
	if s.Least == s.Most {
		return fmt.Sprint(s.Most)
	}
	return fmt.Sprintf("{least: %d, most: %d}", s.Least, s.Most)
}

func writeDraw(d *world.Draw) string {
	switch d.Shape {
	case world.Exponential:
		return fmt.Sprint("exponential ", d.Mean)
	case world.Pareto:
		return fmt.Sprintf("pareto %g %v", d.Param, d.Mean)
	case world.Lognormal:
		return fmt.Sprintf("lognormal %g %v", d.Param, d.Mean)
	case world.Weighted:
		var points []string
		for _, p := range d.Points {
			points = append(points, fmt.Sprintf("%v: %g", p.Value, p.Weight))
		}
		return fmt.Sprintf("{points: {%s}, spread: %v}", strings.Join(points, ", "), d.Spread)
	}
	return fmt.Sprint("constant ", d.Mean)
}

func writeGroup(b *strings.Builder, g *world.Group, files map[string]string) {
	fmt.Fprintf(b, "- name: %s\n  clients: %d\n  connections: %d\n  shared_address: %v\n  kind: %s\n  by_reply: %v\n  arrive: %v\n  give_up: %v\n  cycle: %d\n  patient: %v\n  churn: {stay: %v, away: %v}\n", g.Name, g.Clients, g.Connections, g.SharedAddress,
		[]string{"credits", "plain", "greedy", "minting"}[g.Kind], g.ByReply, g.Arrive, g.GiveUp, g.Cycle, g.Patient, g.Churn.Stay, g.Churn.Away)
	if deadline := orWord("deadline", g.Deadline, "never"); deadline != "" {
		fmt.Fprintln(b, " "+deadline[1:])
	}
	fmt.Fprintf(b, "  class: %v\n  priority: %d\n  share: %g\n  retry: {attempts: %d, backoff: %v, stubborn: %v, budget: %g}\n  ask:\n", g.Class, g.Priority, g.Share,
		g.Retry.Attempts, g.Retry.Backoff, g.Retry.Stubborn, g.Retry.Budget)
	for _, a := range g.Ask {
		fmt.Fprintf(b, "    %v: %g\n", a.Target, a.Weight)
	}
	if g.Workflow != "" {
		fmt.Fprintf(b, "  workflow: %s\n", g.Workflow)
	}
	switch l := &g.Load; {
	case l.Users > 0:
		fmt.Fprintf(b, "  load: {users: %d, think: %v}\n", l.Users, l.Think)
	case len(l.Arrivals) > 0:
		name := g.Name + ".csv"
		for _, at := range l.Arrivals {
			files[name] += fmt.Sprintf("%.6f\n", at.Seconds())
		}
		fmt.Fprintf(b, "  load: {arrivals: %s}\n", name)
	default:
		b.WriteString("  load:\n")
		for _, s := range l.Steps {
			fmt.Fprintf(b, "  - {at: %v, rate: %g/s, for: %v, every: %v}\n", s.At, s.PerSecond, s.For, s.Every)
		}
	}
}
