package rates

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/work"
)

func number(t testing.TB, s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func shown(rate float64) string {
	if rate >= NoLimit {
		return "none"
	}
	return strconv.FormatFloat(math.Round(rate*10)/10, 'f', -1, 64)
}

// script runs periods from lines of what happens in each:
//
//	load WORKFLOW N [from=SERVICE/PROCESS] [claims=RATE] [retries=N] [ends=N] [busy=DURATION] [calls=SERVICE/PROCESS:N,…] [outcome=NAME]
//	rate WORKFLOW SERVICE/PROCESS RATE
//
// load is N requests that arrive, are let in, each keep the first resource busy
// for a while, make the calls and end.
type script struct {
	*Adapter
	now mono.Time
}

func (s *script) peer(text string) Peer {
	service, process, _ := strings.Cut(text, "/")
	return s.Peer(s.now, service, process)
}

func (s *script) event(t *testing.T, line string) {
	fields := strings.Fields(line)
	w := s.Workflow(s.now, strings.Trim(fields[1], "-"))
	switch fields[0] {
	case "rate":
		s.OnRate(s.now, w, s.peer(fields[2]), number(t, fields[3]))
	case "load":
		r := Request{Workflow: w, Deadline: mono.Never}
		var busy time.Duration
		var calls []string
		retries, outcome, ends := 0, work.Done, math.MaxInt
		for _, f := range fields[3:] {
			key, value, _ := strings.Cut(f, "=")
			switch key {
			case "from":
				r.From = s.peer(value)
			case "claims":
				r.Demand = number(t, value)
			case "busy":
				busy, _ = time.ParseDuration(value)
			case "retries":
				retries = int(number(t, value))
			case "ends":
				ends = int(number(t, value))
			case "calls":
				calls = strings.Split(value, ",")
			case "outcome":
				outcome = map[string]work.Outcome{"done": work.Done, "ignored": work.Ignored, "dropped": work.Dropped}[value]
			default:
				t.Fatalf("unknown %q", key)
			}
		}
		n := int(number(t, fields[2]))
		for i := range n + retries {
			one := r
			if i >= n {
				one.Attempt = 1
			}
			s.OnArrival(s.now, &one)
			if i >= ends {
				continue
			}
			s.OnUse(w, 0, busy)
			for _, c := range calls {
				to, times, _ := strings.Cut(c, ":")
				for range int(number(t, times)) {
					s.OnCall(s.now, &one, s.peer(to), 0)
					if retries > 0 {
						s.OnCall(s.now, &one, s.peer(to), 1)
					}
				}
			}
			s.OnDone(s.now, &one, outcome)
		}
	default:
		t.Fatalf("unknown event %q", line)
	}
}

func (s *script) print(out *strings.Builder) {
	load, over := s.Load(0)
	fmt.Fprintf(out, "load=%.2f overloaded=%v\n", load, over)
	for _, st := range s.AppendStates(nil) {
		if st.Offered == 0 && st.Demand == 0 && st.Name == "" {
			continue
		}
		name := st.Name
		if name == "" {
			name = "-"
		}
		fmt.Fprintf(out, "%s: offered=%.1f demand=%.1f rate=%s", name, st.Offered, st.Demand, shown(st.Rate))
		if st.Limited() {
			fmt.Fprintf(out, " (own %s, downstream %s", shown(st.Local), shown(st.Downstream))
			if st.Tight != "" {
				out.WriteString(" by " + st.Tight)
			}
			if st.Held {
				out.WriteString(", held")
			}
			out.WriteString(")")
		}
		f := s.flow(st.Workflow)
		for _, src := range f.sources {
			if src.peer > 0 {
				p := s.peers.rows[src.peer].key
				fmt.Fprintf(out, " %s←%s", p.process, shown(s.Announce(st.Workflow, Peer(s.peers.id(src.peer)))))
			}
		}
		for _, l := range s.AppendLinks(s.now, st.Workflow, nil) {
			fmt.Fprintf(out, " alpha(%s)=%.2f", l.Process, l.Alpha)
		}
		out.WriteString("\n")
	}
}

// TestAdapter runs the narrated scripts under testdata/adapter.
func TestAdapter(t *testing.T) {
	datadriven.Walk(t, "testdata/adapter", func(t *testing.T, path string) {
		var s *script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			text := func(key, none string) string {
				d.MaybeScanArgs(t, key, &none)
				return none
			}
			switch d.Cmd {
			case "adapter":
				cfg := Config{Resources: []Resource{{"workers", number(t, text("workers", "1"))}}, Service: "me", Process: "me0"}
				cfg.Quantile = number(t, text("q", "0"))
				cfg.MaxPeers = int(number(t, text("peers", "0")))
				cfg.MaxWorkflows = int(number(t, text("workflows", "0")))
				forget, err := time.ParseDuration(text("forget", "0s"))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				cfg.Forget = forget
				switch text("policy", "") {
				case "max-min-fair":
					cfg.Policy = MaxMinFair
				case "dominant-fair":
					cfg.Policy = DominantFair
				}
				if g := text("guarantee", ""); g != "" {
					name, rate, _ := strings.Cut(g, ":")
					cfg.Terms = map[string]Terms{name: {Guarantee: number(t, rate)}}
				}
				a, err := New(0, cfg)
				if err != nil {
					return err.Error()
				}
				s = &script{Adapter: a}
				return ""
			case "periods":
				var n int
				d.MaybeScanArgs(t, "n", &n)
				delay, err := time.ParseDuration(text("delay", "0s"))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				sig := Signals{Credits: d.HasArg("bound"), Bound: number(t, text("bound", "0")),
					Resources: []Pressure{{Delay: delay, Target: 10 * time.Millisecond}}}
				for i := range max(n, 1) {
					for line := range strings.Lines(d.Input) {
						s.event(t, line)
					}
					s.now = s.now.Add(100 * time.Millisecond)
					s.OnWake(s.now, sig)
					if d.HasArg("each") && i < max(n, 1)-1 {
						s.print(&out)
					}
				}
			case "stats":
				return fmt.Sprintf("%+v\n", s.Stats())
			default:
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			s.print(&out)
			return out.String()
		})
	})
}
