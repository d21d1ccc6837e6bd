package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/internal/mono"
	"github.com/spillgate/spillgate/internal/sim/hold"
)

// recorded is a controller that writes its log, in files of at most limit bytes.
type recorded struct {
	*audit.Recorder
	logs    []bytes.Buffer
	limit   int
	actions []culprit.Action
	looks   int
}

func (r *recorded) Observe(s *culprit.Sample) ([]culprit.Action, time.Duration) {
	if n := len(r.logs); n == 0 || r.logs[n-1].Len() > r.limit {
		r.logs = append(r.logs, bytes.Buffer{})
		r.logs[n].Write(r.Begin())
	}
	r.looks++
	d, lines := r.Recorder.Observe(s)
	r.logs[len(r.logs)-1].Write(lines)
	r.actions = r.actions[:0]
	if d.Action.Step != culprit.NoStep {
		r.actions = append(r.actions, d.Action)
	}
	return r.actions, d.Soon
}

// stalled is an application whose readers a long exclusive hold stops, twice.
func stalled(t testing.TB, mode culprit.Mode, limit int) *recorded {
	t.Helper()
	rec, err := audit.NewRecorder("db1", culprit.Config{Objective: 50 * time.Millisecond, Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorded{Recorder: rec, limit: limit}
	seize := hold.Program{Kind: 9, Ops: []hold.Op{{Do: hold.Acquire}, {Do: hold.Run, Time: 3 * time.Second}}}
	guest := hold.Guest{Program: seize, Culprit: true, Target: true, Steps: culprit.StepsOf(culprit.Statement)}
	again := guest
	guest.At, again.At, again.Program.Kind = 5*time.Second, 15*time.Second, 10
	hold.Play(hold.Config{Seed: 1, Objective: 50 * time.Millisecond, Every: 100 * time.Millisecond, End: 30 * time.Second, Controller: r,
		Resources: []hold.Resource{{Name: "table", Kind: culprit.Lock}},
		Loads: []hold.Load{{Rate: []hold.Step{{Rate: 100}}, Program: hold.Program{Kind: 1,
			Ops: []hold.Op{{Do: hold.Acquire, Shared: true}, {Do: hold.Run, Time: 5 * time.Millisecond, Random: true}}}}},
		Guests: []hold.Guest{guest, again}})
	return r
}

// replay returns how many decisions of a log are the same, and how many are not.
func replay(log []byte) (same, other int, actions []string, err error) {
	err = audit.Replay(bytes.NewReader(log), func(l *audit.Look) error {
		if l.Same() {
			same++
		} else {
			other++
		}
		if _, action, ok := strings.Cut(string(l.Replayed), `"action":`); ok {
			actions = append(actions, fmt.Sprintf("%v %s", l.At, action[:strings.Index(action, "}")+1]))
		}
		return nil
	})
	return same, other, actions, err
}

func TestReplayIsTheSame(t *testing.T) {
	for _, mode := range []culprit.Mode{culprit.Monitor, culprit.Enforce} {
		for _, limit := range []int{1 << 30, 2000} { // one file, or a new one in the middle of incidents
			r := stalled(t, mode, limit)
			same, acted := 0, 0
			for i := range r.logs {
				n, other, actions, err := replay(r.logs[i].Bytes())
				if err != nil || other > 0 {
					t.Errorf("%v, file %d of %d: %d decisions differ, %v", mode, i, len(r.logs), other, err)
				}
				same += n
				acted += len(actions)
			}
			if acted != 2 {
				t.Errorf("%v: %d actions in %d files, want one for each incident", mode, acted, len(r.logs))
			}
			if limit == 2000 && len(r.logs) < 4 {
				t.Errorf("%v: %d files, want the log to have been continued in others", mode, len(r.logs))
			}
			if same == 0 || same > r.looks/2 {
				t.Errorf("%v: %d of %d looks were written, want those of two incidents", mode, same, r.looks)
			}
		}
	}
}

// A line that a crash cut off costs the decisions up to the new beginning, and no other.
func TestReplayGoesOnAfterACrash(t *testing.T) {
	log := stalled(t, culprit.Enforce, 1<<30).logs[0].Bytes()
	lines := bytes.SplitAfter(log, []byte("\n"))
	cut := bytes.Join(lines[:len(lines)/2], nil)
	var two bytes.Buffer
	two.Write(cut[:len(cut)-7])
	two.WriteString("\n")
	two.Write(log)
	all, _, _, err := replay(log)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _, err := replay(cut)
	if err != nil {
		t.Fatal(err)
	}
	if same, other, _, err := replay(two.Bytes()); same != before-1+all || other != 0 || !errors.Is(err, audit.ErrCutOff) {
		t.Errorf("%d decisions are the same and %d are not, %v; expected %d", same, other, err, before-1+all)
	}
}

// A changed sample leads to another decision, and the line is named.
func TestReplayFindsWhatWasChanged(t *testing.T) {
	log := stalled(t, culprit.Enforce, 1<<30).logs[0].Bytes()
	lines := bytes.SplitAfter(log, []byte("\n"))
	for i, l := range lines {
		if bytes.Contains(l, []byte(`"action"`)) {
			lines[i] = bytes.Replace(l, []byte(`"kind":9,`), []byte(`"kind":8,`), 1) // of the task in the sample
			var at []int
			err := audit.Replay(bytes.NewReader(bytes.Join(lines, nil)), func(l *audit.Look) error {
				if !l.Same() {
					at = append(at, l.Line)
				}
				return nil
			})
			if err != nil || len(at) == 0 || at[0] != i+1 {
				t.Errorf("lines %v differ, %v; want line %d first", at, err, i+1)
			}
			return
		}
	}
	t.Fatal("no action in the log")
}

func TestReplayRefuses(t *testing.T) {
	head := `{"v":2,"source":"a","config":{"Objective":1000000}}` + "\n"
	for _, tt := range []struct {
		name, log, want string
		cut             bool
	}{
		{"no JSON", "hello\n", "line 1: audit: no JSON object", false},
		{"another version", `{"v":1,"source":"a","config":{}}` + "\n", "a log of version 1; expected 2", false},
		{"a wrong configuration", `{"v":2,"source":"a","config":{"Objective":-1}}` + "\n", "Objective is -1ns", false},
		{"an unknown setting", `{"v":2,"source":"a","config":{"Speed":1}}` + "\n", "Speed", false},
		{"a sample before the configuration", `{"source":"a","sample":{}}` + "\n", `source "a" has no configuration`, false},
		{"a damaged state", head + `{"source":"a","state":"AAAA"}` + "\n", "line 2: culprit: the state of an engine is damaged", false},
		{"an empty line of a source", head + `{"source":"a"}` + "\n", "no config, state, sample or event", false},
		{"a crash in the middle of a line", head + `{"source":"a","sam`, "line 2", true},
		{"a crash, and a new beginning", head + `{"source":"a","sam` + "\n" + head, "line 2", true},
		{"two crashes", head + `{"source":"a","sam` + "\n" + head + "{\n" + head, "line 4", true},
		{"many crashes", strings.Repeat(head+"{\n", 25) + head, "and 5 more such lines", true},
		{"a crash, and no new beginning", head + `{"source":"a","sam` + "\n" + `{"source":"a","sample":{}}` + "\n", "line 2", false},
		{"damage at the end", head + `{"source":"a","sam` + "\n", "line 2", false},
	} {
		err := audit.Replay(strings.NewReader(tt.log), func(*audit.Look) error { return nil })
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, audit.ErrCutOff) != tt.cut {
			t.Errorf("%s: %v, want %q, cut off %v", tt.name, err, tt.want, tt.cut)
		}
	}
	if err := audit.Replay(strings.NewReader(head+`{"source":"a","event":"connected","port":1}`+"\n\n"), nil); err != nil {
		t.Errorf("an event: %v", err)
	}
}

// Whatever a log holds, reading it ends with an error or without, and decisions that
// were logged as null or not at all are different from any.
func FuzzReplay(f *testing.F) {
	log := stalled(f, culprit.Enforce, 1<<30).logs[0].Bytes()
	lines := bytes.SplitAfter(log, []byte("\n"))
	f.Add(bytes.Join(lines[:min(4, len(lines))], nil))
	f.Add([]byte(`{"v":2,"source":"a","config":{"Objective":1}}` + "\n" + `{"source":"a","sample":{"at":5,"tasks":[{"id":1}],"resources":[{}],"holds":[{"used":1}],"edges":[{}]}}`))
	f.Fuzz(func(t *testing.T, log []byte) {
		_ = audit.Replay(bytes.NewReader(log), func(l *audit.Look) error { return nil })
	})
}

// An incident that goes on for long fills no disk; its beginning, what is done and its end are there whole, and all that is written can be computed again.
func TestALongIncident(t *testing.T) {
	for _, mode := range []culprit.Mode{culprit.Monitor, culprit.Enforce} {
		r, err := audit.NewRecorder("db1", culprit.Config{Objective: 50 * time.Millisecond, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		log.Write(r.Begin())
		const every = 100 * time.Millisecond
		looks, last := 0, ""
		for at := time.Duration(0); at < 8*time.Minute; at += every {
			s := &culprit.Sample{At: mono.Time(time.Minute).Add(at), Resources: []culprit.Resource{{Name: "lock", Kind: culprit.Lock}}, Finished: culprit.Finished{Count: 10}}
			if at > 10*time.Second && at < 7*time.Minute { // a holder that cannot be cancelled keeps others, of which one ends now and then
				began := mono.Time(time.Minute).Add(10 * time.Second)
				s.Finished.Count = 0
				s.Tasks = []culprit.Task{{ID: 1, Kind: 1, Started: began}}
				s.Holds = []culprit.Hold{{HeldSince: began, WaitingSince: culprit.Unset, Used: 1}}
				for i := range 3 {
					s.Tasks = append(s.Tasks, culprit.Task{ID: uint64(2 + i), Kind: 2, Started: began})
					s.Holds = append(s.Holds, culprit.Hold{Task: int32(1 + i), WaitingSince: began, HeldSince: culprit.Unset})
				}
			}
			d, lines := r.Observe(s)
			log.Write(lines)
			if looks++; len(lines) > 0 {
				last = d.State.String()
			}
		}
		same, other, _, err := replay(log.Bytes())
		if err != nil || other > 0 {
			t.Errorf("%v: %d decisions differ, %v", mode, other, err)
		}
		if same < 100 || same > looks/10 || last != culprit.Normal.String() {
			t.Errorf("%v: %d of %d looks were written, the last in state %s; expected those of the first ten seconds, few of the others, and the end", mode, same, looks, last)
		}
	}
}
