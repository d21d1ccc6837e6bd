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
		pid      int64
		own, all time.Duration
		of       int
		known    bool
		want     float64 // processors
	}{{7, 1000 * ms, 9000 * ms, 2, false, 0}, {7, 1100 * ms, 9200 * ms, 2, true, 1}, {7, 1300 * ms, 9400 * ms, 2, true, 0}, {7, 1310 * ms, 9420 * ms, 2, true, 0.1},
		{7, 1320 * ms, 13_420 * ms, 2, true, 1.9}, {7, 0, 0, 0, false, 0}, {8, 1000 * ms, 20_000 * ms, 2, false, 0}, {8, 1000 * ms, 20_200 * ms, 2, true, 2},
		// It may run on any of four, two at once: others that use two of these are not in its way.
		{8, 1000 * ms, 30_000 * ms, 4, false, 0}, {8, 1100 * ms, 30_300 * ms, 4, true, 0}, {8, 1100 * ms, 30_600 * ms, 4, true, 1}, {8, 1110 * ms, 31_000 * ms, 4, true, 1.9}} {
		at = at.Add(measuredOver)
		p.measure(step.pid, 2, at, usage{step.own, step.all, step.of})
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
	resources[0].Name, resources[1].Name = "processor (1000)", "processor (2)" // a file may say anything
	if p.look(resources, origins, at.Add(time.Second)); resources[0].Name != "processor" || !(resources[0].Others >= 0) || !(resources[1].Others >= 0) {
		t.Errorf("%+v", resources)
	}
}

// While a server has no tasks, what others use is measured all the same, and not what they used when it had some last.
func TestProcessorsOfAnIdleServer(t *testing.T) {
	var p processors
	at := time.Now()
	for range 2 {
		at = at.Add(time.Second)
		p.look(nil, []taskfile.Origin{{PID: os.Getpid()}}, at)
	}
	p.taken, p.share = 7, 7
	if p.look(nil, nil, at.Add(time.Second)); p.taken > 1 || p.share > 1 {
		t.Errorf("others took %v, %v of what was used, as before", p.taken, p.share)
	}
}
