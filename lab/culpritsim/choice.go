package culpritsim

import (
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/sim/hold"
)

// choices are scenes with two culprits, of which one is worth more than the other.
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
		{"resources", "a task that uses more of the disk, beside one that uses the disk and fills the pool", false, 50 * ms, func(t trial) hold.Config {
			one := hold.Program{Kind: helper, Ops: []hold.Op{spend(0, 20*ms)}, Times: int(2000 * t.size), Weight: 10}
			both := hold.Program{Kind: heavy, Ops: []hold.Op{spend(0, 20*ms), touch(1, 64, 64, ms)}, Times: int(2000 * t.size), Weight: 8}
			return hold.Config{Resources: []hold.Resource{system("disk", 2), {Name: "pool", Kind: culprit.Memory, Pages: 2000, Hot: 1800, Miss: time.Millisecond}},
				Loads: []hold.Load{clients(16*t.load, 30*ms, program(victims, touch(1, 20, 20, 2*ms), burn(0, 2*ms)))},
				Guests: []hold.Guest{{Program: one, At: t.onset, Background: true, Steps: cancellable, Culprit: true},
					{Program: both, At: t.onset, Background: true, Steps: cancellable, Culprit: true, Target: true}}}
		}},
	}
}
