package live

import (
	"math"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	for text, want := range map[string]hostTime{
		"cpu  100 20 30 400 50 6 7 8 9 1\ncpu0 1 2\n": {all: 621, idle: 450, stolen: 8},
		"cpu  100 20 30 400 50 6 7 8\n":               {all: 621, idle: 450, stolen: 8},
		"cpu  100 20 30 400 50 6 7\n":                 {},
		"cpu  100 20 30 400 50 6 7 x\n":               {},
		"cpu  100 20 30 400 50 6 7 8":                 {},
		"intr 1 2 3 4 5 6 7 8 9\n":                    {},
		"":                                            {},
	} {
		if got := parseStat([]byte(text)); got != want {
			t.Errorf("%q is read as %+v, want %+v", text, got, want)
		}
	}
	if hostProcessors().all == 0 {
		t.Error("/proc/stat of this machine cannot be read")
	}
}

// A process that may use some processors alone is told of those.
func TestPinned(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 0 0 4 1 0 0 0 0 0\ncpu1 10 0 0 40 10 0 0 0 0 0\ncpu3 100 0 0 400 100 0 0 0 0 0\nintr 1 2 3\n"
	for list, want := range map[string]hostTime{"0": {all: 6, idle: 5}, "1,3": {all: 660, idle: 550}, "0-1": {all: 66, idle: 55}, "2-3": {all: 600, idle: 500}} {
		c := parsePinned([]byte("Name:\tx\nCpus_allowed_list:\t"+list+"\nMems_allowed_list:\t0\n"), []byte(stat))
		if c == nil {
			t.Errorf("%s: all processors, expected some", list)
		} else if got := c.parse([]byte(stat)); got != want {
			t.Errorf("%s: %+v, expected %+v", list, got, want)
		}
	}
	for _, list := range []string{"0-3", "0-7", "", "a", "1-", "8"} { // all, or nothing that can be read
		if c := parsePinned([]byte("Cpus_allowed_list:\t"+list+"\n"), []byte(stat)); c != nil {
			t.Errorf("%q: %+v, expected all processors", list, c)
		}
	}
	c := parsePinned([]byte("Cpus_allowed_list:\t0-1\n"), []byte(stat))
	if got := c.parse([]byte(stat[:60])); got != (hostTime{all: 6, idle: 5}) {
		t.Errorf("a line that is cut off counts: %+v", got)
	}
}

func TestShareOfTheHost(t *testing.T) {
	at := func(all, idle uint64) hostTime { return hostTime{all: all, idle: idle} }
	for _, c := range []struct {
		before, after hostTime
		want          float64
	}{
		{at(100, 50), at(200, 75), 0.75},
		{at(100, 50), at(200, 50), 1},
		{at(100, 50), at(100, 50), 0}, // no tick since
		{hostTime{}, at(200, 75), 0},  // the first look
		{at(100, 50), hostTime{}, 0},  // it cannot be read any more
		{at(100, 50), at(120, 40), 0}, // idle time never shrinks
		{at(100, 50), at(104, 55), 0}, // more idle than there was: rounding
	} {
		if got := c.after.since(c.before); got != c.want {
			t.Errorf("from %+v to %+v: %v is in use, want %v", c.before, c.after, got, c.want)
		}
	}
}

// What this process does not use of what is used, others do.
func TestWhatOthersUse(t *testing.T) {
	for _, c := range []struct {
		share float64
		used  time.Duration
		want  float64
	}{{0.75, time.Second, 0.25}, {0.5, time.Second, 0}, {0.4, time.Second, 0}, {1, 0, 1}, {0, 0, 0}} {
		if got := others(c.share, c.used, time.Second, 2); got != c.want {
			t.Errorf("%v in use, %v used in a second: others %v, expected %v", c.share, c.used, got, c.want)
		}
	}
}

// Where others use processors a goroutine lacks one for no longer than the threads waited in all. What cannot be measured may be all of the time.
func TestLack(t *testing.T) {
	const ms = time.Millisecond
	var b busy
	for _, step := range []struct {
		what   string
		others float64
		stolen float64
		delay  time.Duration
		want   float64
	}{
		{"others use next to nothing", 0.05, 0, 0, 0.05},
		{"the first look", 0.5, 0, 700 * ms, 1},
		{"and the look after it", 0.5, 0, 710 * ms, 1},
		{"the threads waited a tenth", 0.5, 0, 720 * ms, 0.1},
		{"a hypervisor had the processors as well", 0.5, 0.25, 730 * ms, 0.35},
		{"it still counts", 0.5, 0, 730 * ms, 0.35},
		{"many threads waited", 0.9, 0, 1000 * ms, 1},
		{"a thread has ended", 0.9, 0, 900 * ms, 1},
		{"it cannot be read", 0.9, 0, 0, 1},
	} {
		b.others = step.others
		b.lacks(100*ms, step.stolen, func() time.Duration { return step.delay })
		if math.Abs(b.lack-step.want) > 1e-9 {
			t.Errorf("%s: %v, expected %v", step.what, b.lack, step.want)
		}
	}
}

func TestThreadDelay(t *testing.T) {
	for text, want := range map[string]time.Duration{"12 34 5\n": 34, "12 34": 0, "12 -1 5": 0, "a b c": 0, "": 0, "1 99999999999999999999 1": 0} {
		if got := parseDelay([]byte(text)); got != want {
			t.Errorf("%q: %v, expected %v", text, got, want)
		}
	}
	before := threadDelay()
	if after := threadDelay(); after < before {
		t.Errorf("the threads waited %v, and then %v", before, after)
	}
}
