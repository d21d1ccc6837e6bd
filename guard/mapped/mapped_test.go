package mapped

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/taskfile"
)

// A file is looked at by one guard at a time, names appear when the server gives them, and a file that was replaced is
// noticed.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	f, err := Attach(path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if second, err := Attach(path, time.Second); err == nil {
		second.Close()
		t.Error("a second guard looks at the file")
	}
	server, err := taskfile.Open(path, taskfile.Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	kind := taskfile.Fingerprint("GET /")
	if name := f.Name(kind); name != "" {
		t.Errorf("a kind has the name %q before the server gave it", name)
	}
	server.Kind("GET /")
	if name := f.Name(kind); name != "GET /" {
		t.Errorf("a kind has the name %q, expected GET /", name)
	}
	slot := server.Begin(taskfile.Task{Kind: kind})
	l, err := f.Look()
	if err != nil || len(l.Sample.Tasks) != 1 || l.Sample.Tasks[0].Kind != kind {
		t.Fatalf("%+v, %v: expected the server's task", l, err)
	}
	if done, err := f.Cancel(l.Sample.Tasks[0].ID); !done || err != nil {
		t.Error(done, err)
	}
	slot.End()
	if done, err := f.Cancel(l.Sample.Tasks[0].ID); done || err != nil {
		t.Errorf("%v, %v: expected that the task is gone", done, err)
	}
	if err := f.Alive(); err != nil {
		t.Error(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if f.Alive() == nil {
		t.Error("the file is gone, and nothing is said")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f.Alive() == nil {
		t.Error("the file was replaced, and nothing is said")
	}
}
