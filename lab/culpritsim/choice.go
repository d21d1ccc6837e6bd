package culpritsim

import "github.com/spillgate/spillgate/internal/sim/hold"

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
	}
}
