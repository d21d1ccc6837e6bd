package procstat

import (
	"slices"
	"testing"
)

func TestAllowed(t *testing.T) {
	for list, want := range map[string]Set{
		"0": {{0, 0}}, "0-3,8": {{0, 3}, {8, 8}}, "": nil, "a": nil, "1-": nil, "0,x": nil,
	} {
		if got := Allowed([]byte("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t" + list + "\nMems_allowed:\t1\n")); !slices.Equal(got, want) {
			t.Errorf("%q allows %v, want %v", list, got, want)
		}
	}
	if s := (Set{{0, 3}, {8, 8}}); !s.Has(0) || !s.Has(3) || !s.Has(8) || s.Has(4) || s.Has(9) {
		t.Errorf("%v has others than 0 to 3 and 8", s)
	}
}

func TestProcessor(t *testing.T) {
	for line, want := range map[string]int{"cpu0 1 2": 0, "cpu12 1 2": 12, "cpu  1 2": -1, "cpuidle 1": -1, "cpu-1 1": -1, "intr 5": -1, "": -1} {
		if n, ok := Processor([]byte(line)); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q is of processor %d, %v; want %d", line, n, ok, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("cpu0 1 0 0 4 1 0 0 0 0 0\n"))
	f.Add([]byte("Cpus_allowed_list:\t0-3,8\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if n, ok := Processor(text); ok && n < 0 {
			t.Errorf("%q is of processor %d", text, n)
		}
		if times, _ := ParseTimes(text); times.Idle > times.All {
			t.Errorf("%q is idle for longer than it is there: %+v", text, times)
		}
		Allowed(text).Has(0)
	})
}
