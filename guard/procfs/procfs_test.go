package procfs

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/spillgate/spillgate/internal/procstat"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		sched, io string
		ok        bool
		want      Usage
	}{
		{"100 200 3\n", "rchar: 7\nwchar: 8\nsyscr: 1\n", true, Usage{CPU: 100, Delay: 200, Read: 7, Written: 8, IO: true}},
		{"100 200 3", "rchar: 7\n", true, Usage{CPU: 100, Delay: 200}},
		{"1 2", "rchar: x\nwchar: 1\n", true, Usage{CPU: 1, Delay: 2}},
		{"", "", false, Usage{}}, {"a b c", "", false, Usage{}}, {"1", "", false, Usage{}}, {"-1 0 0", "", false, Usage{}},
	} {
		var u Usage
		ok := u.parseSched([]byte(tt.sched))
		if ok {
			u.parseIO([]byte(tt.io))
		}
		if ok != tt.ok || u != tt.want {
			t.Errorf("%q, %q: %+v, %v; expected %+v, %v", tt.sched, tt.io, u, ok, tt.want, tt.ok)
		}
	}
}

func TestThisProcess(t *testing.T) {
	pid := int64(os.Getpid())
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("no /proc/self/schedstat on this system")
	}
	before, ok := Process(pid)
	if !ok {
		t.Fatal("this process is not there")
	}
	first, ok := Thread(pid, pid) // its input and output is a part of the process's
	if !ok || first.Read > before.Read+1<<20 {
		t.Errorf("%+v of a thread of %+v", first, before)
	}
	for began := time.Now(); time.Since(began) < time.Millisecond; {
	}
	if thread, ok := Thread(pid, pid); !ok || thread.CPU < first.CPU || thread.Read < first.Read {
		t.Errorf("%+v after %+v", thread, first)
	}
	if after, ok := Process(pid); !ok || after.CPU < before.CPU || after.Read < before.Read {
		t.Errorf("%+v after %+v", after, before)
	}
	if _, ok := Process(-1); ok || Beside(-1, "") {
		t.Error("a process -1 is there")
	}
	if Beside(pid, "postgres") {
		t.Error("this process is taken for postgres")
	}
}

func TestBusy(t *testing.T) {
	for text, want := range map[string]time.Duration{"cpu  1 2 3 400 500 4 5 6 0 0\ncpu0 1\n": 210 * time.Millisecond, "cpu 1 2\n": -1, "": -1, "cpu a b c d e f g h": -1} {
		got, ok := parseBusy([]byte(text))
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	if m := (Meter{before: time.Second, busy: 3 * time.Second}); m.Part(500*time.Millisecond) != 0.25 || m.Part(time.Minute) != 1 {
		t.Error("500 ms of 2 s is no quarter")
	}
	if n := parseProcessors([]byte("cpu  1 2\ncpu0 1\ncpu1 1\ncpuidle 1\nintr 5\n")); n != 2 {
		t.Errorf("%d processors, expected 2", n)
	}
	m := Meter{before: time.Second, busy: 2 * time.Second, processors: 2}
	if all, part := m.Load(time.Second, 500*time.Millisecond); all != 0.5 || part != 0.25 {
		t.Errorf("a load of %v and of it %v, expected a half and a quarter", all, part)
	}
	if all, part := (&Meter{processors: 2}).Load(time.Second, time.Second); all != 0 || part != 0 {
		t.Error("a first look knows the load")
	}
	if m := (Meter{busy: time.Second}); m.Part(time.Millisecond) != 1 {
		t.Error("a first look knows the machine")
	}
}

// Of the lines of /proc/stat those count whose processors a process may use.
func TestBusyFor(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 0 0 90 0 0 0 0 0 0\ncpu1 2 1 0 90 9 0 0 0 0 0\ncpu2 4 0 0 90 0 1 1 1 0 0\ncpu12 50 0 0 90 0 0 0 0 0 0\nintr 1 2\n"
	for list, want := range map[string]struct {
		busy time.Duration
		n    int
	}{"0": {10 * time.Millisecond, 1}, "0-1": {40 * time.Millisecond, 2}, "2,12-15": {570 * time.Millisecond, 2}, "0-4095": {610 * time.Millisecond, 4},
		"7": {}, "": {}, "0-": {}, "x": {}, "1-0": {}} {
		busy, n := parseBusyOf([]byte(stat), procstat.Allowed([]byte("Name:\tjava\nCpus_allowed:\tff\nCpus_allowed_list:\t"+list+"\nMems_allowed:\t1\n")))
		if busy != want.busy || n != want.n {
			t.Errorf("%q: %v of %d processors, expected %v of %d", list, busy, n, want.busy, want.n)
		}
	}
	if busy, n := parseBusyOf([]byte("cpu0 1 0 0 90 0 0 0\n"), procstat.Set{{0, 0}}); busy != 0 || n != 0 {
		t.Errorf("a line that is too short: %v of %d processors", busy, n)
	}
	if _, n := BusyFor(int64(os.Getpid())); n == 0 && runtime.GOOS == "linux" {
		t.Error("this process may use no processor")
	}
}

// The time of all threads is there, whatever the name of the program is.
func TestCPU(t *testing.T) {
	if used, ok := parseCPU([]byte("7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 6 7 20 0 9 0 100 1 1")); !ok || used != 2*time.Second {
		t.Errorf("%v, %v, expected 2 s", used, ok)
	}
	for _, text := range []string{"", "7 (a", "7 (a) S 1 7 7 0 -1 4194304 1 2 3 4 150", "7 (a) S 1 7 7 0 -1 4194304 1 2 3 4 x 50 6", "7 (a) S 1 7 7 0 -1 4194304 1 2 3 4 -1 50 6"} {
		if used, ok := parseCPU([]byte(text)); ok {
			t.Errorf("%q: %v", text, used)
		}
	}
	if _, ok := CPU(int64(os.Getpid())); !ok && runtime.GOOS == "linux" {
		t.Error("this process has none")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("1 2 3"), []byte("rchar: 1\nwchar: 2\n"))
	f.Fuzz(func(t *testing.T, sched, io []byte) {
		var u Usage
		if u.parseSched(sched) {
			u.parseIO(io)
		}
		if busy, _ := parseBusy(io); busy < 0 {
			t.Fatal(busy)
		}
		parseState(sched)
		if u.CPU < 0 || u.Delay < 0 || !u.IO && u.Read+u.Written > 0 {
			t.Fatalf("%+v", u)
		}
	})
}

func TestMeter(t *testing.T) {
	var m Meter
	at := func(cpu time.Duration) Usage { return Usage{CPU: cpu, Read: uint64(cpu), IO: true} }
	for i, step := range []struct{ now, want time.Duration }{{100, 0}, {150, 50}, {150, 0}, {20, 0}, {30, 10}} {
		m.Begin()
		if got := m.Since(7, at(step.now)); got.CPU != step.want || got.Read != uint64(step.want) {
			t.Errorf("look %d: %+v, expected %d", i, got, step.want)
		}
	}
	m.Begin()
	m.Begin()
	if got := m.Since(7, at(99)); got.CPU != 0 || len(m.looks) != 1 {
		t.Errorf("after a gap: %+v", got)
	}
}

// The name of a program may hold anything, parentheses too.
func TestParseState(t *testing.T) {
	for text, want := range map[string]State{"17 (mariadbd) D 1 2": Storing, "17 (a) S (b) R 1": Running, "17 (x) S": Sleeping, "17 (x)": Unknown, "17 D": Unknown, "": Unknown} {
		if got := parseState([]byte(text)); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}
