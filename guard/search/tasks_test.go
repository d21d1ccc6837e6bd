package search

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/mapped"
	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// A task file shows a node's requests without a question to the node, and takes cancels.
func TestTaskFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "opensearch.tasks")
	f, err := taskfile.Open(path, taskfile.Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := Open(t.Context(), "opensearch://127.0.0.1:1?tasks="+path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	threads, err := f.Resource("search threads", taskfile.Queue)
	if err != nil {
		t.Fatal(err)
	}
	long := f.Begin(taskfile.Task{Key: f.Kind("reports"), Kind: f.Kind("read/search logs-?.? bool range(n) x1000")})
	long.Acquire(threads, 1)
	waits := f.Begin(taskfile.Task{Kind: f.Kind("write/bulk docs x10000")})
	waits.WaitBegin(threads)
	get := f.Begin(taskfile.Task{Kind: f.Kind("read/get docs"), Flags: taskfile.Barred})
	l, err := s.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Sample.Tasks) != 3 || len(l.Sample.Holds) != 2 {
		t.Fatalf("%d tasks, %d holds, expected 3 and 2", len(l.Sample.Tasks), len(l.Sample.Holds))
	}
	var ids [3]uint64
	for i, session := range l.Sessions {
		text, class, database, application, steps := "read/search logs-?.? bool range(n) x1000", statement.Select, "logs-?.?", "reports", true
		which := 0
		if strings.HasPrefix(session.Statement.Text, "write/") {
			which, text, class, database, application = 1, "write/bulk docs x10000", statement.Write, "docs", ""
		} else if strings.HasPrefix(session.Statement.Text, "read/get") {
			which, text, database, application, steps = 2, "read/get docs", "docs", "", false
		}
		ids[which] = l.Sample.Tasks[i].ID
		route := ""
		if which == 1 {
			route = "POST /docs/_bulk"
		}
		if session.Route != route {
			t.Errorf("%s: route %q, expected %q", text, session.Route, route)
		}
		if session.Statement.Text != text || session.Statement.Class != class || session.Database != database || session.Application != application {
			t.Errorf("session %+v, expected %s of class %v, index %s and application %q", session, text, class, database, application)
		}
		task := &l.Sample.Tasks[i]
		if can := task.Steps.Has(culprit.Statement) && task.Barred == culprit.NotBarred; can != steps {
			t.Errorf("%s: steps %b, barred %v, expected that it can be cancelled: %v", text, task.Steps, task.Barred, steps)
		}
	}
	if done, err := s.Act(t.Context(), ids[0], culprit.Statement); !done || err != nil {
		t.Error(done, err)
	}
	if _, cancelled := long.Cancelled(); !cancelled {
		t.Error("the search was not told of its cancel")
	}
	waits.End()
	if done, err := s.Act(t.Context(), ids[1], culprit.Statement); done || err != nil {
		t.Errorf("%v, %v: expected that a request that has ended is gone", done, err)
	}
	if _, err := s.Act(t.Context(), ids[0], culprit.Session); err == nil {
		t.Error("a request has a session to end")
	}
	if err := s.Alive(t.Context()); err != nil {
		t.Error(err)
	}
	keeper, ok := s.(interface {
		KeepOut(ctx context.Context, kind uint64, d time.Duration) error
	})
	if !ok {
		t.Fatal("the node cannot be asked to keep a kind out")
	}
	if err := keeper.KeepOut(t.Context(), l.Sample.Tasks[0].Kind, time.Second); err != nil {
		t.Error(err)
	}
	get.End()
	long.End()
}

// Where the task file is missing, the node is asked, and the looks say so, until the node has made the file.
func TestTaskFileMissing(t *testing.T) {
	path, url := filepath.Join(t.TempDir(), "opensearch.tasks"), newFake().serve(t)
	s, err := Open(t.Context(), url+"?tasks="+path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Notes) != 1 || !strings.Contains(l.Notes[0], path) {
		t.Errorf("notes %q, expected that the task file is not read", l.Notes)
	}
	if err := s.Alive(t.Context()); err != nil {
		t.Errorf("%v: expected that the node is asked on", err)
	}
	f, err := taskfile.Open(path, taskfile.Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Alive(t.Context()); !errors.Is(err, mapped.ErrThere) {
		t.Errorf("%v, expected %v", err, mapped.ErrThere)
	}
	again, err := Open(t.Context(), url+"?tasks="+path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, ok := again.(*mapped.Source); !ok {
		t.Errorf("a source of type %T, expected that the task file is read", again)
	}
}
