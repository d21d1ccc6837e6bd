package stage

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// lockedStore starts a store with a lock and returns its address, and what ends it
// with all that it wrote.
func lockedStore(t *testing.T, s Locked) (string, func() []Line) {
	t.Helper()
	c, stop := play(t, s.run)
	select {
	case addr := <-c.addr:
		return addr, func() []Line {
			lines, err := stop()
			if err != nil {
				t.Error(err)
			}
			return lines
		}
	case <-time.After(time.Minute):
		t.Fatal("the store does not listen")
		return "", nil
	}
}

// Without a gate a report ends by itself, and nobody is named.
func TestLockedPlain(t *testing.T) {
	addr, stop := lockedStore(t, Locked{Name: "store", Objective: time.Second, Read: time.Millisecond, Report: 300 * time.Millisecond})
	lines := load(t, Load{
		Target: addr, Conns: 2, Objective: time.Second, Timeout: 10 * time.Second, Seed: 3,
		Steps: openloop.Steady(100, 1500*time.Millisecond), ReportAt: 250 * time.Millisecond,
	})
	stop()
	asked := 0
	for _, l := range lines {
		if l.Asked != nil {
			asked++
			if l.Asked.End != Answered || l.Asked.TookMS < 300 {
				t.Errorf("the report: %+v, want it answered after what it takes", *l.Asked)
			}
		}
	}
	if o, _ := outcome(t, lines); o.Totals.Served != o.Totals.Offered || asked != 1 {
		t.Errorf("%+v and %d reports, want every read served, and one", o.Totals, asked)
	}
}

// Behind a gate the report, which would hold the lock for a minute, is named and
// cancelled, and reads are served after it.
func TestLockedGated(t *testing.T) {
	addr, stop := lockedStore(t, Locked{Name: "store", Gated: true, Objective: 100 * time.Millisecond, Read: time.Millisecond, Report: time.Minute})
	l := Load{
		Target: addr, Conns: 8, Gated: true, Objective: 100 * time.Millisecond, Timeout: time.Second, Seed: 3,
		Steps: openloop.Steady(100, 50*time.Second), ReportAt: time.Second,
	}
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.run(ctx, &writer{out: w}) // it is cut off
		_ = w.Close()
	}()
	var asked *Asked
	var since uint64 // reads that were good when the report had ended
	decoder := json.NewDecoder(r)
	for {
		var line Line
		if decoder.Decode(&line) != nil {
			break
		}
		if line.Asked != nil {
			asked = line.Asked
		}
		if p := line.Progress; p != nil && asked != nil {
			if since == 0 {
				since = p.Totals.Good
			}
			if p.Totals.Good > since {
				cancel() // they go on
			}
		}
	}
	<-done
	if asked == nil || asked.End != Cancelled || since == 0 {
		t.Fatalf("the report: %+v, %d good reads; want it cancelled, and some", asked, since)
	}
	named := 0
	for _, line := range stop() {
		if n := line.Named; n != nil && n.Cancelled && strings.HasSuffix(n.Kind, "/Report") {
			named++
			if n.Resource != "store's lock" || n.AgeMS <= 0 || n.Victims <= 0 {
				t.Errorf("named: %+v, want the lock, an age and victims", *n)
			}
		}
	}
	if named == 0 {
		t.Error("nobody was named")
	}
}
