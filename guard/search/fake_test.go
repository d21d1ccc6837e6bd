package search

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a node with four search threads, as its interface shows it: searches end at once, unless a
// culprit has all threads. It was written from what OpenSearch 3.4 and Elasticsearch 8.19 answer.
type fake struct {
	mu       sync.Mutex
	elastic  bool
	every    time.Duration // between two searches
	began    time.Time
	stands   time.Time // the clock stands there; zero: it goes
	from     time.Time // the culprit's begin; zero: none
	until    time.Time // its end; zero: it goes on
	noCancel bool      // the role may not
	stubborn bool      // the culprit cannot be cancelled
	start    int64     // of the culprit as the interface tells it, 0: as it is
	cancels  int
	override map[string]string // answers by path
	statuses map[string]int
	password string
}

const fakeNode, fakeCulprit = "nodeA", 7

func newFake() *fake {
	return &fake{every: 20 * time.Millisecond, began: time.Now(), override: map[string]string{}, statuses: map[string]int{}}
}

// serve starts it and returns the URL for a guard.
func (f *fake) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	scheme := "opensearch://"
	if f.elastic {
		scheme = "elasticsearch://"
	}
	return scheme + strings.TrimPrefix(s.URL, "http://")
}

// strike begins the culprit.
func (f *fake) strike() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from, f.until = time.Now(), time.Time{}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, password, _ := r.BasicAuth(); f.password != password {
		http.Error(w, "{}", http.StatusUnauthorized)
		return
	}
	if s := f.statuses[r.URL.Path]; s != 0 {
		w.Header().Set("Location", "http://127.0.0.1:1/")
		http.Error(w, `{"error":"told to"}`, s)
		return
	}
	if text, ok := f.override[r.URL.Path]; ok {
		_, _ = w.Write([]byte(text))
		return
	}
	one := fmt.Sprintf("/_tasks/%s:%d", fakeNode, fakeCulprit)
	var answer any
	switch path := r.URL.Path; {
	case path == "/_nodes/os", path == "/_nodes/_local/os":
		node := map[string]any{"version": "3.4.0", "os": map[string]any{"allocated_processors": 2}}
		if f.elastic {
			node["version"], node["build_flavor"] = "8.19.0", "default"
		}
		answer = map[string]any{"nodes": map[string]any{fakeNode: node}}
	case strings.HasPrefix(path, "/_nodes/stats/"):
		answer = f.stats()
	case path == "/_tasks/_cancel" && f.noCancel:
		w.WriteHeader(http.StatusForbidden)
		return
	case path == "/_tasks/_cancel":
		answer = map[string]any{"nodes": map[string]any{}}
	case path == "/_tasks":
		answer = map[string]any{"nodes": map[string]any{fakeNode: map[string]any{"name": "one", "tasks": f.tasks()}}}
	case path == one && f.alive():
		answer = map[string]any{"completed": false, "task": f.tasks()[one[len("/_tasks/"):]]}
	case path == one+"/_cancel" && r.Method == http.MethodPost:
		answer = f.cancel()
	default:
		w.WriteHeader(http.StatusNotFound)
		answer = map[string]any{"error": map[string]any{"type": "resource_not_found_exception"}}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fake) alive() bool { return !f.from.IsZero() && f.until.IsZero() }

func (f *fake) cancel() any {
	var why map[string]any
	switch {
	case f.stubborn:
		why = map[string]any{"type": "illegal_argument_exception", "reason": "task doesn't support cancellation"}
	case !f.alive():
		why = map[string]any{"type": "resource_not_found_exception", "reason": "task is not found"}
	default:
		tasks := f.tasks()
		f.until = time.Now()
		f.cancels++
		return map[string]any{"nodes": map[string]any{fakeNode: map[string]any{"tasks": tasks}}}
	}
	return map[string]any{"nodes": map[string]any{}, "node_failures": []any{map[string]any{"node_id": fakeNode, "reason": "Failed node", "caused_by": why}}}
}

func (f *fake) now() time.Time {
	if f.stands.IsZero() {
		return time.Now()
	}
	return f.stands
}

// waiting returns how many searches wait.
func (f *fake) waiting() int {
	if !f.alive() {
		return 0
	}
	return int(f.now().Sub(f.from) / f.every)
}

func (f *fake) stats() any {
	total := int(time.Since(f.began)/f.every) - f.waiting()
	active := 0
	if f.alive() {
		active = 4
	}
	pool := func(queue, active int) any {
		return map[string]any{"threads": 4, "queue": queue, "active": active, "rejected": 0, "completed": total}
	}
	search := map[string]any{"query_total": 4 * total}
	if !f.elastic {
		search["request"] = map[string]any{"took": map[string]any{"total": total}}
	}
	return map[string]any{"nodes": map[string]any{fakeNode: map[string]any{
		"thread_pool": map[string]any{"search": pool(4*f.waiting(), active), "write": map[string]any{"queue": 0, "active": 0, "completed": 3}},
		"indices":     map[string]any{"search": search},
		"jvm":         map[string]any{"gc": map[string]any{"collectors": map[string]any{"young": map[string]any{"collection_time_in_millis": 10}}}},
		"process":     map[string]any{"cpu": map[string]any{"total_in_millis": 2 * time.Since(f.began).Milliseconds()}},
		"breakers":    map[string]any{"parent": map[string]any{"tripped": 0}}}}}
}

// tasks shows the culprit with four parts that run, and each search with four that wait.
func (f *fake) tasks() map[string]any {
	out := map[string]any{}
	now := f.now()
	add := func(id int, action, text, parent string, since time.Time, runs bool) {
		age := now.Sub(since)
		start := since.UnixMilli()
		if id == fakeCulprit && f.start != 0 {
			start = f.start
		}
		t := map[string]any{"node": fakeNode, "id": id, "type": "transport", "action": action, "description": text, "start_time_in_millis": start,
			"running_time_in_nanos": age.Nanoseconds(), "cancellable": true, "cancelled": false, "headers": map[string]any{"X-Opaque-Id": "app"}}
		if parent != "" {
			t["parent_task_id"] = parent
		}
		if !f.elastic {
			n, cpu := 0, time.Duration(0)
			if runs {
				n, cpu = 1, age/2
			}
			t["resource_stats"] = map[string]any{"total": map[string]any{"cpu_time_in_nanos": cpu.Nanoseconds(), "memory_in_bytes": 0},
				"thread_info": map[string]any{"thread_executions": n, "active_threads": n}}
		}
		out[fmt.Sprintf("%s:%d", fakeNode, id)] = t
	}
	whole := func(id, clauses int, since time.Time, runs bool) {
		text := `indices[docs], search_type[QUERY_THEN_FETCH], source[{"size":10,"query":{"bool":{"should":[` + strings.Repeat(`{"match":{"body":"secret"}},`, clauses) + `{"match":{"body":"x"}}]}}}]`
		add(id, "indices:data/read/search", text, "", since, false)
		for shard := range 4 {
			add(1_000_000+10*id+shard, "indices:data/read/search[phase/query]", fmt.Sprintf("shardId[[docs][%d]]", shard), fmt.Sprintf("%s:%d", fakeNode, id), since, runs)
		}
	}
	if f.alive() {
		whole(fakeCulprit, 4000, f.from, true)
	}
	for i := range f.waiting() {
		whole(100+i+int(f.from.UnixMilli()%1e6), 1, f.from.Add(time.Duration(i+1)*f.every), false)
	}
	return out
}
