package live

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/admission"
	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/culprit/audit"
	"github.com/spillgate/spillgate/internal/slots"
	"github.com/spillgate/spillgate/internal/taskfile"
	"github.com/spillgate/spillgate/internal/wire"
	"github.com/spillgate/spillgate/internal/work"
)

// exhausted is a gate whose slots are held by requests that end only when they are
// cancelled, while others come for as long as the test runs.
type exhausted struct {
	*Gate
	events chan Event
	log    lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func exhaust(t *testing.T, mode culprit.Mode) *exhausted {
	t.Helper()
	x := &exhausted{events: make(chan Event, 1<<16)}
	cfg := GateConfig{
		Config:  admission.Config{Objective: 100 * time.Millisecond, Slots: slots.Config{Min: 2, Max: 2, Initial: 2}},
		Culprit: CulpritConfig{Mode: mode, Audit: &x.log, Source: "test"},
		Observe: func(e Event) {
			select {
			case x.events <- e:
			default:
			}
		},
	}
	var err error
	if x.Gate, err = NewGate(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	ctx, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if ticket, err := x.Enter(ctx, Request{Kind: kind("read")}); err == nil {
					time.Sleep(time.Millisecond)
					ticket.Leave(work.Done)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		callers.Wait()
	})
	time.Sleep(500 * time.Millisecond) // in which it learns what is usual
	return x
}

// seize holds a slot until the context that the gate gives ends.
func (x *exhausted) seize(t *testing.T) (*Ticket, context.Context, func()) {
	t.Helper()
	for {
		ticket, err := x.Enter(t.Context(), Request{Kind: kind("export")})
		if err == nil {
			ctx, _ := ticket.Watch(t.Context())
			return ticket, ctx, ticket.Unwatch
		}
		time.Sleep(time.Millisecond)
	}
}

// TestACancelledRequestIsCountedOnce: its outcome is one of its own, whatever is said of
// it when it leaves, its token is random, and the log can be replayed.
func TestACancelledRequestIsCountedOnce(t *testing.T) {
	x := exhaust(t, culprit.Enforce)
	first, ctx1, done1 := x.seize(t)
	second, ctx2, done2 := x.seize(t)
	defer done1()
	defer done2()
	over := time.After(time.Minute)
	ticket, other, ctx := first, second, ctx1
	select {
	case <-ctx1.Done():
	case <-ctx2.Done():
		ticket, other, ctx = second, first, ctx2
	case <-over:
		t.Fatalf("nothing was cancelled; state %+v", x.Culprits())
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ErrCancelled) || !strings.Contains(cause.Error(), "slots") {
		t.Errorf("the cause is %v, expected that others wait for the slots", cause)
	}
	r := ticket.Cancelled()
	if r == nil || r.Reason != work.Culprit || r.Resend.Token == (wire.Token{}) || r.Resend.After <= 0 {
		t.Fatalf("the refusal is %+v, expected a token", r)
	}
	ticket.Leave(work.Done)
	ticket.Leave(work.Done)
	other.Leave(work.Ignored)
	x.Gate.SetMode(Enforce)
	s := x.Stats()
	if s.Served[work.Cancelled] < 1 || s.Served[work.Cancelled] > 2 {
		t.Errorf("%d were cancelled, expected one, or both", s.Served[work.Cancelled])
	}
	told := 0
	for len(x.events) > 0 {
		if e := <-x.events; e.Outcome == work.Cancelled {
			told++
			if e.Reason != work.Culprit || !e.Enforced {
				t.Errorf("the event is %+v, expected the reason culprit", e)
			}
		}
	}
	if uint64(told) != s.Served[work.Cancelled] {
		t.Errorf("%d events of %d cancelled requests", told, s.Served[work.Cancelled])
	}
	// A kind is limited unless victims have it as well, as far as the last look shows.
	if next, err := x.Enter(t.Context(), Request{Kind: kind("export")}); err == nil {
		if next.Leave(work.Done); x.Culprits().Limits > 0 {
			t.Error("the next of its kind was admitted, expected the reason culprit")
		}
	}
	x.finder.close()
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	looks := 0
	err := audit.Replay(bytes.NewReader(x.log.b.Bytes()), func(l *audit.Look) error {
		if looks++; !l.Same() {
			t.Errorf("a decision is computed as %s, the log has %s", l.Replayed, l.Logged)
		}
		return nil
	})
	if err != nil || looks == 0 {
		t.Errorf("%d looks are in the log, %v", looks, err)
	}
}

// TestCreditsComeBack: when a cancelled request leaves, the credits are four fifths of
// what they were before it came, in one step, and never fewer than they are.
func TestCreditsComeBack(t *testing.T) {
	g := newGate(t, 0, GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: CulpritConfig{Mode: culprit.Enforce}})
	pool := g.node.Gate().Pool()
	for range 100 {
		g.Connect(nil)
	}
	g.mu.Lock()
	pool.SetTotal(Now(), 100)
	g.node.Look(Now()) // who looks for culprits did so before one came
	g.mu.Unlock()
	ticket, err := g.Enter(t.Context(), Request{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, _ := ticket.Watch(t.Context())
	defer ticket.Unwatch()
	g.mu.Lock()
	tell, _ := g.cancelOf(Now(), ticket.id, wire.Token{1})
	pool.SetTotal(Now(), 10) // the disturbance
	g.mu.Unlock()
	tell(ErrCancelled)
	<-ctx.Done()
	ticket.Leave(work.Ignored)
	g.mu.Lock()
	defer g.mu.Unlock()
	if got := pool.Total(); got < 80 || got > 90 {
		t.Errorf("%d credits after the cancel, expected 80 of 100", got)
	}
}

// failing takes a part of a line while it is told to.
type failing struct {
	bytes.Buffer
	fails bool
}

func (f *failing) Write(p []byte) (int, error) {
	if !f.fails {
		return f.Buffer.Write(p)
	}
	n, _ := f.Buffer.Write(p[:min(len(p), 30)])
	return n, io.ErrShortWrite
}

// TestALogBeginsAnewAfterAFailure: so that what follows can be computed again.
func TestALogBeginsAnewAfterAFailure(t *testing.T) {
	var log failing
	g := newGate(t, 0, GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: CulpritConfig{Source: "s", Audit: &log}})
	for _, fails := range []bool{false, false, true, true, false, false} {
		log.fails = fails
		if fails {
			g.finder.mu.Lock()
			g.finder.write([]byte(`{"source":"s","state":"lost, and cut off"}`))
			g.finder.mu.Unlock()
		}
		g.finder.look()
	}
	if n := strings.Count(log.String(), `"config":{`); n != 2 {
		t.Errorf("%d beginnings, expected two:\n%s", n, log.String())
	}
	if err := audit.Replay(&log.Buffer, func(*audit.Look) error { return nil }); !errors.Is(err, audit.ErrCutOff) {
		t.Errorf("the log cannot be replayed: %v", err)
	}
}

// lateWriter refuses its first two writes, without taking a byte.
type lateWriter struct {
	bytes.Buffer
	writes int
}

func (w *lateWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes <= 2 {
		return 0, io.ErrShortWrite
	}
	return w.Buffer.Write(p)
}

// TestALogBeginsWithItsBeginning: nothing is written before that is.
func TestALogBeginsWithItsBeginning(t *testing.T) {
	var log lateWriter
	g := newGate(t, 0, GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: CulpritConfig{Source: "s", Audit: &log}})
	f := g.finder
	f.mu.Lock()
	for range 4 { // an incident
		f.clear(f.last.Add(2 * time.Second))
		f.sample.Finished = culprit.Finished{Count: 8, Timed: 8, Late: 8}
		f.observe()
	}
	f.mu.Unlock()
	looks := 0
	err := audit.Replay(&log.Buffer, func(*audit.Look) error { looks++; return nil })
	if err != nil || looks != 2 {
		t.Errorf("%d looks, %v; expected the two after the failures", looks, err)
	}
}

// TestALogThatIsMovedGoesOn: what is written to the next file, also in the middle of an incident, can be computed again without the one before.
func TestALogThatIsMovedGoesOn(t *testing.T) {
	var files [2]bytes.Buffer
	at := 0
	log := writerFunc(func(b []byte) (int, error) { return files[at].Write(b) })
	g := newGate(t, 0, GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: CulpritConfig{Source: "s", Audit: log}})
	f := g.finder
	for i := range 8 { // an incident
		f.mu.Lock()
		f.clear(f.last.Add(2 * time.Second))
		f.sample.Finished = culprit.Finished{Count: 8, Timed: 8, Late: 8}
		f.observe()
		f.mu.Unlock()
		if i == 3 {
			g.RenewAudit(func() { at++ })
		}
	}
	for i := range files {
		looks := 0
		err := audit.Replay(&files[i], func(l *audit.Look) error {
			if looks++; !l.Same() {
				t.Errorf("file %d: a decision is computed as %s, the log has %s", i, l.Replayed, l.Logged)
			}
			return nil
		})
		if want := 3 + i; err != nil || looks != want { // the first look of all knows nothing of late ones
			t.Errorf("file %d: %d looks, %v; expected %d", i, looks, err, want)
		}
	}
	ended := false
	newGate(t, 0, GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: CulpritConfig{Mode: culprit.Off}}).RenewAudit(func() { ended = true })
	if !ended {
		t.Error("the file of a gate that looks for no culprits was not ended")
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestACrowdedGateIsSeen: what the engine cannot take is left out, and does not blind it.
func TestACrowdedGateIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	engine, err := taskfile.Attach(path, taskfile.Geometry{})
	if err != nil {
		t.Skip(err)
	}
	defer engine.Close()
	if err := engine.SetMode(taskfile.Precise); err != nil {
		t.Fatal(err)
	}
	tracer, err := taskfile.Open(path, taskfile.Geometry{})
	if err != nil {
		t.Fatal(err)
	}
	defer tracer.Close()
	r, _ := tracer.Resource("pool", taskfile.Queue)
	for range 3 { // tasks that are no requests
		s := tracer.Begin(taskfile.Task{Flags: taskfile.Background})
		s.Acquire(r, 1)
	}
	f := file{engine: engine, place: map[uint64]int32{}, pairs: map[[2]int32]int{}}
	s := culprit.Sample{At: Now(), Resources: []culprit.Resource{{Name: "slots", Kind: culprit.Queue}}}
	for i := range culprit.MaxTasks - 1 {
		s.Tasks = append(s.Tasks, culprit.Task{ID: uint64(i + 1)})
	}
	kinds := f.see(&s, make([]what, len(s.Tasks)), time.Second)
	if err := s.Check(); err != nil || len(s.Tasks) != culprit.MaxTasks || len(kinds) != len(s.Tasks) || len(s.Holds) != 1 {
		t.Errorf("%d tasks, %d kinds, %d holds, %v", len(s.Tasks), len(kinds), len(s.Holds), err)
	}
}

// TestNobodyLooksAtAnEmptyGate: the looks end when nothing is inside, and begin again.
func TestNobodyLooksAtAnEmptyGate(t *testing.T) {
	g := newGate(t, 0, GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: CulpritConfig{Every: 10 * time.Millisecond}})
	rests := func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.tasks.resting
	}
	for range 2 {
		ticket, err := g.Enter(t.Context(), Request{})
		if err != nil {
			t.Fatal(err)
		}
		if rests() {
			t.Error("nobody looks although a request is inside")
		}
		ticket.Leave(work.Done)
		for began := time.Now(); !rests(); time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatal("somebody still looks at an empty gate")
			}
		}
	}
}

// TestMistakesOfCulprits: all are told.
func TestMistakesOfCulprits(t *testing.T) {
	_, err := NewGate(GateConfig{Config: admission.Config{Objective: time.Second}, Culprit: CulpritConfig{Every: time.Hour, Engine: culprit.Config{Clear: 2}}})
	for _, want := range []string{"Culprit.Every", "Clear"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error %v does not tell of %s", err, want)
		}
	}
}

// A task of a limited kind is cancelled without being a candidate, and has a name all the same.
func TestANoticeNamesWhoIsActedOn(t *testing.T) {
	f := &finder{sample: culprit.Sample{At: 5, Resources: []culprit.Resource{{Name: "pool"}}, Tasks: []culprit.Task{{ID: 7, Started: 2}, {ID: 8, Started: 1}}},
		kinds: []what{{kind: kind("read"), request: true}, {kind: kind("report"), request: true}}}
	first := []culprit.Candidate{{Task: 7, Score: 0.5}}
	for _, tt := range []struct {
		d    culprit.Decision
		kind string
		age  time.Duration
	}{
		{culprit.Decision{Action: culprit.Action{Task: 8}}, "report", 4},
		{culprit.Decision{Action: culprit.Action{Task: 8}, Candidates: first}, "report", 4},
		{culprit.Decision{Candidates: first}, "read", 3},
		{culprit.Decision{}, "", 0},
	} {
		var n CulpritNotice
		if f.name(&tt.d, &n); !strings.HasSuffix(n.Kind, tt.kind) || (n.Kind == "") != (tt.kind == "") || n.Age != tt.age {
			t.Errorf("%+v: %q of age %d, want %q of %d", tt.d, n.Kind, n.Age, tt.kind, tt.age)
		}
	}
}
