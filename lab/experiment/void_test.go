package experiment

import (
	"strings"
	"testing"
)

func TestOnlyTheMachineVoidsAndOnlyWhatItExplains(t *testing.T) {
	late, stolen := []string{"sent late"}, []string{"the host stole"}
	for _, c := range []struct {
		what     string
		machine  Machine
		measured float64 // wanted: at least 1
		void     bool
		says     string
	}{
		{"a quiet miss is a miss", Machine{}, 0.5, false, "1 of 1 bars missed"},
		{"a quiet success is one", Machine{}, 2, false, ""},
		{"our disturbed run that misses says nothing", Machine{Ours: late}, 0.5, true, "too busy to judge"},
		{"one that reaches its bar does", Machine{Ours: late}, 2, false, ""},
		{"beside a disturbed contender, success says nothing", Machine{Theirs: stolen}, 2, true, "the host stole"},
		{"but a miss is a miss all the more", Machine{Theirs: stolen}, 0.5, false, "1 of 1 bars missed"},
		{"both disturbed, missed", Machine{Ours: late, Theirs: stolen}, 0.5, true, "sent late"},
		{"both disturbed, reached", Machine{Ours: late, Theirs: stolen}, 2, true, "the host stole"},
	} {
		r := &Result{}
		r.On(c.machine, func() { r.Floor("goodput", "", 1, 0, c.measured) })
		if got := r.Bars[0].Void != ""; got != c.void || len(r.Void) > 0 != c.void {
			t.Errorf("%s: void is %v (%q), want %v", c.what, got, r.Void, c.void)
		}
		err := r.Error()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", c.what, err, c.says)
		}
		if r.Bars[0].Measured != c.measured || !strings.Contains(r.BarTable().Text(200), "goodput") {
			t.Errorf("%s: the figure is not shown: %v", c.what, r.Bars[0])
		}
	}
}

// A void covers what the disturbed run enters; a miss elsewhere fails the experiment,
// also where runs were disturbed that enter no bar.
func TestAVoidHidesNoOtherMiss(t *testing.T) {
	r := &Result{Void: []string{"a run that enters no bar: late"}}
	r.On(Machine{Ours: []string{"late"}}, func() { r.Floor("disturbed", "", 1, 0, 0) })
	r.Floor("elsewhere", "", 1, 0, 0)
	if short := r.Short(); len(short) != 1 || short[0].Name != "elsewhere" {
		t.Errorf("missed: %v, want elsewhere alone", short)
	}
	err := r.Error()
	if err == nil || !strings.Contains(err.Error(), "1 of 2 bars missed, the first: elsewhere") || !strings.Contains(err.Error(), "disturbed 2") {
		t.Errorf("error %v, want the miss before what is void", err)
	}
}
