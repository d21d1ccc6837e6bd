package search

import (
	"fmt"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
)

// writer imitates a node with two write threads, as OpenSearch shows it: an update every 16 ms, which waits while bulk
// requests have both threads. Its statistics are older than its list of tasks, as those of a node in trouble are.
type writer struct {
	at        time.Duration
	bulk      time.Duration // their begin, 0 for none
	completed int64
}

// input is what the node shows.
func (w *writer) input() *input {
	const every, lag, node = 16 * time.Millisecond, 200 * time.Millisecond, "a"
	v := &tasksView{}
	tasks := map[string]taskView{}
	add := func(id, parent int64, action, description string, since time.Duration) {
		start, running := since.Milliseconds(), (w.at - since).Nanoseconds()
		t := taskView{Node: node, ID: &id, Action: "indices:data/write/" + action, Description: description, Start: &start, Running: &running}
		if parent != 0 {
			t.Parent = fmt.Sprintf("%s:%d", node, parent)
		}
		tasks[t.name()] = t
	}
	waiting := int64(0)
	if w.bulk != 0 {
		for i := int64(6); i < 10; i++ {
			add(10*i+1, 0, "bulk", "requests[60000], indices[docs]", w.bulk)
			add(10*i+2, 10*i+1, "bulk[s]", "requests[60000], index[docs][0]", w.bulk)
			add(10*i+3, 10*i+2, "bulk[s][p]", "requests[60000], index[docs][0]", w.bulk)
		}
		waiting = 2
		for i := range int64(3) { // updates that conflict with the bulk requests are tried again, and wait again
			add(50+2*i, 0, "update", "", w.bulk-every)
			add(51+2*i, 0, "update[s]", "", w.bulk-every)
			waiting++
		}
		for since := w.bulk + every; since < w.at; since += every {
			id := 100 + 10*int64(since/every)
			add(id, 0, "update", "", since)
			add(id+1, 0, "update[s]", "", since)
			if since < w.at-lag {
				waiting++
			}
		}
	} else {
		w.completed = int64(w.at / every)
	}
	v.Nodes = map[string]struct {
		Name  string              `json:"name"`
		Tasks map[string]taskView `json:"tasks"`
	}{node: {Tasks: tasks}}
	return &input{at: mono.Time(w.at), tasks: v, detailed: true, mayCancel: true, processors: map[string]int{node: 2},
		nodes: map[string]nodeView{node: {Pools: map[string]poolView{"write": {Queue: waiting, Active: 2, Completed: w.completed}}}}}
}

// Bulk requests that have all threads for writes cannot be cancelled: they are named, and their kind is to be kept
// out, within a second.
func TestBulk(t *testing.T) {
	const objective, onset = 200 * time.Millisecond, 5 * time.Second
	b, w := newBuilder(), &writer{}
	engine, err := culprit.New(culprit.Config{Objective: objective, Mode: culprit.Enforce})
	if err != nil {
		t.Fatal(err)
	}
	for w.at = 100 * time.Millisecond; w.at < onset+time.Second; w.at += 100 * time.Millisecond {
		if w.at > onset {
			w.bulk = onset
		}
		l := b.build(w.input())
		d := engine.Observe(&l.Sample)
		if a := d.Action; a.Step != culprit.NoStep {
			t.Fatalf("at %v: %+v, expected no cancel", w.at, a)
		} else if a.Limit.Kind == 0 {
			continue
		}
		if d.State != culprit.Named || d.Why != culprit.Fixed || w.bulk == 0 {
			t.Errorf("at %v: %v, %v", w.at, d.State, d.Why)
		}
		for i, task := range l.Sample.Tasks {
			if s := l.Sessions[i]; (task.Kind == d.Action.Limit.Kind) != (s.State == "indices:data/write/bulk" && s.Route == "POST /docs/_bulk") {
				t.Errorf("%s, %q, is of kind %x, the one kept out is %x", s.State, s.Route, task.Kind, d.Action.Limit.Kind)
			}
		}
		return
	}
	t.Error("nothing was named within a second")
}
