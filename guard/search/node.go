package search

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spillgate/spillgate/guard/mapped"
	"github.com/spillgate/spillgate/guard/statement"
	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// node is a node whose plugin, tracer/opensearch, writes a task file: what it shows and what it cancels takes neither a
// connection nor a thread of the node, so both work while the node is too busy to answer.
type node struct {
	file *mapped.File
	look track.Look
}

// Look looks once.
func (n *node) Look(context.Context) (*track.Look, error) {
	file, err := n.file.Look()
	if err != nil {
		return nil, fmt.Errorf("search: the task file: %w", err)
	}
	l := &n.look
	l.Sample, l.Sessions, l.Notes = file.Sample, l.Sessions[:0], l.Notes[:0]
	for i := range file.Origins {
		l.Sessions = append(l.Sessions, n.session(file.Sample.Tasks[i].Kind, &file.Origins[i]))
	}
	if file.Untraced > 0 {
		l.Notes = append(l.Notes, "the task file has fewer slots than the node had requests at once; some were not seen")
	}
	return l, nil
}

// session describes a task by the name of its kind, "read/search docs bool range(n) x1000", which is an action, indices and
// the shape of the request.
func (n *node) session(kind uint64, o *taskfile.Origin) track.Session {
	name := n.file.Name(kind)
	action, rest, _ := strings.Cut(name, " ")
	indices, _, _ := strings.Cut(rest, " ")
	what := statement.Statement{Fingerprint: kind, Text: name, Class: sortOf("indices:data/" + action).class}
	return track.Session{Process: int64(o.PID), Application: n.file.Name(o.Key), Database: indices, Statement: what, State: "indices:data/" + action}
}

// Act has the node cancel a task of the last look. It reports false if the task was gone.
func (n *node) Act(_ context.Context, task uint64, step culprit.Step) (bool, error) {
	if step != culprit.Statement {
		return false, fmt.Errorf("search: there is no step %v, expected statement", step)
	}
	done, err := n.file.Cancel(task)
	if err != nil {
		return false, fmt.Errorf("search: cancel: %w", err)
	}
	return done, nil
}

// KeepOut has the node refuse requests of a kind for a time from now on.
func (n *node) KeepOut(_ context.Context, kind uint64, d time.Duration) error {
	if err := n.file.KeepOut(kind, d); err != nil {
		return fmt.Errorf("search: keep out: %w", err)
	}
	return nil
}

// Alive checks that the file is still the one that the node writes.
func (n *node) Alive(context.Context) error {
	if err := n.file.Alive(); err != nil {
		return fmt.Errorf("search: %w", err)
	}
	return nil
}

// Close lets go of the file.
func (n *node) Close() { n.file.Close() }
