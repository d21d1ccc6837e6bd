// Package looktest lets the tests of guards wait for a look at a real server.
//
// What this package does not do: it starts no server and cancels nothing.
package looktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/guard/track"
	"github.com/spillgate/spillgate/internal/culprit"
)

// Patience only ends a test that hangs.
const Patience = time.Minute

// Until looks at s until want accepts a look, and returns that look. It fails the test
// after Patience, and then prints the last one. what names the look
// that is waited for.
func Until(t *testing.T, s interface {
	Look(context.Context) (*track.Look, error)
}, what string, want func(*track.Look) bool) *track.Look {
	t.Helper()
	var last string
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(25 * time.Millisecond) {
		l, err := s.Look(t.Context())
		if errors.Is(err, track.ErrLate) {
			continue // a busy machine; a guard looks again as well
		}
		if err != nil {
			t.Fatal(err)
		}
		if want(l) {
			return l
		}
		last = Picture(l)
	}
	t.Fatalf("no look with %s; the last was\n%s", what, last)
	return nil
}

// Picture draws a look: each task with its statement, and which task waits for which.
// Equal lines stand there once.
func Picture(l *track.Look) string {
	var out []string
	name := func(i int32) string { return l.Sessions[i].Statement.Text }
	for i, task := range l.Sample.Tasks {
		idle := ""
		if task.Idle {
			idle = " idle"
		}
		out = append(out, fmt.Sprintf("task %s%s barred=%v statement=%v session=%v", name(int32(i)), idle, task.Barred, task.Steps.Has(culprit.Statement), task.Steps.Has(culprit.Session)))
	}
	for _, e := range l.Sample.Edges {
		out = append(out, fmt.Sprintf("edge %s -> %s, %s", name(e.Waiter), name(e.Blocker), l.Sample.Resources[e.Resource].Name))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), "\n")
}
