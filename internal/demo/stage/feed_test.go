package stage

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/harness/openloop"
)

// fed plays a load with a flood on a broker, and returns what came of the load, of the
// flood, and the broker's last report.
func fed(t *testing.T, b Broker) (Outcome, Flooded, Report) {
	t.Helper()
	c, stop := play(t, b.run)
	addr := ""
	select {
	case addr = <-c.addr:
	case <-time.After(time.Minute):
		t.Fatal("the broker does not listen")
	}
	lines := load(t, Load{
		Target: addr, Objective: time.Second, Timeout: 30 * time.Second, Seed: 3, Steps: openloop.Steady(100, 1500*time.Millisecond),
		Feed: &Feed{Topics: 3, Work: 100 * time.Microsecond, Flood: 4000, FloodAt: 250 * time.Millisecond, FloodFor: 500 * time.Millisecond},
	})
	told, err := stop()
	if err != nil {
		t.Error(err)
	}
	var flooded Flooded
	lines = slices.DeleteFunc(lines, func(l Line) bool {
		if l.Flooded != nil {
			flooded = *l.Flooded
		}
		return l.Flooded != nil
	})
	var last Report
	for _, l := range told {
		if l.Service != nil {
			last = *l.Service
		}
	}
	o, _ := outcome(t, lines)
	if o.Totals.Served != o.Totals.Offered || o.Totals.Offered == 0 {
		t.Errorf("%+v, want every message of the other topics served", o.Totals)
	}
	if flooded.Sent != 2000 {
		t.Errorf("the flood sent %d messages, want 2,000", flooded.Sent)
	}
	return o, flooded, last
}

// Without limits a flood comes as it is sent.
func TestFeedPlain(t *testing.T) {
	_, flooded, last := fed(t, Broker{Name: "broker"})
	if flooded.Came == 0 || last.Waiting != 0 || last.Shed["queue_full"] != 0 {
		t.Errorf("the flood %+v, the broker %+v; want it to come, and none held", flooded, last)
	}
}

// With a limit the flood has its burst and its rate, ten messages of it wait, and the rest is dropped.
func TestFeedLimited(t *testing.T) {
	_, flooded, last := fed(t, Broker{Name: "broker", Rate: 50, Burst: 50, Queue: 10})
	if flooded.Came < 50 || last.Shed["queue_full"] == 0 || flooded.Came+last.Shed["queue_full"] > flooded.Sent {
		t.Errorf("the flood %+v, the broker %+v; want the burst to come, and what does not fit dropped", flooded, last)
	}
}

func TestFeedMistakes(t *testing.T) {
	err := Load{Target: "127.0.0.1:1", Objective: time.Second, Timeout: time.Second, Steps: openloop.Steady(1, time.Second),
		Feed: &Feed{Flood: 1, FloodAt: time.Second, FloodFor: time.Second}}.validate()
	if err == nil || !strings.Contains(err.Error(), "0 topics") || !strings.Contains(err.Error(), "within the steps") {
		t.Errorf("%v, want both mistakes", err)
	}
}
