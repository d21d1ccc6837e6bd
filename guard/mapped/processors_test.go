package mapped

import (
	"os"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/culprit"
	"github.com/spillgate/spillgate/internal/taskfile"
)

// What a server does not use of its processors, others do, once it was looked at twice.
func TestProcessors(t *testing.T) {
	var p processors
	at := time.Now()
	for i, step := range []struct {
		pid   int64
		used  time.Duration
		ok    bool
		known bool
		want  float64 // processors
	}{{7, time.Second, true, false, 0}, {7, 1100 * time.Millisecond, true, true, 1}, {7, 1400 * time.Millisecond, true, true, 0}, {7, 0, false, false, 0},
		{7, time.Second, true, true, 0}, {8, time.Second, true, false, 0}, {8, time.Second, true, true, 2}} {
		at = at.Add(measuredOver)
		p.measure(step.pid, 2, at, step.used, step.ok)
		if p.known != step.known || p.known && p.others != step.want*float64(time.Second) {
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
	if p.look(resources, origins, at.Add(time.Second)); resources[0].Others <= 0 || resources[0].Others > 1000*float64(time.Second) {
		t.Errorf("%+v: expected that others use most of a thousand processors", resources[0])
	}
}
