package mapped

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// What a server does not get of its processors, other programs use, once it was looked at twice; what nobody uses, they do not.
func TestProcessors(t *testing.T) {
	const ms = time.Millisecond
	var p processors
	at := time.Now()
	for i, step := range []struct {
		pid        int64
		used, busy time.Duration
		ok, known  bool
		want       float64 // processors
	}{{7, 1000 * ms, 9000 * ms, true, false, 0}, {7, 1100 * ms, 9200 * ms, true, true, 1}, {7, 1300 * ms, 9400 * ms, true, true, 0}, {7, 1310 * ms, 9420 * ms, true, true, 0.1},
		{7, 1320 * ms, 13_420 * ms, true, true, 1.9}, {7, 0, 0, false, false, 0}, {8, 1000 * ms, 20_000 * ms, true, false, 0}, {8, 1000 * ms, 20_200 * ms, true, true, 2}} {
		at = at.Add(measuredOver)
		p.measure(step.pid, 2, at, step.used, step.busy, step.ok)
		if p.known != step.known || p.known && math.Abs(p.others/float64(time.Second)-step.want) > 1e-9 {
			t.Errorf("step %d: known %v, others %v; expected %v, %v processors", i, p.known, p.others, step.known, step.want)
		}
	}
	resources := []culprit.Resource{{Name: "processor (2)", Kind: culprit.System}, {Name: "processor", Kind: culprit.System}, {Name: "processor (x)", Kind: culprit.System}}
	p = processors{}
	origins := []taskfile.Origin{{PID: os.Getpid()}}
	p.look(resources, origins, at)
	if resources[0].Name != "processor" || resources[0].Others != 0 || resources[1].Others != 0 || resources[2].Name != "processor (x)" {
		t.Errorf("%+v", resources)
	}
	resources[0].Name = "processor (1000)"
	if p.look(resources, origins, at.Add(time.Second)); resources[0].Name != "processor" || resources[0].Others < 0 {
		t.Errorf("%+v", resources[0])
	}
}
