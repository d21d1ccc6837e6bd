package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func TestCheck(t *testing.T) {
	for url, want := range map[string]string{
		"opensearch://u:pw@h":                   "",
		"elasticsearch://h:9201/?tls=true":      "",
		"opensearch://h:9200?tls=skip-verify":   "",
		"opensearch://h:9200?tls=maybe":         "tls=maybe, expected true or skip-verify",
		"opensearch://h:9200?user=x":            `parameter "user"`,
		"opensearch://h:9200?tasks=/x&tls=true": "",
		"elasticsearch://h:9200?tasks=/x":       "",
		"opensearch://h:9200/index":             `the path "/index"`,
		"opensearch://u:pw@:9200":               "cannot be read",
		"opensearch://u:pw@h:port":              "cannot be read",
		"opensearch://h:9200?ca=/does/not/be":   "no such file",
		"opensearch://u:pw@h:9200?ca=/dev/null": "holds no certificate",
	} {
		err := Check(url)
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) || strings.Contains(got, "pw") {
				t.Errorf("%s: %q, expected %q", url, got, want)
			}
		} else if want != "" {
			t.Errorf("%s: no error, expected %q", url, want)
		}
	}
}

func opened(t *testing.T, f *fake) *cluster {
	t.Helper()
	s, err := Open(t.Context(), f.serve(t), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.(*cluster)
}

// A look shows who has the threads and who waits for them, with both servers.
func TestLook(t *testing.T) {
	for _, elastic := range []bool{false, true} {
		f := newFake()
		f.elastic = elastic
		s := opened(t, f)
		if _, err := s.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.strike()
		f.mu.Lock()
		f.from = f.from.Add(-time.Second)
		f.stands = time.Now() // because a look asks twice
		f.mu.Unlock()
		l, err := s.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Sample.Tasks) < 40 || len(l.Sample.Tasks) > 1000 {
			t.Fatalf("%d tasks, expected the culprit and some 50 that wait; parts are no tasks", len(l.Sample.Tasks))
		}
		holds, waits := 0, 0
		for _, h := range l.Sample.Holds {
			switch name := l.Sample.Resources[h.Resource].Name; {
			case h.HeldSince != culprit.Unset && l.Sessions[h.Task].Process == fakeCulprit:
				holds++
				if name != "search threads" || h.Used != 4 || h.WaitingSince != culprit.Unset {
					t.Errorf("elastic %v: the culprit holds %d of %s, waits since %v", elastic, h.Used, name, h.WaitingSince)
				}
			case h.WaitingSince != culprit.Unset:
				waits++
			}
		}
		if holds != 1 || waits != len(l.Sample.Tasks)-1 {
			t.Errorf("elastic %v: %d hold and %d wait, expected 1 and %d", elastic, holds, waits, len(l.Sample.Tasks)-1)
		}
		session := l.Sessions[0]
		if session.Application != "app" || session.Database != "docs" || session.Statement.Class != statement.Select || strings.Contains(session.Statement.Text, "secret") {
			t.Errorf("session %+v", session)
		}
		kinds := map[uint64]int{}
		for _, task := range l.Sample.Tasks {
			kinds[task.Kind]++
		}
		if len(kinds) != 2 {
			t.Errorf("%d kinds, expected that of the searches and that of one with a thousand times as many terms", len(kinds))
		}
	}
}

// Of writes, the part that has no parts of its own waits or runs, and OpenSearch measures none. The part of an update
// names no parent, and counts for it.
func TestWrites(t *testing.T) {
	tasks := map[string]json.RawMessage{}
	add := func(id, parent int, action string) { // the larger the number the younger
		up := ""
		if parent != 0 {
			up = fmt.Sprintf(`"parent_task_id":"a:%d",`, parent)
		}
		tasks[fmt.Sprintf("a:%d", id)] = json.RawMessage(fmt.Sprintf(`{"node":"a","id":%d,"action":"indices:data/write/%s",%s"start_time_in_millis":5,"running_time_in_nanos":%d,
			"resource_stats":{"total":{"cpu_time_in_nanos":0},"thread_info":{"thread_executions":0,"active_threads":0}}}`, id, action, up, 100-id))
	}
	add(1, 0, "bulk")
	add(2, 1, "bulk[s]")
	add(3, 2, "bulk[s][p]")
	add(10, 0, "update") // has read, and writes
	add(11, 0, "update[s]")
	add(12, 11, "bulk")
	add(13, 12, "bulk[s]")
	add(14, 13, "bulk[s][p]")
	add(20, 0, "update")
	add(21, 0, "update[s]")
	add(30, 0, "update")
	add(31, 0, "update[s]")
	body, err := json.Marshal(map[string]any{"nodes": map[string]any{"a": map[string]any{"tasks": tasks}}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := decodeTasks(body)
	if err != nil {
		t.Fatal(err)
	}
	l := newBuilder().build(&input{at: 1e9, tasks: v, nodes: map[string]nodeView{"a": {Pools: map[string]poolView{"write": {Queue: 3, Active: 1}}}}})
	holds, waits := []int64{}, []int64{}
	for _, h := range l.Sample.Holds {
		if h.Resource == writePool && h.HeldSince != culprit.Unset {
			holds = append(holds, l.Sessions[h.Task].Process)
		}
		if h.Resource == writePool && h.WaitingSince != culprit.Unset {
			waits = append(waits, l.Sessions[h.Task].Process)
		}
		if h.WaitTime != 0 {
			t.Errorf("%+v lost time without having waited before", h)
		}
	}
	if len(l.Sample.Tasks) != 4 || !slices.Equal(holds, []int64{1}) || !slices.Equal(waits, []int64{11, 21, 31}) {
		t.Errorf("%d tasks, %v wait, %v hold a thread; expected 4, the updates' parts and the bulk request", len(l.Sample.Tasks), waits, holds)
	}
}

// A search that a server measures waits until it was on a thread, whatever older statistics say of the queue. One that
// a server does not measure may be on one.
func TestFirstThread(t *testing.T) {
	for measured, want := range map[int]int{1: 1, 0: 0} {
		one := func(id, executions int) string {
			return fmt.Sprintf(`"a:%d":{"node":"a","id":%d,"action":"indices:data/read/search[phase/query]","start_time_in_millis":5,"running_time_in_nanos":9,
				"resource_stats":{"total":{},"thread_info":{"thread_executions":%d,"active_threads":%d}}}`, id, id, executions, executions)
		}
		v, err := decodeTasks([]byte(`{"nodes":{"a":{"tasks":{` + one(1, measured) + `,` + one(2, 0) + `}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		l := newBuilder().build(&input{at: 1e9, tasks: v, nodes: map[string]nodeView{"a": {Pools: map[string]poolView{"search": {Active: 4}}}}})
		waits := 0
		for _, h := range l.Sample.Holds {
			if h.WaitingSince != culprit.Unset {
				waits++
			}
		}
		if waits != want {
			t.Errorf("%d executions of the first: %d wait, expected %d", measured, waits, want)
		}
	}
}

// theCulprit returns the ID of the culprit at a look.
func theCulprit(t *testing.T, s *cluster) uint64 {
	t.Helper()
	l, err := s.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.Sessions {
		if l.Sessions[i].Process == fakeCulprit {
			return l.Sample.Tasks[i].ID
		}
	}
	t.Fatal("the culprit is not seen")
	return 0
}

// A task is cancelled only if it is still the one that was seen.
func TestAct(t *testing.T) {
	for name, tt := range map[string]struct {
		between func(f *fake)
		step    culprit.Step
		done    bool
		wrong   string
	}{
		"it goes":                {func(*fake) {}, culprit.Statement, true, ""},
		"it is gone":             {func(f *fake) { f.until = time.Now() }, culprit.Statement, false, ""},
		"another has its number": {func(f *fake) { f.start = 1 }, culprit.Statement, false, ""},
		"it cannot be":           {func(f *fake) { f.stubborn = true }, culprit.Statement, false, "doesn't support cancellation"},
		"another step":           {func(*fake) {}, culprit.Session, false, "expected statement"},
		"no right": {func(f *fake) { f.statuses["/_tasks/nodeA:7/_cancel"] = http.StatusForbidden }, culprit.Statement, false,
			"lacks the privilege cluster:admin/tasks/cancel"},
		"another shape": {func(f *fake) { f.override["/_tasks/nodeA:7"] = `{"task":[]}` }, culprit.Statement, false, "another shape"},
	} {
		f := newFake()
		s := opened(t, f)
		f.strike()
		id := theCulprit(t, s)
		f.mu.Lock()
		tt.between(f)
		f.mu.Unlock()
		done, err := s.Act(t.Context(), id, tt.step)
		if done != tt.done || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: %v, %v; expected %v, %q", name, done, err, tt.done, tt.wrong)
		}
		if f.cancels > 0 != tt.done {
			t.Errorf("%s: %d cancels", name, f.cancels)
		}
	}
}

// What is not as expected fails the look, and says how.
func TestRefusals(t *testing.T) {
	const stats = "/_nodes/stats/thread_pool,jvm,process,breaker,indices/search"
	for name, tt := range map[string]struct {
		spoil func(f *fake)
		want  string
	}{
		"password": {func(f *fake) { f.password = "x" }, "refuses user or password"},
		"no right": {func(f *fake) { f.statuses["/_tasks"] = http.StatusForbidden }, "lacks the privilege cluster:monitor/tasks/lists"},
		"moved":    {func(f *fake) { f.statuses["/_tasks"] = http.StatusFound }, "answers 302"},
		"other server": {func(f *fake) {
			f.override["/_nodes/os"] = `{"nodes":{"b":{"version":"8.19.0","build_flavor":"default"}}}`
		}, "use elasticsearch://"},
		"no server":         {func(f *fake) { f.override["/_nodes/os"] = `<html>` }, "another shape"},
		"no version":        {func(f *fake) { f.override["/_nodes/os"] = `{"nodes":{"b":{}}}` }, "does not tell the version"},
		"describes nothing": {func(f *fake) { f.override["/_nodes/os"] = `{}` }, "describes no node"},
		"no JSON":           {func(f *fake) { f.override["/_tasks"] = `{"nodes":` }, "another shape"},
		"no nodes":          {func(f *fake) { f.override["/_tasks"] = `{}` }, "has no nodes"},
		"a node is away": {func(f *fake) {
			f.override["/_tasks"] = `{"nodes":{},"node_failures":[{"node_id":"b","reason":"gone"}]}`
		}, "node b: gone"},
		"other fields": {func(f *fake) {
			f.override["/_tasks"] = `{"nodes":{"b":{"tasks":{"b:1":{"node":"b","id":1,"action":"x"}}}}}`
		}, "lacks node, id"},
		"other number": {func(f *fake) {
			f.override["/_tasks"] = `{"nodes":{"b":{"tasks":{"b:1":{"node":"b","id":2,"action":"x","start_time_in_millis":1,"running_time_in_nanos":1}}}}}`
		}, "contradicts"},
		"no pools":      {func(f *fake) { f.override[stats] = `{"nodes":{"b":{}}}` }, "no thread pool search"},
		"no statistics": {func(f *fake) { f.override[stats] = `{"nodes":{}}` }, "show no node"},
	} {
		f := newFake()
		tt.spoil(f)
		s, err := Open(t.Context(), f.serve(t), time.Second)
		if err == nil {
			_, err = s.Look(t.Context())
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, expected %q", name, err, tt.want)
		}
	}
}

// A list in detail is asked for as often as its size allows.
func TestDetails(t *testing.T) {
	f := newFake()
	s := opened(t, f)
	for i, tt := range []struct {
		due  time.Duration // from now
		want bool
	}{{-time.Hour, true}, {time.Hour, false}, {-time.Hour, true}} {
		s.due = time.Now().Add(tt.due)
		was := s.due
		if _, err := s.Look(t.Context()); err != nil || s.in.detailed != tt.want || s.due.Equal(was) == tt.want {
			t.Errorf("look %d: %v, in detail %v, expected %v", i, err, s.in.detailed, tt.want)
		}
	}
	f.override["/_tasks"] = `{"nodes":{}}` + strings.Repeat(" ", detailRate)
	s.due = time.Time{}
	began := time.Now()
	if _, err := s.Look(t.Context()); err != nil || s.due.Before(began.Add(time.Second)) {
		t.Errorf("%v; after an answer for a second the next one is due after %v", err, s.due.Sub(began))
	}
}

// After a list in detail that failed the next ones have no texts: it may have been too large to be answered in time.
func TestDetailsFail(t *testing.T) {
	f := newFake()
	s := opened(t, f)
	s.due = time.Time{}
	f.statuses["/_tasks"] = http.StatusInternalServerError
	if _, err := s.Look(t.Context()); err == nil || !s.in.detailed {
		t.Fatalf("%v, in detail %v", err, s.in.detailed)
	}
	delete(f.statuses, "/_tasks")
	if _, err := s.Look(t.Context()); err != nil || s.in.detailed {
		t.Errorf("%v, in detail %v right after one that failed", err, s.in.detailed)
	}
}

// Of a node that has joined the cluster, the guard asks how many processors it has.
func TestNewNode(t *testing.T) {
	f := newFake()
	s := opened(t, f)
	delete(s.in.processors, fakeNode) // as if it had come since
	if _, err := s.Look(t.Context()); err != nil || s.in.processors[fakeNode] != 2 {
		t.Errorf("%v, %v processors, expected 2", err, s.in.processors[fakeNode])
	}
	// One that does not describe itself is not asked for at each look, nor does an answer that fails blind the next looks.
	delete(s.in.processors, fakeNode)
	f.statuses["/_nodes/os"] = http.StatusInternalServerError
	for range 3 {
		if _, err := s.Look(t.Context()); err != nil {
			t.Errorf("right after it was asked for: %v", err)
		}
	}
	s.asked = time.Now().Add(-nodesAgain)
	if _, err := s.Look(t.Context()); err == nil {
		t.Error("it is never asked for again")
	}
}

// Without the right to cancel the guard looks, and says what is missing.
func TestMayNotCancel(t *testing.T) {
	f := newFake()
	f.noCancel = true
	s := opened(t, f)
	f.strike()
	l, err := s.Look(t.Context())
	if err != nil || len(l.Notes) != 1 || !strings.Contains(l.Notes[0], "cluster:admin/tasks/cancel") || l.Sample.Tasks[0].Steps != 0 {
		t.Errorf("%v, notes %q, steps %v", err, l.Notes, l.Sample.Tasks[0].Steps)
	}
}

// A look that hangs ends.
func TestHangs(t *testing.T) {
	f := newFake()
	s := opened(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Look(ctx); err == nil || errors.Is(err, track.ErrLate) {
		t.Errorf("%v, expected that the look was given up", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := s.Look(ctx); !errors.Is(err, track.ErrLate) {
		t.Errorf("%v, expected that it is late", err)
	}
}

func TestSetup(t *testing.T) {
	text := Setup("eve")
	for _, want := range []string{rightTasks, rightStats, rightCancel, `"eve"`, "_plugins/_security", "PUT _security/role"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestStatements(t *testing.T) {
	of := func(action, text string) statement.Statement { return statementOf(action, text, sortOf(action).class) }
	const search, bulk = "indices:data/read/search", "indices:data/write/bulk"
	source := func(json string) string {
		return "indices[logs-2026.11.25], search_type[QUERY_THEN_FETCH], source[" + json + "]"
	}
	same := [][2]string{
		{source(`{"query":{"terms":{"n":[1,2,3]}}}`), "indices[logs-2026.11.26], search_type[QUERY_THEN_FETCH], source[" + `{"query":{"terms":{"n":[4]}}}` + "]"},
		{source(`{"query":{"match":{"a":"x \" y"}},"size":10}`), source(`{"size":7, "query": {"match": {"a": "other"}}}`)},
	}
	for _, pair := range same {
		if a, b := of(search, pair[0]), of(search, pair[1]); a != b {
			t.Errorf("%+v\n%+v: expected the same", a, b)
		}
	}
	other := [][2]string{
		{source(`{"query":{"match":{"a":"x"}}}`), source(`{"query":{"match":{"b":"x"}}}`)},
		{source(`{"query":{"terms":{"n":[1]}}}`), source(`{"query":{"terms":{"n":[` + strings.Repeat("1,", 2000) + `1]}}}`)},
		{source(`{"query":{"match_all":{}}}`), source(`{"query":{"match_all":{}},"aggs":{"a":{"terms":{"field":"x"}}}}`)},
	}
	for _, pair := range other {
		if a, b := of(search, pair[0]), of(search, pair[1]); a.Fingerprint == b.Fingerprint {
			t.Errorf("%s\nexpected to differ from the text of\n%s", a.Text, pair[1][:min(len(pair[1]), 100)])
		}
	}
	small, large := of(bulk, "requests[12], indices[docs]"), of(bulk, "requests[100000], indices[docs]")
	if small.Fingerprint == large.Fingerprint || small.Class != statement.Write || small != of(bulk, "requests[99], indices[docs]") {
		t.Errorf("%+v, %+v: expected a bulk of 100,000 to be other work", small, large)
	}
	if s := of("indices:data/write/index", "index {[docs][secret-name], source[{\"a\":\"secret\"}]}"); strings.Contains(s.Text, "secret") {
		t.Errorf("%q has the name of a document", s.Text)
	}
}

func TestSorts(t *testing.T) {
	for action, want := range map[string]sort{
		"indices:data/read/search":                  {statement.Select, culprit.NotBarred, false},
		"indices:data/read/msearch":                 {statement.Select, culprit.NotBarred, false},
		"indices:data/write/bulk":                   {statement.Write, culprit.NotBarred, false},
		"indices:data/write/update/byquery":         {statement.Write, culprit.NotBarred, true},
		"indices:data/read/xpack/ccr/shard_changes": {statement.Replication, culprit.Replication, true},
		"indices:admin/forcemerge":                  {statement.Vacuum, culprit.Maintenance, true},
		"indices:admin/mapping/put":                 {statement.Schema, culprit.Schema, true},
		"cluster:admin/snapshot/create":             {statement.Backup, culprit.Backup, true},
		"cluster:something/new":                     {statement.Other, culprit.Maintenance, true},
	} {
		if got := sortOf(action); got != want {
			t.Errorf("%s: %+v, expected %+v", action, got, want)
		}
	}
}

// Bulk requests are named as the proxy names them; searches of one path are not all alike.
func TestRoutes(t *testing.T) {
	for _, tt := range [][3]string{{"indices:data/write/bulk", "docs", "POST /docs/_bulk"}, {"indices:data/write/bulk", "a, b", "POST /_bulk"}, {"indices:data/write/bulk", "logs-2026.11", "POST /*/_bulk"},
		{"indices:data/write/bulk", "", "POST /_bulk"}, {"indices:data/read/search", "docs", ""}} {
		if got := routeOf(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s of %s: %q, expected %q", tt[0], tt[1], got, tt[2])
		}
	}
}

// Completions are what nodes counted since the look before, never less than none.
func TestCompleted(t *testing.T) {
	node := func(requests, shards, writes int64) (n nodeView) {
		n.Indices.Search.Request.Took.Total, n.Indices.Search.Shards = requests, shards
		n.Pools = map[string]poolView{"write": {Completed: writes}}
		return n
	}
	b := newBuilder()
	b.shards = 4
	for i, tt := range []struct {
		nodes map[string]nodeView
		want  uint64
	}{
		{map[string]nodeView{"a": node(100, 400, 7)}, 0},                        // all of it was before
		{map[string]nodeView{"a": node(103, 412, 9), "b": node(50, 50, 50)}, 5}, // b is new
		{map[string]nodeView{"a": node(1, 4, 1), "b": node(51, 54, 50)}, 1},     // a was restarted
		{map[string]nodeView{"a": node(1, 4, 1)}, 0},                            // b is away
		{map[string]nodeView{"c": node(0, 100, 0)}, 0},
		{map[string]nodeView{"c": node(0, 110, 0)}, 2}, // ten parts of searches with four
		{map[string]nodeView{"c": node(0, 112, 0)}, 1}, // and the half that was left
	} {
		if got := b.completed(tt.nodes, nil); got != tt.want {
			t.Errorf("look %d: %d, expected %d", i, got, tt.want)
		}
		b.nodes = tt.nodes
	}
}

func TestProgress(t *testing.T) {
	for text, want := range map[string][2]uint64{
		`{"total":100,"updated":20,"created":1,"deleted":2,"noops":3,"version_conflicts":4}`: {30, 100},
		`{"phase":"query"}`: {}, ``: {}, `[]`: {}, `{"total":-1,"updated":5}`: {}, `{"total":5,"updated":-5}`: {0, 5},
	} {
		if done, total := progress([]byte(text)); done != want[0] || total != want[1] {
			t.Errorf("%s: %d of %d, expected %v", text, done, total, want)
		}
	}
}

// Whatever a server answers, a look succeeds or says what is wrong, and its sample is one that the
// engine takes.
func FuzzViews(f *testing.F) {
	f.Add([]byte(`{"nodes":{"a":{"tasks":{"a:1":{"node":"a","id":1,"action":"indices:data/read/search[phase/query]","description":"indices[x], source[{\"a\":[1,{\"b\":2}]}]","start_time_in_millis":1,"running_time_in_nanos":5,"parent_task_id":"a:1","resource_stats":{"total":{"cpu_time_in_nanos":-1},"thread_info":{"active_threads":9223372036854775807}}}}}}}`),
		[]byte(`{"nodes":{"a":{"thread_pool":{"search":{"queue":-5,"completed":-9}},"process":{"cpu":{"total_in_millis":9223372036854775807}}}}}`))
	f.Add([]byte(`{"nodes":{}}`), []byte(`{"nodes":{"a":{"thread_pool":{"search":{"queue":1}}}}}`))
	f.Fuzz(func(t *testing.T, tasks, stats []byte) {
		v, err := decodeTasks(tasks)
		if err != nil {
			return
		}
		nodes, err := decodeStats(stats)
		if err != nil {
			return
		}
		b := newBuilder()
		engine, err := culprit.New(culprit.Config{Objective: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for look := range 3 {
			l := b.build(&input{at: 1e9 + 1e8*mono.Time(look), tasks: v, nodes: nodes, detailed: look != 1, mayCancel: true})
			if d := engine.Observe(&l.Sample); d.Why == culprit.Blind {
				t.Fatalf("the engine does not take the sample: %+v", l.Sample)
			}
		}
	})
}

func FuzzShape(f *testing.F) {
	f.Add(`indices[a,b], source[{"x":[1,"a\"",{"k":null}]}]`)
	f.Add(`{"` + strings.Repeat("[", 200))
	f.Fuzz(func(t *testing.T, text string) {
		s := statementOf("indices:data/read/search", text, statement.Select)
		if s.Fingerprint == 0 || len(s.Text) > longestShape {
			t.Errorf("%+v of %q", s, text)
		}
	})
}
