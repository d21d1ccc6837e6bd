package solr

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/leaks"
	"github.com/spillgate/spillgate/internal/mono"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// fake is a core with a few slots, as its handler shows it: queries end at once, unless a culprit has all
// slots. It was written from what the handler answers on Solr 9.9.
type fake struct {
	mu      sync.Mutex
	boot    int64
	began   time.Time
	from    time.Time // the culprit's begin; zero: none
	until   time.Time // its end; zero: it goes on
	cancels int
	kept    []string // out: kind and for how many milliseconds
	status  int
	answer  string
}

const fakeEvery, fakeCulprit = 20 * time.Millisecond, 7

func newFake() *fake { return &fake{boot: 5, began: time.Now()} }

func (f *fake) serve(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return "solr://" + strings.TrimPrefix(s.URL, "http://") + "/solr/docs"
}

func (f *fake) strike() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from = time.Now()
}

func (f *fake) alive() bool { return !f.from.IsZero() && f.until.IsZero() }

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.URL.Path != "/solr/docs/spillgate":
		w.WriteHeader(http.StatusNotFound)
		return
	case f.status != 0:
		w.WriteHeader(f.status)
		return
	case f.answer != "":
		_, _ = w.Write([]byte(f.answer))
		return
	}
	out := map[string]any{"version": 2, "boot": f.boot}
	if number := r.FormValue("cancel"); number != "" {
		hit := r.Method == http.MethodPost && f.alive() && number == fmt.Sprint(fakeCulprit) && r.FormValue("boot") == fmt.Sprint(f.boot)
		if out["cancelled"] = hit; hit {
			f.until = time.Now()
			f.cancels++
		}
	} else if kind := r.FormValue("keep_out"); kind != "" {
		if out["kept_out"] = r.Method == http.MethodPost; r.Method == http.MethodPost {
			f.kept = append(f.kept, kind+" "+r.FormValue("millis"))
		}
	} else {
		out["queries"], out["ended"], out["collecting_millis"] = f.queries(), int(time.Since(f.began)/fakeEvery)-f.waiting(), 3
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"responseHeader": map[string]any{"status": 0}, "spillgate": out})
}

func (f *fake) waiting() int {
	if !f.alive() {
		return 0
	}
	return int(time.Since(f.from) / fakeEvery)
}

func (f *fake) queries() []any {
	out := []any{}
	now := time.Now()
	add := func(number int, kind, shape string, since time.Time, waiting bool) {
		age := now.Sub(since).Nanoseconds()
		q := map[string]any{"number": number, "kind": kind, "shape": shape, "client": "app", "running_nanos": age, "waiting": waiting, "admitted_nanos": 0,
			"cpu_nanos": 0, "memory_bytes": 0, "cancelled": false}
		if !waiting {
			q["admitted_nanos"], q["cpu_nanos"] = age, age/2
		}
		out = append(out, q)
	}
	if f.alive() {
		add(fakeCulprit, "f00000000000000f", "/select q(body) x10000", f.from, false)
	}
	for i := range f.waiting() {
		add(1000+i, "12", "/select q(body) rows", f.from.Add(time.Duration(i+1)*fakeEvery), true)
	}
	return out
}

func opened(t *testing.T, f *fake) Source {
	t.Helper()
	s, err := Open(t.Context(), f.serve(t), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestCheck(t *testing.T) {
	for url, ok := range map[string]bool{"solr://u:pw@h/solr/docs": true, "solr://h:1/solr/docs/?tls=true": true, "solr://h/solr/docs?tasks=/run/a": true, "solr://h": false, "solr://h/solr": false, "solr://h/solr/a/b": false,
		"http://h/solr/docs": false, "solr://u:pw@h/solr/docs?x=1": false} {
		if err := Check(url); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A look shows who has the slot and who waits for it, and tells their work apart.
func TestLook(t *testing.T) {
	f := newFake()
	s := opened(t, f)
	if _, err := s.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.strike()
	f.mu.Lock()
	f.from = f.from.Add(-time.Second)
	f.mu.Unlock()
	l, err := s.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[uint64]int{}
	for i, task := range l.Sample.Tasks {
		kinds[task.Kind]++
		if text := l.Sessions[i].Statement.Text; !strings.Contains(text, "q(body)") {
			t.Errorf("text %q", text)
		}
	}
	holds, waits := 0, 0
	for _, h := range l.Sample.Holds {
		if l.Sample.Resources[h.Resource].Kind != culprit.Queue {
			continue
		}
		if h.HeldSince != culprit.Unset {
			holds++
		}
		if h.WaitingSince != culprit.Unset {
			waits++
		}
	}
	if n := len(l.Sample.Tasks); n < 40 || holds != 1 || waits != n-1 || len(kinds) != 2 {
		t.Errorf("%d tasks, %d hold, %d wait, %d kinds", n, holds, waits, len(kinds))
	}
}

// A query is cancelled only if the core has it under the number, since the same begin.
func TestAct(t *testing.T) {
	for name, tt := range map[string]struct {
		between func(f *fake)
		step    culprit.Step
		done    bool
		wrong   string
	}{
		"it goes":       {func(*fake) {}, culprit.Statement, true, ""},
		"it is gone":    {func(f *fake) { f.until = time.Now() }, culprit.Statement, false, ""},
		"loaded again":  {func(f *fake) { f.boot = 6 }, culprit.Statement, false, ""},
		"another step":  {func(*fake) {}, culprit.Session, false, "expected statement"},
		"no right":      {func(f *fake) { f.status = http.StatusForbidden }, culprit.Statement, false, "lacks the privilege config-edit"},
		"another shape": {func(f *fake) { f.answer = `{"spillgate":{"version":2,"boot":5}}` }, culprit.Statement, false, "does not tell"},
	} {
		f := newFake()
		s := opened(t, f)
		f.strike()
		l, err := s.Look(t.Context())
		if err != nil || l.Sessions[0].Process != fakeCulprit {
			t.Fatal(err, l)
		}
		f.mu.Lock()
		tt.between(f)
		f.mu.Unlock()
		done, err := s.Act(t.Context(), l.Sample.Tasks[0].ID, tt.step)
		if done != tt.done || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) || f.cancels > 0 != tt.done {
			t.Errorf("%s: %v, %v, %d cancels; expected %v, %q", name, done, err, f.cancels, tt.done, tt.wrong)
		}
	}
}

func TestRefusals(t *testing.T) {
	for answer, want := range map[string]string{
		`<html>`: "another shape", `{}`: "is not that of the handler", `{"spillgate":{"version":1}}`: "version 1, expected 2", `{"spillgate":{"version":2}}`: "boot 0",
		`{"spillgate":{"version":2,"boot":1}}`: "lacks ended or queries", `{"spillgate":{"version":2,"boot":1,"ended":1,"queries":{}}}`: "another shape",
	} {
		f := newFake()
		f.answer = answer
		if s, err := Open(t.Context(), f.serve(t), time.Second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", answer, err, want)
			if s != nil {
				s.Close()
			}
		}
	}
	f := newFake()
	if _, err := Open(t.Context(), f.serve(t)+"x", time.Second); err == nil || !strings.Contains(err.Error(), "--print-setup") {
		t.Errorf("no handler: %v", err)
	}
}

func TestSetup(t *testing.T) {
	if text := Setup("eve"); !strings.Contains(text, `"eve"`) || !strings.Contains(text, "spillgate.solr.QueriesHandler") || !strings.Contains(text, ".${solr.core.name}.tasks<") {
		t.Errorf("%s\nexpected the user, the handler, and a task file for each core", text)
	}
}

// A kind is kept out as the core names it, and a core that does not do so fails.
func TestKeepOut(t *testing.T) {
	f := newFake()
	s := opened(t, f)
	f.strike()
	l, err := s.Look(t.Context())
	if err != nil || l.Sample.Tasks[0].Kind != 0xf00000000000000f {
		t.Fatal(err, l)
	}
	if err := s.KeepOut(t.Context(), l.Sample.Tasks[0].Kind, 2*time.Second); err != nil || len(f.kept) != 1 || f.kept[0] != "f00000000000000f 2000" {
		t.Errorf("%v, %q", err, f.kept)
	}
	f.mu.Lock()
	f.answer = `{"spillgate":{"version":2,"boot":5,"kept_out":false}}`
	f.mu.Unlock()
	if err := s.KeepOut(t.Context(), 1, time.Second); err == nil || !strings.Contains(err.Error(), "does not keep the kind out") {
		t.Error(err)
	}
}

// Whatever a core answers, a look succeeds or says what is wrong, and its sample is one that the engine takes.
func FuzzView(f *testing.F) {
	f.Add([]byte(`{"spillgate":{"version":2,"boot":1,"ended":3,"queries":[{"number":1,"running_nanos":-5,"kind":"zz","shape":"a:%zz"},{"number":1}]}}`))
	f.Add([]byte(`{"spillgate":{"version":2,"boot":1,"ended":-1,"collecting_millis":9223372036854775807,"queries":[{"number":2,"cpu_nanos":9223372036854775807,"admitted_nanos":9223372036854775807}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = decodeCancel(body)
		_ = decodeKeepOut(body)
		v, err := decodeQueries(body)
		if err != nil {
			return
		}
		b := newBuilder("docs")
		engine, err := culprit.New(culprit.Config{Objective: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for look := range 3 {
			l := b.build(mono.Time(1e9+1e8*look), v)
			if d := engine.Observe(&l.Sample); d.Why == culprit.Blind {
				t.Fatalf("the engine does not take the sample: %+v", l.Sample)
			}
		}
	})
}
