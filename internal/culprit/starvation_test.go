package culprit

import (
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/mono"
)

// Others are to blame for their part of the time that a task waited for a processor, and may be for that of which it has told
// nothing; what it tells later replaces that. A task that has a processor, or waits for another task, starves of nothing.
func TestStarvation(t *testing.T) {
	const ms = time.Millisecond
	const taken, share = 0.5, 0.8
	var s Starvation
	look := func(at time.Duration, cpu, lack, queue time.Duration) (time.Duration, time.Duration) {
		sample := Sample{At: mono.Time(at), Resources: []Resource{{Name: "threads", Kind: Queue}, {Name: "processor", Kind: System}},
			Tasks: []Task{{ID: 7, Started: mono.Time(1000 * ms)}},
			Holds: []Hold{{WaitTime: queue, WaitingSince: Unset, HeldSince: Unset}, {Resource: 1, Gets: uint64(cpu), WaitTime: lack, WaitingSince: Unset, HeldSince: Unset}}}
		s.Enter(&sample, 1, taken, share, 1)
		if sample.Taken != taken {
			t.Errorf("taken %v, expected %v", sample.Taken, taken)
		}
		if err := sample.Check(); err != nil {
			t.Error(err)
		}
		return sample.Tasks[0].Starved, sample.Tasks[0].MayStarve
	}
	for _, step := range []struct {
		what                          string
		at, cpu, lack, queue, is, may time.Duration
	}{
		{"it waited for a thread and a processor", 1100 * ms, 0, 50 * ms, 50 * ms, 40 * ms, 0},
		{"it ran", 1200 * ms, 100 * ms, 50 * ms, 50 * ms, 40 * ms, 0},
		{"it says nothing", 1300 * ms, 100 * ms, 50 * ms, 50 * ms, 90 * ms, 0},
		{"and told then that it ran meanwhile", 1400 * ms, 300 * ms, 50 * ms, 50 * ms, 40 * ms, 0},
		{"two threads of it wait", 1500 * ms, 300 * ms, 250 * ms, 50 * ms, 200 * ms, 0},
	} {
		if got, may := look(step.at, step.cpu, step.lack, step.queue); got != step.is || may != step.may {
			t.Errorf("%s: starved %v and may have for %v, expected %v and %v", step.what, got, may, step.is, step.may)
		}
	}
	silent := Sample{At: mono.Time(1600 * ms), Tasks: []Task{{ID: 8, Started: mono.Time(1500 * ms)}}}
	if s.Enter(&silent, 1, taken, share, 1); silent.Tasks[0].Starved != 0 || silent.Tasks[0].MayStarve != 50*ms {
		t.Errorf("one that never tells of processors: %+v, expected that it may have starved for 50ms", silent.Tasks[0])
	}
	silent.At, silent.Tasks[0].Starved, silent.Tasks[0].MayStarve = mono.Time(2600*ms), 0, 0
	if s.Enter(&silent, 1, 1, share, 1); silent.Tasks[0].MayStarve != 950*ms {
		t.Errorf("%v, expected 50ms and nine tenths of a second", silent.Tasks[0].MayStarve)
	}
	silent.At, silent.Tasks[0].MayStarve = mono.Time(3600*ms), 0
	if s.Enter(&silent, 1, 1, share, 0.1); silent.Tasks[0].MayStarve != 1050*ms || silent.Taken != 1 {
		t.Errorf("%v of %v taken, expected 100ms more, as no task can have lacked a processor for longer", silent.Tasks[0].MayStarve, silent.Taken)
	}
	s.Enter(&Sample{At: mono.Time(3700 * ms)}, 1, taken, share, 1)
	if len(s.tasks) != 0 {
		t.Errorf("%d tasks are remembered that are gone", len(s.tasks))
	}
}

// Whatever a file says of a task, the sample is one that the engine takes.
func TestStarvationOfNonsense(t *testing.T) {
	var s Starvation
	for i := range 4 {
		at := mono.Time(i+1) * mono.Time(time.Second)
		big := []uint64{0, 1<<64 - 1, 5, 1 << 63}[i]
		sample := Sample{At: at, Resources: []Resource{{Kind: System}, {Kind: Lock}}, Tasks: []Task{{ID: 1}},
			Holds: []Hold{{Gets: big, WaitTime: time.Duration(big >> 1), WaitingSince: Unset, HeldSince: Unset}, {Resource: 1, WaitTime: time.Duration(big >> 1), WaitingSince: Unset, HeldSince: Unset}}}
		s.Enter(&sample, 0, 1, 1, 1)
		if err := sample.Check(); err != nil {
			t.Error(err)
		}
		if got := sample.Tasks[0]; got.Starved+got.MayStarve > time.Duration(at) {
			t.Errorf("starved %v and %v of %v", got.Starved, got.MayStarve, time.Duration(at))
		}
	}
}
