package track

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/mono"
	_ "github.com/spillgate/spillgate/internal/seeded"
)

const ms = mono.Time(time.Millisecond)

func lock() []culprit.Resource {
	return []culprit.Resource{{Name: "lock", Kind: culprit.Lock}, {Name: "cpu", Kind: culprit.System}}
}

// A wait that the server dates, one that is only seen, and one that ended.
func TestWaitsAddUp(t *testing.T) {
	tr := New(lock())
	key := Key{Process: 1}
	tr.Begin(1000 * ms)
	e := tr.Task(key, 950*ms)
	tr.Waits(e, 0, 960*ms)
	tr.Samples(e, 1)
	h := tr.End(0).Sample.Holds
	if len(h) != 2 || h[0].WaitingSince != 960*ms || h[1].WaitingSince != 950*ms || h[0].HeldSince != culprit.Unset {
		t.Fatalf("first look: %+v", h)
	}
	id := tr.look.Sample.Tasks[0].ID

	tr.Begin(1100 * ms)
	e = tr.Task(key, 950*ms)
	tr.Samples(e, 1)
	tr.Holds(e, 0, 1090*ms, 1, false)
	h = tr.End(0).Sample.Holds
	if h[0].WaitingSince != culprit.Unset || h[0].WaitTime != 40*time.Millisecond || h[0].HeldSince != 1090*ms || h[1].WaitingSince != 950*ms {
		t.Fatalf("second look: %+v", h)
	}

	tr.Begin(1200 * ms)
	e = tr.Task(key, 950*ms)
	tr.Consumes(e, 1, 0, 0)
	h = tr.End(0).Sample.Holds
	if h[0].HeldSince != culprit.Unset || h[0].HoldTime != 10*time.Millisecond || h[1].WaitTime != 150*time.Millisecond || h[1].Gets != 0 {
		t.Fatalf("third look: %+v", h)
	}

	tr.Begin(1300 * ms)
	e = tr.Task(key, 950*ms)
	tr.Consumes(e, 1, 200, 5*time.Millisecond)
	h = tr.End(0).Sample.Holds
	if h[1].Gets != 200 || h[1].WaitTime != 155*time.Millisecond || tr.look.Sample.Tasks[0].ID != id {
		t.Fatalf("fourth look: %+v", h)
	}

	tr.Begin(1400 * ms)
	if s := tr.End(7).Sample; len(s.Tasks)+len(s.Holds) != 0 || s.Finished.Count != 7 {
		t.Fatalf("when it is gone: %+v", s)
	}
	tr.Begin(1500 * ms)
	tr.Task(key, 1450*ms)
	if s := tr.End(0).Sample; s.Tasks[0].ID == id {
		t.Error("an ID came back")
	}
}

// Whatever a server says, the engine takes the sample.
func TestSamplesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := New(lock())
		instant := rapid.Int64Range(-5, 3000)
		for look := range rapid.IntRange(1, 8).Draw(t, "looks") {
			tr.Begin(mono.Time(rapid.Int64Range(0, 2000).Draw(t, "at")) * ms)
			var all []*Entry
			for range rapid.IntRange(0, 6).Draw(t, "tasks") {
				at := func() mono.Time { return mono.Time(instant.Draw(t, "instant")) * ms }
				e := tr.Task(Key{Process: rapid.Int64Range(0, 4).Draw(t, "process")}, at())
				all = append(all, e)
				r := rapid.IntRange(0, 1).Draw(t, "resource")
				switch rapid.IntRange(0, 3).Draw(t, "what") {
				case 0:
					tr.Waits(e, r, at())
				case 1:
					tr.Samples(e, r)
				case 2:
					tr.Holds(e, r, at(), 1, false)
				case 3:
					tr.Consumes(e, r, rapid.Uint64().Draw(t, "units"), time.Duration(rapid.Int64Range(-10, 1<<40).Draw(t, "delay")))
				}
				tr.Edge(e, all[rapid.IntRange(0, len(all)-1).Draw(t, "blocker")], r)
			}
			l := tr.End(uint64(look))
			if len(l.Sessions) != len(l.Sample.Tasks) {
				t.Fatalf("%d sessions of %d tasks", len(l.Sessions), len(l.Sample.Tasks))
			}
			ids := map[uint64]bool{}
			for _, task := range l.Sample.Tasks {
				if ids[task.ID] || task.Started > l.Sample.At || task.Started < 0 {
					t.Fatalf("task %+v of %+v", task, l.Sample.Tasks)
				}
				ids[task.ID] = true
			}
			for _, h := range l.Sample.Holds {
				if h.WaitTime < 0 || h.HoldTime < 0 || h.WaitingSince != culprit.Unset && h.WaitingSince > l.Sample.At || h.HeldSince != culprit.Unset && h.HeldSince > l.Sample.At {
					t.Fatalf("hold %+v at %v", h, l.Sample.At)
				}
			}
		}
	})
}

func TestNoAllocations(t *testing.T) {
	tr := New(lock())
	at := mono.Time(0)
	look := func() {
		at += 100 * ms
		tr.Begin(at)
		first := tr.Task(Key{Process: 1}, 0)
		for i := range int64(100) {
			e := tr.Task(Key{Process: i, Work: int64(at) * (i % 2)}, at-ms)
			tr.Waits(e, 0, at-ms)
			tr.Edge(e, first, 0)
		}
		tr.End(5)
	}
	for range 10 {
		look()
	}
	if n := testing.AllocsPerRun(100, look); n > 1 {
		t.Errorf("%v allocations a look", n)
	}
}

func TestCompletions(t *testing.T) {
	// Ten sessions, 100/s each, whose counters move once a second, one after the
	// other: every look sees 100 more. Then all stand still.
	var c Completions
	total, sum := uint64(0), uint64(0)
	at := mono.Time(0)
	for i := range 50 {
		at += 100 * ms
		total += 100
		if got := c.Add(at, total, 10); i >= 20 {
			sum += got
		}
	}
	if sum < 2900 || sum > 3100 {
		t.Errorf("%d in 3 s, expected about 3000", sum)
	}
	// A standstill is told at once, though the counter still leaps.
	at, total = at+100*ms, total+300
	if got := c.Add(at, total, 0); got != 0 {
		t.Errorf("%d while nobody got anywhere", got)
	}
	// Sessions that begin to work again add what they did long before: that is no rise.
	for range 40 {
		at, total = at+100*ms, total+100
		c.Add(at, total, 10)
	}
	for range 8 {
		at, total = at+100*ms, total+250
		if got := c.Add(at, total, 10); got > 160 {
			t.Errorf("%d at a look, expected hardly more than the 100 before", got)
		}
	}
	// Where one session or two work at a time, some looks without any show a standstill.
	for range 20 {
		at, total = at+100*ms, total+100
		c.Add(at, total, 2)
	}
	for i := range 3 {
		at, total = at+100*ms, total+100
		if got := c.Add(at, total, 0); (got == 0) != (i > 0) {
			t.Errorf("%d completions at look %d of those at which no session got anywhere, expected none from the second on", got, i)
		}
	}
	// A counter that begins again tells nothing.
	if got := c.Add(at+100*ms, 5, 3); got != 3 {
		t.Errorf("%d after a reset, expected what was seen", got)
	}
}

// What sessions did before the first look, and tell of when they work again, has not ended since.
func TestCompletionsFromBefore(t *testing.T) {
	var c Completions
	total, at := uint64(1000), mono.Time(time.Second)
	c.Add(at, total, 0)
	for i := range 30 {
		at += 100 * ms
		if total += 20; i < 8 {
			total += 400 // of the load of a minute ago
		}
		got := c.Add(at, total, 3)
		if known := i > 9; c.Known() != known {
			t.Errorf("look %d: known %v, expected %v", i, c.Known(), known)
		}
		if c.Known() && got != 20 || !c.Known() && got != 3 {
			t.Errorf("look %d: %d, expected 3 that were seen, and 20 from a second on", i, got)
		}
	}
}

// A task that turns out to be part of another goes on as that, with what it held, as long as that is no task already.
func TestRename(t *testing.T) {
	tr := New(lock())
	id := func(k Key) uint64 {
		e := tr.Task(k, 0)
		task, _ := tr.At(e)
		return task.ID
	}
	part, whole := Key{Process: 1, Work: 7}, Key{Process: 1, Session: 3}
	tr.Begin(100 * ms)
	first := id(part)
	tr.End(0)
	tr.Begin(200 * ms)
	tr.Rename(part, whole)
	if got := id(whole); got != first {
		t.Errorf("task %d, expected %d to go on", got, first)
	}
	other := id(part)
	if other == first {
		t.Error("the next with the key of the part is the same task")
	}
	tr.Rename(part, whole)
	if got := id(whole); got != first {
		t.Errorf("task %d, expected %d: another took its place", got, first)
	}
	tr.End(0)
	tr.Begin(300 * ms)
	tr.End(0)
	tr.Begin(400 * ms)
	tr.Rename(whole, part)
	if got := id(part); got == first || got == other {
		t.Errorf("task %d, which was gone for a look", got)
	}
}

// What a task starves adds up over the looks, and is no more than the time since the look before.
func TestStarves(t *testing.T) {
	tr := New(lock())
	for i, want := range []time.Duration{20, 50, 50, 150} {
		at := (1000 + mono.Time(i)*100) * ms
		tr.Begin(at)
		e := tr.Task(Key{Process: 1}, 980*ms)
		tr.Starves(e, []time.Duration{50, 30, -5, 500}[i]*time.Millisecond)
		tr.Taken(float64(i) - 1)
		s := tr.End(0).Sample
		if got := s.Tasks[0].Starved; got != want*time.Millisecond {
			t.Errorf("look %d: starved %v, expected %v", i, got, want*time.Millisecond)
		}
		if want := min(max(float64(i)-1, 0), 1); s.Taken != want {
			t.Errorf("look %d: taken %v, expected %v", i, s.Taken, want)
		}
	}
}
