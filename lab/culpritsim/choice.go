package culpritsim

import (
	"time"

	"github.com/spillgate/spillgate/internal/sim/hold"
)

// choices are scenes in which what is looked at decides who is cancelled: two culprits of
// which one is worth more than the other; a culprit that is the biggest user of no
// resource that most time is lost to, beside a bigger user that alone harms nobody.
func choices() []scene {
	return []scene{
		{"progress", "a task that uses more of the disk and is nearly done, beside one that has just begun", false, 50 * ms, func(t trial) hold.Config {
			nearly := hold.Program{Kind: helper, Ops: []hold.Op{spend(0, 20*ms)}, Times: int(42 * (0.7 + 0.3*t.size)), Weight: 24, Known: true}
			begun := hold.Program{Kind: heavy, Ops: []hold.Op{spend(0, 20*ms)}, Times: int(2000 * t.size), Weight: 20, Known: true}
			return hold.Config{Resources: []hold.Resource{system("disk", 2)},
				Loads: []hold.Load{clients(16*t.load, 30*ms, program(victims, run(3*ms), burn(0, 2*ms)))},
				Guests: []hold.Guest{{Program: nearly, At: t.onset, Background: true, Steps: cancellable, Culprit: true},
					{Program: begun, At: t.onset, Background: true, Steps: cancellable, Culprit: true, Target: true}}}
		}},
		{"bystander", "a job that uses most of the disk and alone fits in, beside one that uses less and holds a lock", false, 100 * ms, func(t trial) hold.Config {
			job := hold.Program{Kind: helper, Ops: []hold.Op{spend(0, 20*ms)}, Times: int(100_000 * t.size), Weight: 36}
			culprit := hold.Program{Kind: heavy, Ops: []hold.Op{take(1)}, Weight: 18}
			for range int(10_000 * t.size) {
				culprit.Ops = append(culprit.Ops, spend(0, 20*ms))
			}
			think := time.Duration(float64(4*ms) / t.load)
			return hold.Config{Resources: []hold.Resource{system("disk", 48), lock("catalog")},
				Loads: []hold.Load{clients(12, think, program(victims, burn(0, 20*ms))), clients(2, think, program(readers, take(1), run(5*ms), give(1)))},
				Guests: []hold.Guest{{Program: job, At: time.Second, Background: true, Steps: cancellable},
					{Program: culprit, At: t.onset, Background: true, Steps: cancellable, Culprit: true, Target: true}}}
		}},
	}
}
