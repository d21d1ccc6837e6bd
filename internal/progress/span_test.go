package progress

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/mono"
	_ "github.com/spillgate/spillgate/internal/seeded"
)

const ms = time.Millisecond

func at(d time.Duration) mono.Time { return mono.Time(d) }

// TestSpan runs the narrated scripts under testdata/span. A line is
// "instant event …", in milliseconds:
//
//	5 begin | wait | go | call NAME | ret NAME service work | ret NAME | at | end
func TestSpan(t *testing.T) {
	datadriven.Walk(t, "testdata/span", func(t *testing.T, path string) {
		var s Span
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "request" {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			var out strings.Builder
			calls := map[string]CallID{}
			for line := range strings.Lines(d.Input) {
				f := strings.Fields(line)
				millis := func(i int) time.Duration {
					v, err := strconv.ParseFloat(f[i], 64)
					if err != nil {
						d.Fatalf(t, "%q: %v", line, err)
					}
					return time.Duration(v * float64(ms))
				}
				now := at(millis(0))
				switch f[1] {
				case "begin":
					s.Begin(now)
				case "wait":
					s.BeginWait(now)
				case "go":
					s.EndWait(now)
				case "call":
					calls[f[2]] = s.CallBegin(now)
				case "ret":
					if len(f) == 3 {
						s.CallEnd(now, calls[f[2]], 0, 0, false)
					} else {
						s.CallEnd(now, calls[f[2]], millis(3), millis(4), true)
					}
				case "at":
					fmt.Fprintf(&out, "at %s: %s\n", f[0], text(s.At(now)))
				case "end":
					fmt.Fprintf(&out, "end: %s\n", text(s.End(now)))
				default:
					d.Fatalf(t, "unknown event %q", f[1])
				}
			}
			return out.String()
		})
	})
}

func text(r Result) string {
	s := fmt.Sprintf("service=%v work=%v own=%v waited=%v staged=%v wall=%v stages=%d dop=%.2f",
		r.Service, r.Work, r.Own, r.Waited, r.Staged, r.Wall, r.Stages, r.DOP())
	if r.Unmeasured > 0 {
		s += fmt.Sprintf(" unmeasured=%d", r.Unmeasured)
	}
	return s
}

// The oracle: own 2 ms; four calls of 10 ms side by side, or two in a row.
func TestOracle(t *testing.T) {
	tests := []struct {
		name                string
		calls               [][2]time.Duration // from, to
		end                 time.Duration
		service, work       time.Duration
		dop                 float64
		reportOf, reportWas time.Duration
	}{
		{"four parallel", [][2]time.Duration{{1, 11}, {1, 11}, {1, 11}, {1, 11}}, 12, 12, 42, 4, 10, 10},
		{"two sequential", [][2]time.Duration{{1, 11}, {11, 21}}, 22, 22, 22, 1, 10, 10},
		{"two sequential with own in between", [][2]time.Duration{{1, 11}, {12, 22}}, 22, 22, 22, 1, 10, 10},
		{"four parallel that waited half the time", [][2]time.Duration{{1, 21}, {1, 21}, {1, 21}, {1, 21}}, 22, 12, 42, 4, 10, 10},
		{"none", nil, 2, 2, 2, 1, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := play(tt.calls, tt.end*ms, func(time.Duration) (time.Duration, time.Duration) { return tt.reportOf * ms, tt.reportWas * ms })
			if r.Service != tt.service*ms || r.Work != tt.work*ms || r.Own != 2*ms || r.DOP() != tt.dop {
				t.Errorf("%s, want service %v, work %v, own 2ms, DOP %v", text(r), tt.service*ms, tt.work*ms, tt.dop)
			}
		})
	}
}

// play runs calls, given by their instants in milliseconds; at one instant ends
// come before begins.
func play(calls [][2]time.Duration, end time.Duration, report func(wall time.Duration) (service, work time.Duration)) Result {
	type event struct {
		at   time.Duration
		call int
		end  bool
	}
	var events []event
	for i, c := range calls {
		events = append(events, event{c[0], i, false}, event{c[1], i, true})
	}
	sort.SliceStable(events, func(i, j int) bool {
		a, b := events[i], events[j]
		if a.at != b.at {
			return a.at < b.at
		}
		return a.end && !b.end && a.call != b.call
	})
	ids := make([]CallID, len(calls))
	var s Span
	s.Begin(0)
	for _, e := range events {
		if !e.end {
			ids[e.call] = s.CallBegin(at(e.at * ms))
			continue
		}
		service, work := report((calls[e.call][1] - calls[e.call][0]) * ms)
		s.CallEnd(at(e.at*ms), ids[e.call], service, work, true)
	}
	return s.End(at(end))
}

// Calls in a row add up, whatever they waited for.
func TestSequentialCallsAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Span
		now, own, service := time.Duration(0), time.Duration(0), time.Duration(0)
		s.Begin(at(now))
		n := rapid.IntRange(0, 10).Draw(t, "calls")
		for range n {
			gap := time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "gap"))
			wall := time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "wall"))
			part := time.Duration(rapid.Int64Range(0, int64(wall)).Draw(t, "service"))
			now += gap
			id := s.CallBegin(at(now))
			now += wall
			s.CallEnd(at(now), id, part, part, true)
			own += gap
			service += part
		}
		r := s.End(at(now))
		if r.Service != own+service || r.Work != own+service || r.Own != own || r.Stages != n || r.DOP() != 1 {
			t.Fatalf("%s, want own %v, of the calls %v", text(r), own, service)
		}
	})
}

func TestEqualCallsSideBySide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "calls")
		wall := time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "wall"))
		part := time.Duration(rapid.Int64Range(0, int64(wall)).Draw(t, "service"))
		var s Span
		s.Begin(0)
		ids := make([]CallID, n)
		for i := range ids {
			ids[i] = s.CallBegin(0)
		}
		for _, id := range ids {
			s.CallEnd(at(wall), id, part, part, true)
		}
		r := s.End(at(wall))
		if r.DOP() != float64(n) || r.Service != part || r.Work != part*time.Duration(n) || r.Stages != 1 {
			t.Fatalf("%s, want DOP %d, service %v", text(r), n, part)
		}
	})
}

// The order of the ends does not matter: it is the same calls.
func TestOrderOfEndsIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "calls")
		type part struct{ from, service, work time.Duration }
		parts := make([]part, n)
		for i := range parts {
			parts[i] = part{time.Duration(rapid.Int64Range(0, 100).Draw(t, "from")), time.Duration(rapid.Int64Range(0, 300).Draw(t, "service")),
				time.Duration(rapid.Int64Range(0, 1000).Draw(t, "work"))}
		}
		sort.Slice(parts, func(i, j int) bool { return parts[i].from < parts[j].from })
		run := func(order []int) Result {
			var s Span
			s.Begin(0)
			ids := make([]CallID, n)
			for i, p := range parts {
				ids[i] = s.CallBegin(at(p.from))
			}
			for _, i := range order {
				s.CallEnd(at(200), ids[i], parts[i].service, parts[i].work, true)
			}
			return s.End(at(250))
		}
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		want := run(order)
		if got := run(rapid.Permutation(order).Draw(t, "order")); got != want {
			t.Fatalf("%s, in order %s", text(got), text(want))
		}
	})
}

// model is a Span written down plainly: all intervals, and sums over them.
type model struct {
	now        int64
	waits      []int64 // instants at which the number of waits changed
	waitLevels []int
	calls      []modelCall
	byID       map[CallID]int
}

type modelCall struct {
	from, to      int64
	service, work int64
	ended         bool
}

// result counts nanosecond by nanosecond.
func (m *model) result(end int64) Result {
	var r Result
	level := func(t int64) int {
		n := 0
		for i, at := range m.waits {
			if at <= t {
				n = m.waitLevels[i]
			}
		}
		return n
	}
	to := func(c modelCall) int64 {
		if c.ended {
			return c.to
		}
		return end
	}
	for t := int64(0); t < end; t++ {
		open := false
		for _, c := range m.calls {
			open = open || c.from <= t && t < to(c)
		}
		switch {
		case open:
			r.Staged++
		case level(t) > 0:
			r.Waited++
		default:
			r.Own++
		}
	}
	r.Wall = time.Duration(end)
	for _, c := range m.calls {
		r.Called += time.Duration(to(c) - c.from)
		work := c.work
		if !c.ended {
			work = end - c.from
		}
		r.Work += time.Duration(work)
	}
	r.Work += r.Own
	return r
}

// Random events: whatever happens, and whatever is claimed, the times are those
// of a plain count, and the invariants hold.
func TestAgainstACount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Span
		began := mono.Time(rapid.Int64Range(-1000, 1000).Draw(t, "began"))
		s.Begin(began)
		m := model{byID: map[CallID]int{}}
		var ids []CallID
		waits := 0
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			m.now += rapid.Int64Range(0, 20).Draw(t, "step")
			now := began.Add(time.Duration(m.now))
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				s.BeginWait(now)
				waits++
				m.waits, m.waitLevels = append(m.waits, m.now), append(m.waitLevels, waits)
			case 1:
				s.EndWait(now)
				waits = max(waits-1, 0)
				m.waits, m.waitLevels = append(m.waits, m.now), append(m.waitLevels, waits)
			case 2:
				id := s.CallBegin(now)
				if _, twice := m.byID[id]; twice || id == 0 {
					t.Fatalf("id %d was given before", id)
				}
				m.byID[id] = len(m.calls)
				m.calls = append(m.calls, modelCall{from: m.now})
				ids = append(ids, id)
			default:
				if len(ids) == 0 {
					break
				}
				// Any call, also one that has ended.
				id := rapid.SampledFrom(ids).Draw(t, "id")
				service, work := rapid.Int64().Draw(t, "service"), rapid.Int64().Draw(t, "work")
				reported := rapid.Bool().Draw(t, "reported")
				s.CallEnd(now, id, time.Duration(service), time.Duration(work), reported)
				if c := &m.calls[m.byID[id]]; !c.ended {
					wall := m.now - c.from
					c.ended, c.to = true, m.now
					c.service = min(max(service, 0), wall)
					c.work = min(max(work, c.service), wall*MaxParallel)
					if !reported {
						c.service, c.work = wall, wall
					}
				}
			}
			check(t, s.At(now))
		}
		m.now += rapid.Int64Range(0, 20).Draw(t, "step")
		want := m.result(m.now)
		before := s.At(began.Add(time.Duration(m.now)))
		got := s.End(began.Add(time.Duration(m.now)))
		check(t, got)
		if got != before || got != s.End(mono.Never) || got != s.At(0) {
			t.Fatalf("End, At before, End and At after differ: %s, %s", text(got), text(before))
		}
		want.Service, want.Stages = got.Service, got.Stages // not in the plain count
		if got != want {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
	})
}

func check(t *rapid.T, r Result) {
	switch {
	case r.Wall != r.Own+r.Waited+r.Staged:
		t.Fatalf("%s: wall is not the sum of its parts", text(r))
	case r.Own < 0 || r.Waited < 0 || r.Staged < 0 || r.Called < r.Staged:
		t.Fatalf("%s: a part is negative", text(r))
	case r.Service < r.Own || r.Service > r.Own+r.Staged:
		t.Fatalf("%s: service out of own to own and stages", text(r))
	case r.Work < r.Service:
		t.Fatalf("%s: less work than service", text(r))
	}
}

// A call graph run by spans: what the entry ends with is at most the time on its
// clock and no less than what it did itself, and all its work is the sum of what
// every process did.
func TestTreeOfSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ownWork time.Duration
		// visit plays one process from now on and returns when it ended.
		var visit func(now mono.Time, depth int) (Result, mono.Time)
		visit = func(now mono.Time, depth int) (Result, mono.Time) {
			d := func(name string) time.Duration { return time.Duration(rapid.Int64Range(0, 1000).Draw(t, name)) }
			var s Span
			s.Begin(now)
			s.BeginWait(now)
			now = now.Add(d("queue"))
			s.EndWait(now)
			now = now.Add(d("own"))
			stages := 0
			if depth > 0 {
				stages = rapid.IntRange(0, 2).Draw(t, "stages")
			}
			for range stages {
				type answer struct {
					id CallID
					at mono.Time
					r  Result
				}
				var answers []answer
				for range rapid.IntRange(1, 3).Draw(t, "parallel") {
					id := s.CallBegin(now)
					r, ended := visit(now.Add(5), depth-1)
					answers = append(answers, answer{id, ended.Add(5), r})
				}
				sort.Slice(answers, func(i, j int) bool { return answers[i].at < answers[j].at })
				for _, a := range answers {
					s.CallEnd(a.at, a.id, a.r.Service, a.r.Work, true)
					now = a.at
				}
				now = now.Add(d("own"))
			}
			r := s.End(now)
			check(t, r)
			ownWork += r.Own
			return r, now
		}
		r, _ := visit(0, 3)
		if r.Work != ownWork {
			t.Fatalf("%s, the processes did %v", text(r), ownWork)
		}
	})
}

func TestCallsBeyondTheLimitAreCounted(t *testing.T) {
	var s Span
	s.Begin(0)
	ids := make([]CallID, maxCalls+10)
	for i := range ids {
		ids[i] = s.CallBegin(0)
	}
	for i, id := range ids {
		if (id == 0) != (i >= maxCalls) {
			t.Fatalf("call %d has id %d", i, id)
		}
		s.CallEnd(at(ms), id, ms, ms, true)
	}
	r := s.End(at(ms))
	if r.Unmeasured != 10 || r.Service != ms || r.Work != maxCalls*ms {
		t.Errorf("%s, want %d calls of 1 ms and 10 unmeasured", text(r), maxCalls)
	}
}

// A span that begins again takes no end of a call of its past, though that call
// was in the very same place.
func TestOldCallsDoNotReachANewLife(t *testing.T) {
	var s Span
	s.Begin(0)
	open, ended := s.CallBegin(0), s.CallBegin(0)
	s.CallEnd(at(ms), ended, 0, 0, true)
	s.Begin(at(10 * ms))
	s.CallBegin(at(10 * ms))
	s.CallBegin(at(10 * ms))
	for _, old := range []CallID{open, ended, 0, math.MaxUint64} {
		s.CallEnd(at(11*ms), old, 0, 0, true)
	}
	if r := s.End(at(20 * ms)); r.Called != 20*ms || r.Staged != 10*ms {
		t.Errorf("%s, called %v: want two calls open for 10 ms", text(r), r.Called)
	}
}

func TestBeforeBeginAndAfterEndNothingCounts(t *testing.T) {
	var s Span
	for range 2 {
		id := s.CallBegin(at(5))
		s.BeginWait(at(5))
		s.CallEnd(at(6), id, 1, 1, true)
		s.EndWait(at(7))
		if r := s.End(at(9)); r != (Result{}) {
			t.Errorf("%s, want nothing", text(r))
		}
		s.Begin(at(4))
		s.End(at(4))
	}
}

// A clock that jumps to the end of time, or back, breaks nothing.
func TestExtremeInstants(t *testing.T) {
	for _, began := range []mono.Time{math.MinInt64, -1, 0, mono.Never - 1, mono.Never} {
		var s Span
		s.Begin(began)
		ids := make([]CallID, maxCalls)
		for i := range ids {
			ids[i] = s.CallBegin(mono.Time(i) * math.MaxInt64)
		}
		for _, id := range ids[:maxCalls/2] {
			s.CallEnd(mono.Never, id, math.MaxInt64, math.MaxInt64, true)
		}
		s.BeginWait(math.MinInt64)
		r := s.End(mono.Never)
		if r.Wall > MaxWall || r.Wall != r.Own+r.Waited+r.Staged || r.Service > r.Wall || r.Work < r.Service {
			t.Errorf("from %v: %s", began, text(r))
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	var s Span
	var ids [100]CallID
	run := func(n int) func() {
		return func() {
			s.Begin(0)
			s.BeginWait(0)
			s.EndWait(at(ms))
			for i := range n {
				ids[i] = s.CallBegin(at(2 * ms))
			}
			for i := range n {
				s.CallEnd(at(3*ms), ids[i], ms, ms, true)
			}
			s.End(at(4 * ms))
		}
	}
	if n := testing.AllocsPerRun(100, run(len(s.few))); n != 0 {
		t.Errorf("with %d calls: %v allocations", len(s.few), n)
	}
	run(len(ids))()
	if n := testing.AllocsPerRun(100, run(len(ids))); n != 0 {
		t.Errorf("with %d calls, not for the first time: %v allocations", len(ids), n)
	}
}

func BenchmarkSpan(b *testing.B) {
	var s Span
	for b.Loop() {
		s.Begin(0)
		s.BeginWait(0)
		s.EndWait(at(ms))
		id := s.CallBegin(at(2 * ms))
		s.At(at(2 * ms))
		s.CallEnd(at(3*ms), id, ms, ms, true)
		s.End(at(4 * ms))
	}
}
