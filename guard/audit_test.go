package guard

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/internal/mono"
)

// incident is a server's looks of 15 s, of which a session keeps five others waiting from the tenth on.
func incident(each func(i int, s *culprit.Sample)) {
	tracker := track.New([]culprit.Resource{{Name: "lock", Kind: culprit.Lock}})
	since := mono.Time(10 * time.Second)
	for i := range 150 {
		now := mono.Time(i+1) * mono.Time(100*time.Millisecond)
		tracker.Begin(now)
		completed := uint64(20)
		if now > since {
			completed = 0
			holder := tracker.Task(track.Key{Process: 1}, since)
			task, _ := tracker.At(holder)
			task.Kind, task.Steps = 7, culprit.StepsOf(culprit.Session)
			tracker.Holds(holder, 0, since, 0, false)
			for k := range int64(5) {
				victim := tracker.Task(track.Key{Process: 2 + k}, since)
				tracker.Waits(victim, 0, since)
				tracker.Edge(victim, holder, 0)
			}
		}
		each(i, &tracker.End(completed).Sample)
	}
}

// full is a disk that takes a part of what is written, or nothing, while it is full.
type full struct {
	bytes.Buffer
	room int // bytes; -1: it is not full
}

func (f *full) Write(p []byte) (int, error) {
	if f.room < 0 {
		return f.Buffer.Write(p)
	}
	n, _ := f.Buffer.Write(p[:min(f.room, len(p))])
	return n, io.ErrShortWrite
}

// TestAFullDiskCostsNoOtherDecisions: what is written once there is room again can be computed again, that of another
// server in the same log too.
func TestAFullDiskCostsNoOtherDecisions(t *testing.T) {
	for _, room := range []int{0, 1, 12, 40, 400} {
		disk := &full{room: -1}
		a := NewAudit(disk, slog.New(slog.DiscardHandler))
		cfg := culprit.Config{Objective: 500 * time.Millisecond}
		one, err := a.engine("one", cfg)
		if err != nil {
			t.Fatal(err)
		}
		two, err := a.engine("two", cfg)
		if err != nil {
			t.Fatal(err)
		}
		incident(func(i int, s *culprit.Sample) {
			if disk.room = -1; i >= 107 && i < 112 {
				disk.room = room
			}
			one.Observe(s)
			disk.room = -1
			two.Observe(s)
		})
		looks := map[string]int{}
		err = audit.Replay(&disk.Buffer, func(l *audit.Look) error {
			if looks[l.Source]++; !l.Same() {
				t.Errorf("room for %d: line %d is computed as\n%s, the log has\n%s", room, l.Line, l.Replayed, l.Logged)
			}
			return nil
		})
		if err != nil && (!errors.Is(err, audit.ErrCutOff) || room == 0) {
			t.Errorf("room for %d: %v", room, err)
		}
		if looks["one"] == 0 || looks["two"] <= looks["one"] || looks["two"] > looks["one"]+10 {
			t.Errorf("room for %d: the log has %v decisions", room, looks)
		}
	}
}

// refusing refuses its first writes, and takes no byte of them.
type refusing struct {
	bytes.Buffer
	writes int // that are still refused
}

func (r *refusing) Write(p []byte) (int, error) {
	if r.writes--; r.writes >= 0 {
		return 0, io.ErrShortWrite
	}
	return r.Buffer.Write(p)
}

// TestNoLinesBeforeTheirBeginning: what an engine decides is written down once its beginning is.
func TestNoLinesBeforeTheirBeginning(t *testing.T) {
	for refused := range 6 {
		disk := &refusing{writes: refused}
		a := NewAudit(disk, slog.New(slog.DiscardHandler))
		one, err := a.engine("one", culprit.Config{Objective: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		looks := 0
		incident(func(i int, s *culprit.Sample) {
			if i >= 110 { // it begins in the middle of the incident
				one.Observe(s)
			}
		})
		err = audit.Replay(&disk.Buffer, func(l *audit.Look) error {
			if looks++; !l.Same() {
				t.Errorf("%d writes refused: line %d is computed as\n%s, the log has\n%s", refused, l.Line, l.Replayed, l.Logged)
			}
			return nil
		})
		if err != nil || looks == 0 {
			t.Errorf("%d writes refused: %d decisions, %v", refused, looks, err)
		}
	}
}

// TestALogThatIsMovedGoesOn: what is decided once the log is opened again is in the next file, which can be computed again without the one before, also in
// the middle of an incident.
func TestALogThatIsMovedGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	set, err := NewSet(SetConfig{Audit: path, Servers: []Config{{Name: "one", URL: "postgres://u@h/one", Objective: 500 * time.Millisecond},
		{Name: "two", URL: "postgres://u@h/two", Objective: 500 * time.Millisecond}}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	incident(func(i int, s *culprit.Sample) {
		if i == 108 {
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			set.Reopen()
		}
		for _, g := range set.guards {
			g.engine.Observe(s)
		}
	})
	set.close()
	for _, name := range []string{path + ".1", path} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		looks := map[string]int{}
		err = audit.Replay(f, func(l *audit.Look) error {
			if looks[l.Source]++; !l.Same() {
				t.Errorf("%s, line %d is computed as\n%s, the log has\n%s", name, l.Line, l.Replayed, l.Logged)
			}
			return nil
		})
		_ = f.Close()
		if err != nil || looks["one"] < 2 || looks["two"] != looks["one"] {
			t.Errorf("%s: %v decisions, %v", name, looks, err)
		}
	}
	set.Reopen() // after its end: nothing
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	set.Reopen()
	if _, err := os.Stat(path); err == nil {
		t.Error("a set that has ended made its log anew")
	}
}

// TestALogGoesOnAfterACrash: what the next process appends is not lost with the line that was cut off.
func TestALogGoesOnAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	looks := func() (n int) {
		text, err := os.ReadFile(path)
		if err == nil {
			err = audit.Replay(bytes.NewReader(text), func(*audit.Look) error { n++; return nil })
		}
		if err != nil && !errors.Is(err, audit.ErrCutOff) {
			t.Error(err)
		}
		return n
	}
	var before int
	for range 2 {
		f, err := audit.Append(path, audit.Mode)
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewAudit(f, slog.New(slog.DiscardHandler)).engine("db", culprit.Config{Objective: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		incident(func(_ int, s *culprit.Sample) { e.Observe(s) })
		info, err := f.Stat()
		if err == nil {
			err = os.Truncate(path, info.Size()-9) // a crash
		}
		if f.Close(); err != nil {
			t.Fatal(err)
		}
		if n := looks(); n <= before+10 {
			t.Errorf("%d decisions after %d", n, before)
		} else {
			before = n
		}
	}
}

// TestAVerdictIsWrittenDown: also of a cancel after which so many came that the status has it no more.
func TestAVerdictIsWrittenDown(t *testing.T) {
	var log bytes.Buffer
	quiet := slog.New(slog.DiscardHandler)
	g, err := New(Config{Name: "db", URL: "postgres://u@h/d", Objective: time.Second}, quiet, NewAudit(&log, quiet))
	if err != nil {
		t.Fatal(err)
	}
	for id := range uint64(2 * keptCancels) {
		g.note(Cancel{Task: Task{ID: 1 + id}, Step: "session", Met: true})
	}
	g.outcome(culprit.Outcome{Verdict: culprit.Relieved, Task: 1, Step: culprit.Session, After: time.Second})
	g.outcome(culprit.Outcome{Verdict: culprit.Futile, Task: 2 * keptCancels, Step: culprit.Session, After: time.Second})
	for _, want := range []string{`"task":1,`, `"task":32,`} {
		found := false
		for line := range strings.Lines(log.String()) {
			found = found || strings.Contains(line, `"event":"outcome"`) && strings.Contains(line, want)
		}
		if !found {
			t.Errorf("no outcome of %s in\n%s", want, log.String())
		}
	}
}
