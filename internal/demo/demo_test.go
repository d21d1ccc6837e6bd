package demo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/demo"
	"github.com/spillgate/spillgate/internal/demo/demotest"
	"github.com/spillgate/spillgate/internal/demo/stage"
	"github.com/spillgate/spillgate/internal/leaks"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "part" { // after the mark of its test
		if err := stage.Run(context.Background(), os.Args[3], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "refuse" {
		fmt.Fprintln(os.Stderr, "this part is not for me")
		os.Exit(3)
	}
	leaks.Verify(m)
}

// part returns the arguments with which this program plays a part in a demo of one test, and the mark among them
// by which its processes are known.
func part(t *testing.T) (command []string, mark string) {
	t.Helper()
	mark = fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())
	return []string{"part", mark}, mark
}

// children returns the processes that play a part with a mark.
func children(t *testing.T, mark string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		return nil
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, []byte(mark)) {
			found = append(found, path)
		}
	}
	return found
}

// checkGone fails if processes with a mark stay.
func checkGone(t *testing.T, mark string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		left := children(t, mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes are left: %v", left)
		}
	}
}

// A whole demo with real processes: both acts get the same requests, the states
// come in order, and nothing is left.
func TestPlay(t *testing.T) {
	command, mark := part(t)
	var scenes []demo.Scene
	number := 0
	var lines bytes.Buffer
	view := demo.NewLines(&lines)
	final, err := demo.Play(t.Context(), demo.Config{
		Plan: demo.Brief(), Seed: 5, Command: command,
		// TestReport draws one: the race detector takes seconds for the pictures.
		Report: func(demo.State) (string, error) { return "report", nil },
		Publish: func(s demo.State) {
			if s.Number != number+1 {
				t.Errorf("state %d after %d", s.Number, number)
			}
			number = s.Number
			if len(scenes) == 0 || scenes[len(scenes)-1] != s.Scene {
				scenes = append(scenes, s.Scene)
			}
			// Beside the step there is room for so much on 80 columns.
			if n := len([]rune(s.Note)); n > 62 && !s.Scene.Over() {
				t.Errorf("a note is %d long: %q", n, s.Note)
			}
			if s.Share < 0 || s.Share > 1 {
				t.Errorf("share %v", s.Share)
			}
			view.Show(s)
		},
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, lines.String())
	}
	want := fmt.Sprint([]demo.Scene{demo.Searching, demo.Plain, demo.Gated, demo.Sharing, demo.Checkout, demo.Seizing, demo.Flooding, demo.Reporting, demo.Done})
	if got := strings.Replace(fmt.Sprint(scenes), "starting ", "", 1); got != want {
		t.Errorf("scenes %v, want %v", got, want)
	}
	if !final.Complete() || final.Capacity.Rate <= 0 || final.Report == "" || final.Share != 1 {
		t.Fatalf("the end is %+v", final)
	}
	plain, gated := final.Acts[0].Outcome.Totals, final.Acts[1].Outcome.Totals
	if plain.Offered != gated.Offered {
		t.Errorf("offered %d and %d requests, want the same", plain.Offered, gated.Offered)
	}
	if plain.Refused != 0 || len(final.Acts[0].Sheds) != 0 {
		t.Errorf("the plain act refused: %+v", final.Acts[0].Sheds)
	}
	for _, a := range final.Acts {
		if len(a.Services) != 3 || len(a.Points) != 7 || a.Running {
			t.Errorf("%s: %d services, %d points, running %v; want 3, 7, false", a.Name, len(a.Services), len(a.Points), a.Running)
		}
	}
	if !final.Tenants.Complete() || final.Tenants.Running || len(final.Tenants.Services) != 3 {
		t.Fatalf("the tenants' act is %+v", final.Tenants)
	}
	for _, tenant := range final.Tenants.Each {
		before, during, totals := tenant.Outcome.Steps[demo.BeforeBurst], tenant.Outcome.Steps[demo.DuringBurst], tenant.Totals
		if (before.Offered == 0) != tenant.Aggressive() || during.Offered == 0 || len(tenant.Points) != 6 {
			t.Errorf("tenant %s: %d points, offered %v before and %v during", tenant.Name, len(tenant.Points), before.Offered, during.Offered)
		}
		if ended := totals.Served + totals.Refused + totals.TimedOut + totals.Failed; ended != totals.Offered {
			t.Errorf("tenant %s: %d of %d requests ended", tenant.Name, ended, totals.Offered)
		}
		if tenant.Aggressive() && totals.Refused == 0 {
			t.Errorf("tenant %s at three times the capacity had nothing refused", tenant.Name)
		}
	}
	if !final.Checkout.Complete() || final.Checkout.Running() != nil {
		t.Fatalf("the checkouts' act is %+v", final.Checkout)
	}
	fifo, shares := final.Checkout.Order(demo.FIFO), final.Checkout.Order(demo.Shares)
	for _, o := range []*demo.OrderState{fifo, shares} {
		if len(o.Services) != len(final.Checkout.Servers) {
			t.Errorf("%s: reports of %d servers, want %d", o.Name, len(o.Services), len(final.Checkout.Servers))
		}
		for _, k := range o.Kinds {
			if same := fifo.Kind(k.Name).Totals; k.Totals.Offered != same.Offered || k.Totals.Offered == 0 || len(k.Points) != 6 {
				t.Errorf("%s, %s: %d requests and %d points, want %d, the same in both orders, and 6", o.Name, k.Name, k.Totals.Offered, len(k.Points), same.Offered)
			}
			if ended := k.Totals.Served + k.Totals.Refused + k.Totals.TimedOut + k.Totals.Failed; ended != k.Totals.Offered || k.Totals.Failed != 0 {
				t.Errorf("%s, %s: %+v, want every request to end, and none to fail", o.Name, k.Name, k.Totals)
			}
			if f, ok := o.Flood(k.Name); !ok || f.Served > 0 && (f.MeanMS <= 0 || f.P95MS < f.MeanMS/20) {
				t.Errorf("%s, %s: the flood is %+v", o.Name, k.Name, f)
			}
		}
	}
	if len(fifo.Weights) != 0 || len(shares.Weights) != len(final.Checkout.Servers) {
		t.Errorf("weights of %d and %d servers, want none in order of arrival, and all", len(fifo.Weights), len(shares.Weights))
	}
	for _, w := range shares.Weights {
		if len(w.Points) == 0 || w.Checkout.Class != "interactive" || w.Read.Class != "default" {
			t.Errorf("%s: %d decisions, checkouts are %+v and reads %+v", w.Server, len(w.Points), w.Checkout, w.Read)
		}
	}
	if !final.Culprit.Complete() || final.Culprit.Running() != nil {
		t.Fatalf("the culprit's act is %+v", final.Culprit)
	}
	for i, r := range final.Culprit.Runs {
		if same := final.Culprit.Runs[0].Totals; r.Totals.Offered != same.Offered || r.Totals.Offered == 0 || len(r.Points) != 8 || len(r.Services) != 1 {
			t.Errorf("%s: %d reads, %d points and %d services, want %d, the same in both runs, 8 and 1", r.Name, r.Totals.Offered, len(r.Points), len(r.Services), same.Offered)
		}
		if ended := r.Totals.Served + r.Totals.Refused + r.Totals.TimedOut + r.Totals.Failed; ended != r.Totals.Offered || r.Totals.Failed != 0 {
			t.Errorf("%s: %+v, want every read to end, and none to fail", r.Name, r.Totals)
		}
		// Whether the gate is in time for the report is up to the machine.
		if r.Report == nil || i == 0 && (r.Named != nil || r.Report.End == stage.Cancelled) || r.Report != nil && r.Report.End == stage.Cancelled && r.Named == nil {
			t.Errorf("%s: the report %+v, named %+v; want it to end, and cancelled only by a gate that says so", r.Name, r.Report, r.Named)
		}
	}
	checkFeed(t, final.Feed)
	for _, want := range []string{"act 1", "act 2", "act 3", "act 4", "act 5", "act 6", "a report", "the flood: sent", "open loop", "offered", "c at 3x", "reads at 0.72x", "weight of checkouts"} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("the lines do not say %q:\n%s", want, lines.String())
		}
	}
	checkGone(t, mark)
}

// checkFeed fails unless both runs of the act of the broker were played to their ends, with
// the same messages, and a limit held the flood. How much came in time is up to the machine.
func checkFeed(t *testing.T, a *demo.FeedAct) {
	t.Helper()
	if !a.Complete() || a.Running() != nil {
		t.Fatalf("the broker's act is %+v", a)
	}
	for _, r := range a.Runs {
		if same := a.Runs[0].Totals; r.Totals.Offered != same.Offered || r.Totals.Offered == 0 || len(r.Points) != 5 || len(r.Services) != 1 {
			t.Errorf("%s: %d messages, %d points and %d brokers, want %d, the same in both runs, 5 and 1", r.Name, r.Totals.Offered, len(r.Points), len(r.Services), same.Offered)
		}
		if ended := r.Totals.Served + r.Totals.TimedOut + r.Totals.Failed; ended != r.Totals.Offered || r.Totals.Failed != 0 {
			t.Errorf("%s: %+v, want every message to end, and none to fail", r.Name, r.Totals)
		}
		if r.Flooded.Sent == 0 || r.Flooded.Came > r.Flooded.Sent {
			t.Errorf("%s: the flood is %+v", r.Name, r.Flooded)
		}
	}
	limited := &a.Runs[1]
	// Its burst at once, and then its rate until the consumer's connection ends, some two seconds after the last message.
	if most := a.Burst + a.Limit*(a.Length+2); float64(limited.Flooded.Came) > most {
		t.Errorf("%d messages of the flood came, want at most %.0f", limited.Flooded.Came, most)
	}
	if waiting, dropped := limited.Held(); waiting+dropped == 0 {
		t.Error("nothing of the flood was held")
	}
}

// An interrupt in the middle of an act ends everything.
func TestPlayInterrupted(t *testing.T) {
	t.Parallel() // with the other interrupts, none of which is about how fast the machine is
	command, mark := part(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	final, err := demo.Play(ctx, demo.Config{
		Plan: demo.Brief(), Command: command,
		Publish: func(s demo.State) {
			if len(s.Acts) == 1 && len(s.Acts[0].Points) > 1 {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) || final.Scene != demo.Interrupted {
		t.Errorf("scene %q, error %v; want an interruption", final.Scene, err)
	}
	checkGone(t, mark)
}

// And one in the middle of each later act, played alone.
func TestPlayInterruptedLater(t *testing.T) {
	t.Parallel() // with the other interrupts, none of which is about how fast the machine is
	for act, tt := range map[demo.Scene]struct {
		reached func(demo.State) bool
		// left reports whether the act is there and nothing of it is played any more.
		left func(demo.State) bool
	}{
		demo.Sharing: {
			func(s demo.State) bool { return s.Tenants != nil && s.Tenants.Settled() > 0 },
			func(s demo.State) bool { return s.Tenants != nil && !s.Tenants.Running },
		},
		demo.Checkout: {
			func(s demo.State) bool {
				o := s.Checkout.Order(demo.Shares)
				return o != nil && len(o.Kinds[0].Points) > 0
			},
			func(s demo.State) bool { return s.Checkout != nil && s.Checkout.Running() == nil },
		},
		demo.Seizing: {
			func(s demo.State) bool {
				r := s.Culprit.Running()
				return r != nil && len(s.Culprit.Runs) == 2 && len(r.Points) > 0
			},
			func(s demo.State) bool { return s.Culprit != nil && s.Culprit.Running() == nil },
		},
		demo.Flooding: {
			func(s demo.State) bool {
				r := s.Feed.Running()
				return r != nil && len(s.Feed.Runs) == 2 && len(r.Points) > 0
			},
			func(s demo.State) bool { return s.Feed != nil && s.Feed.Running() == nil },
		},
	} {
		t.Run(string(act), func(t *testing.T) {
			t.Parallel()
			command, mark := part(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			final, err := demo.PlayAct(ctx, demo.Config{
				Plan: demo.Brief(), Command: command,
				Publish: func(s demo.State) {
					if tt.reached(s) {
						cancel()
					}
				},
			}, act)
			if !errors.Is(err, context.Canceled) || final.Scene != demo.Interrupted || !tt.left(final) {
				t.Errorf("scene %q, state %+v, error %v; want an interruption", final.Scene, final, err)
			}
			checkGone(t, mark)
		})
	}
}

// A program that cannot play its part fails the demo, with what it wrote.
func TestPlayFails(t *testing.T) {
	final, err := demo.Play(t.Context(), demo.Config{Plan: demo.Brief(), Command: []string{"refuse"}})
	if err == nil || !strings.Contains(err.Error(), "not for me") {
		t.Errorf("got %v, want an error that quotes the child", err)
	}
	if final.Scene != demo.Failed || final.Error == "" {
		t.Errorf("scene %q, error %q", final.Scene, final.Error)
	}
}

func TestTables(t *testing.T) {
	s := demotest.Recorded(t)
	tables := demo.Tables(s)
	if len(tables) != 8 {
		t.Fatalf("%d tables, want 8", len(tables))
	}
	fed := tables[7].Text(80)
	for i := range s.Feed.Runs {
		r := &s.Feed.Runs[i]
		o, _ := r.During(demo.DuringTopic)
		for _, want := range []string{fmt.Sprintf("%.0f of %.0f/s", o.Goodput, o.Offered), fmt.Sprint(r.Totals.TimedOut), fmt.Sprint(r.Flooded.Sent), fmt.Sprint(r.Flooded.Came)} {
			if !strings.Contains(fed, want) {
				t.Errorf("%q is missing in\n%s", want, fed)
			}
		}
	}
	before, _ := s.Feed.Runs[1].During(demo.BeforeTopic)
	flooded, _ := s.Feed.Runs[1].During(demo.DuringTopic)
	if want := fmt.Sprintf("p99 was %.0f ms before the flood and %.0f ms in it", before.P99MS, flooded.P99MS); !strings.Contains(s.Summary(), want) {
		t.Errorf("the summary does not say %q: %s", want, s.Summary())
	}
	seized := tables[6].Text(80)
	for i := range s.Culprit.Runs {
		r := &s.Culprit.Runs[i]
		o, _ := r.During(demo.DuringReport)
		for _, want := range []string{fmt.Sprintf("%.0f of %.0f/s", o.Goodput, o.Offered), r.Verdict(), r.Fate()} {
			if !strings.Contains(seized, want) {
				t.Errorf("%q is missing in\n%s", want, seized)
			}
		}
	}
	if want := fmt.Sprintf("Report was cancelled after %.0f ms", s.Culprit.Runs[1].Named.AgeMS); !strings.Contains(s.Summary(), want) {
		t.Errorf("the summary does not say %q: %s", want, s.Summary())
	}
	orders := tables[4].Text(80)
	for _, kind := range []string{stage.Checkouts, stage.Reads} {
		fifo, _ := s.Checkout.Order(demo.FIFO).Flood(kind)
		shares, _ := s.Checkout.Order(demo.Shares).Flood(kind)
		for _, want := range []*regexp.Regexp{
			regexp.MustCompile(fmt.Sprintf(`%s, mean +%.0f +%.0f +\%+.0f\n`, kind, fifo.MeanMS, shares.MeanMS, 100*s.Checkout.Change(kind))),
			regexp.MustCompile(fmt.Sprintf(`%s, p95 +%.0f +%.0f `, kind, fifo.P95MS, shares.P95MS)),
		} {
			if !want.MatchString(orders) {
				t.Errorf("%v is missing in\n%s", want, orders)
			}
		}
	}
	if classes := tables[5].Text(80); !strings.Contains(classes, "interactive, hops") || !strings.Contains(classes, "default, neither") {
		t.Errorf("classes are missing in\n%s", classes)
	}
	shared := tables[3].Text(80)
	for _, tenant := range s.Tenants.Each {
		for step, name := range []string{"before", "during"} {
			o := tenant.Outcome.Steps[step]
			line := ""
			for text := range strings.SplitSeq(shared, "\n") {
				if strings.HasPrefix(strings.TrimSpace(text), tenant.Name+" "+name) {
					line = text
				}
			}
			if o.Offered == 0 {
				if line != "" {
					t.Errorf("a tenant who was away is listed: %q", line)
				}
				continue
			}
			for _, want := range []string{fmt.Sprintf(" %.0f ", o.Offered), fmt.Sprintf(" %.0f ", o.Goodput), fmt.Sprintf(" %.0f ", o.P99MS)} {
				if !strings.Contains(line+" ", want) {
					t.Errorf("%s %s: %q is missing in %q", tenant.Name, name, want, line)
				}
			}
		}
	}
	o := s.Acts[1].Outcome.Steps[s.Overload()]
	after := "recovered at once"
	if r := s.Acts[1].Outcome.Recovery; r > 0 {
		after = fmt.Sprintf("recovered in %.2f s", r)
	}
	text := tables[0].Text(80)
	for _, want := range []string{
		fmt.Sprintf("%.0f/s, %.0f %% of capacity", o.Goodput, 100*o.Goodput/s.Capacity.Rate),
		fmt.Sprintf("%.0f ms, objective 100", o.P99MS),
		after,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, table := range tables {
		for line := range strings.SplitSeq(table.Text(80), "\n") {
			if n := len([]rune(line)); n > 80 {
				t.Errorf("a line is %d wide: %q", n, line)
			}
		}
	}
	// A run that its generator spoilt says so.
	s.Acts[0].Outcome.Valid, s.Acts[0].Outcome.Invalid = false, []string{"the generator was late"}
	if text := demo.Tables(s)[0].Text(80); !strings.Contains(text, "INVALID") || !strings.Contains(text, "the generator was late") {
		t.Errorf("an invalid run is not marked:\n%s", text)
	}
	if !strings.Contains(s.Summary(), "does not count") {
		t.Errorf("an invalid run is summed up as %q", s.Summary())
	}
	s = demotest.Recorded(t)
	s.Tenants.Each[2].Outcome.Valid, s.Tenants.Each[2].Outcome.Invalid = false, []string{"it was late"}
	if text := demo.Tables(s)[3].Text(80); !strings.Contains(text, "it was late") || !strings.Contains(s.Summary(), "does not count") {
		t.Errorf("an invalid act of tenants is not marked:\n%s\n%s", text, s.Summary())
	}
	s = demotest.Recorded(t)
	lost := s.Checkout.Order(demo.FIFO).Kind(stage.Reads)
	lost.Outcome.Valid, lost.Outcome.Invalid, lost.Steps[demo.DuringFlood].TimedOut = false, []string{"it was late"}, 17
	if text := strings.ReplaceAll(demo.Tables(s)[4].Text(80), "\n", " "); !strings.Contains(text, "it was late") || !strings.Contains(text, "fifo reads 17") || !strings.Contains(s.Summary(), "does not count") {
		t.Errorf("an invalid act of checkouts is not marked:\n%s\n%s", text, s.Summary())
	}
	s = demotest.Recorded(t)
	s.Culprit.Runs[0].Outcome.Valid, s.Culprit.Runs[0].Outcome.Invalid = false, []string{"it was late"}
	if text := demo.Tables(s)[6].Text(80); !strings.Contains(text, "it was late") || !strings.Contains(s.Summary(), "does not count") {
		t.Errorf("an invalid act of the culprit is not marked:\n%s\n%s", text, s.Summary())
	}
	s = demotest.Recorded(t)
	s.Feed.Runs[1].Outcome.Valid, s.Feed.Runs[1].Outcome.Invalid = false, []string{"it was late"}
	if text := demo.Tables(s)[7].Text(80); !strings.Contains(text, "it was late") || !strings.Contains(s.Summary(), "does not count") {
		t.Errorf("an invalid act of the broker is not marked:\n%s\n%s", text, s.Summary())
	}
	// Where nothing was served there is no latency, least of all one of 0 ms.
	s = demotest.Recorded(t)
	o1, o5, o6 := &s.Acts[0].Outcome.Steps[s.Overload()], &s.Culprit.Runs[0].Steps[demo.DuringReport], &s.Feed.Runs[0].Steps[demo.DuringTopic]
	for _, o := range []*stage.StepStats{o1, o5, o6} {
		o.Served, o.Goodput, o.P50MS, o.P99MS = 0, 0, 0, 0
	}
	all := s.Summary()
	for _, table := range demo.Tables(s) {
		all += table.Text(80)
	}
	if n := strings.Count(all, "nothing was served"); n != 4 || strings.Contains(all, " 0 ms") {
		t.Errorf("%d cells say that nothing was served, want 4, and no latency of 0 ms:\n%s", n, all)
	}
	if tables := demo.Tables(demotest.At(t, 1, 10)); tables != nil {
		t.Errorf("tables of a demo that is not over: %v", tables)
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	s := demotest.Recorded(t)
	path, err := demo.WriteReport(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "SLO 100 ms", fmt.Sprintf("%.0f requests/s", s.Capacity.Rate), "wallet expired", "c during", "Goodput of each tenant", "checkouts, p95", "Latency of checkouts", "Weight of checkouts", "Goodput while a report", "Latency of the other topics"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the report does not have %q", want)
		}
	}
	pictures, _ := filepath.Glob(filepath.Join(dir, "*.png"))
	if len(pictures) != 10 {
		t.Errorf("%d pictures, want 10", len(pictures))
	}
	for _, name := range pictures {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := png.Decode(file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = file.Close()
	}
}
